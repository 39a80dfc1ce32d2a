"""How long a search for evaluation questions in training rows takes, how much memory, and what it finds.

    python bench/decontaminate.py --json [--rows 1000000] [--questions 5000] [--words 100] [--planted 1000]

Texts are drawn word by word from a vocabulary with Zipf's frequencies and seeded; every question ends in one of a few
closing formulas. Planted rows hold a question whole, in the middle of other words; decoys hold one with another number.
One process on one core. Files are written first, to a folder that is removed afterwards; that time is not counted.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from common import emit, record

from agentmath.data.contamination import read_set, search_file
from agentmath.data.decontaminate import EvaluationIndex, Rule, Verdict

_VOCABULARY = 50_000
_QUESTION_WORDS = 40
_CLOSINGS = (
    "where m and n are relatively prime positive integers. Find m + n.",
    "Express your answer in simplest radical form.",
    "What is the value of the sum of all possible values?",
)


class Words:
    """Draws texts; word number k of the vocabulary has a frequency of 1 / k."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        letters = random.Random("vocabulary")
        self._words = ["".join(letters.choices("abcdefghiklmnoprstu", k=2 + i % 9)) for i in range(_VOCABULARY)]
        self._weights = list(accumulate(1 / k for k in range(1, _VOCABULARY + 1)))

    def draw(self, count: int) -> list[str]:
        return self._random.choices(self._words, cum_weights=self._weights, k=count)

    def question(self) -> list[str]:
        numbers = map(str, self._random.sample(range(3, 1000), 4))
        story = self.draw(_QUESTION_WORDS)
        for number, place in zip(numbers, range(5, _QUESTION_WORDS, 9), strict=False):
            story[place] = number
        return [*story, *self._random.choice(_CLOSINGS).split()]

    def with_another_number(self, question: list[str]) -> list[str]:
        place = next(i for i, word in enumerate(question) if word.isdecimal())
        return [*question[:place], str(int(question[place]) + 1000), *question[place + 1 :]]


def rows(arguments: argparse.Namespace, questions: list[list[str]]) -> Iterator[dict[str, str]]:
    """Training rows; "kind" says which are planted."""
    words = Words(arguments.seed + 1)
    every = max(arguments.rows // (2 * arguments.planted), 1) if arguments.planted else arguments.rows + 1
    for i in range(arguments.rows):
        kind = ("plain", "planted", "decoy")[0 if i % every else 1 + i // every % 2]
        text = words.draw(arguments.words)
        if kind != "plain":
            question = questions[i // every // 2 % len(questions)]
            held = question if kind == "planted" else words.with_another_number(question)
            text = [*text[: arguments.words // 3], *held, *text[arguments.words // 3 :]]
        yield {"id": f"{kind}-{i}", "question": " ".join(text)}


def write(path: Path, lines: Iterator[dict[str, str]]) -> None:
    with path.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(line) + "\n" for line in lines)


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    source = Words(arguments.seed)
    questions = [source.question() for _ in range(arguments.questions)]
    write(folder / "eval.jsonl", ({"id": str(i), "question": " ".join(q)} for i, q in enumerate(questions)))
    write(folder / "train.jsonl", rows(arguments, questions))
    del source

    began = time.perf_counter()
    evaluation = read_set(str(folder / "eval.jsonl"), "eval")
    index = EvaluationIndex(evaluation.questions, Rule(candidates=arguments.candidates))
    indexed, before = time.perf_counter(), time.process_time()
    indexed_bytes = peak_bytes()
    found = search_file(str(folder / "train.jsonl"), index, {"eval": evaluation})
    seconds, cpu_seconds = time.perf_counter() - indexed, time.process_time() - before

    searched_bytes = peak_bytes()
    kinds = [kind for kind, _ in kinds_of(folder / "train.jsonl")]
    planted = {number for number, kind in enumerate(kinds, start=1) if kind == "planted"}
    contaminated = {number for number, verdict in found.verdicts.items() if verdict is Verdict.CONTAMINATED}
    hits = len(planted & contaminated)
    return {
        "rows": found.num_rows,
        "bytes": (folder / "train.jsonl").stat().st_size,
        "index_seconds": indexed - began,
        "search_seconds": seconds,
        "search_cpu_seconds": cpu_seconds,
        "rows_per_second": found.num_rows / seconds,
        "cpu_minutes_per_million_rows": cpu_seconds / found.num_rows * 1e6 / 60,
        "peak_bytes": searched_bytes,
        "peak_bytes_of_the_index": indexed_bytes,
        "planted": len(planted),
        "recall": hits / len(planted) if planted else None,
        "precision": hits / len(contaminated) if contaminated else None,
        "variants": sum(verdict is Verdict.VARIANT for verdict in found.verdicts.values()),
        "decoys": kinds.count("decoy"),
    }


def kinds_of(path: Path) -> Iterator[tuple[str, str]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            kind, _, number = json.loads(line)["id"].partition("-")
            yield kind, number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--questions", type=int, default=5000)
    parser.add_argument("--words", type=int, default=100, help="in a training row without a question")
    parser.add_argument("--planted", type=int, default=1000, help="rows that hold a question, and as many decoys")
    parser.add_argument("--candidates", choices=("index", "minhash"), default="index")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", help="where the files are made; the system's folder for such by default")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        measured = measure(arguments, Path(folder))
    lines = [
        f"{name} {value:,.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in measured.items()
    ]
    emit(record("decontaminate", vars(arguments), measured), as_json=arguments.json, lines=lines)


if __name__ == "__main__":
    main()
