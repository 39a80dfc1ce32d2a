"""Results in the layout of lm-evaluation-harness: results_DATE.json and one samples_TASK_DATE.jsonl a task.

The keys are those that its readers look for; what is ours alone stands under "agentmath".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentmath.core.types import JSON, Group

_Z_975 = 1.959963984540054


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """One evaluation as it is handed to export."""

    task: str
    """Name of the task in the files: set.mode."""
    results: JSON
    groups: Sequence[Group]
    prompt_of: Callable[[Group], str]
    texts_of: Callable[[Group], list[str]]
    """What the model wrote and was given, sample by sample."""


def aggregate(done: Sequence[Exported], *, recipe: str, date: float, seconds: float) -> JSON:
    """The one file of figures. date: seconds since 1970."""
    first = done[0].results
    return {
        "results": {e.task: {"alias": e.task, **dict(_metrics(e.results))} for e in done},
        "group_subtasks": {e.task: [] for e in done},
        "configs": {e.task: _config(e) for e in done},
        "versions": {e.task: 1 for e in done},
        "n-shot": {e.task: 0 for e in done},
        "higher_is_better": {e.task: dict.fromkeys(e.results["estimates"], True) for e in done},
        "n-samples": {e.task: {"original": len(e.groups), "effective": e.results["num_problems"]} for e in done},
        "config": {
            "model": first["model"]["kind"],
            "model_args": first["model"],
            "random_seed": first["plan"]["seed"],
            "bootstrap_iters": 4000,
            "gen_kwargs": first["plan"]["sampling"],
        },
        "task_hashes": {e.task: e.results["plan"]["tasks"]["digest"] for e in done},
        "model_source": first["model"]["kind"],
        "model_name": first["model"].get("model") or first["model"].get("path") or "new",
        "date": date,
        "total_evaluation_time_seconds": str(round(seconds, 3)),
        "agentmath": {
            "recipe": recipe,
            "reproduce": "agentmath eval recipe.toml",
            "packages": first["versions"],
            "evaluations": {e.task: {k: v for k, v in e.results.items() if k != "recipe"} for e in done},
        },
    }


def sample_lines(exported: Exported) -> Iterator[str]:
    """One JSON line a problem: what was asked, every answer, and the verdicts."""
    for number, group in enumerate(exported.groups):
        graded = [t for t in group.trajectories if t.reward is not None]
        rewards = [t.reward for t in graded if t.reward is not None]
        task, prompt = group.task, exported.prompt_of(group)
        doc = {"id": task.id, "question": task.question, "answer": task.answer, "difficulty": task.difficulty}
        yield json.dumps(
            {
                "doc_id": number,
                "doc": doc,
                "target": task.answer,
                "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": exported.results["plan"]["sampling"]}},
                "resps": [exported.texts_of(group)],
                "filtered_resps": [r.extracted for r in rewards],
                "filter": "extracted",
                "metrics": ["exact_match"],
                "doc_hash": _hash(json.dumps(doc, sort_keys=True)),
                "prompt_hash": _hash(prompt),
                "target_hash": _hash(task.answer),
                "exact_match": sum(r.accuracy for r in rewards) / len(rewards) if rewards else None,
                "agentmath": {
                    "correct": [r.accuracy == 1.0 for r in rewards],
                    "rules": [r.rule for r in rewards],
                    "sample_index": [t.sample_index for t in graded],
                    "stop_reasons": [str(t.stop_reason) for t in graded],
                    "num_tool_calls": [t.num_tool_calls for t in graded],
                    "num_sampled_tokens": [t.num_sampled_tokens for t in graded],
                    "num_failed": len(group.trajectories) - len(graded),
                },
            }
        )


def _metrics(results: JSON) -> Iterator[tuple[str, float]]:
    """Each figure, and the standard error that its interval amounts to."""
    accuracy = results["estimates"][f"avg@{results['num_samples']}"]
    for name, estimate in {"exact_match": accuracy, **results["estimates"], **results["shares"]}.items():
        yield f"{name},none", estimate["value"]
        yield f"{name}_stderr,none", (estimate["high"] - estimate["low"]) / (2 * _Z_975)


def _config(exported: Exported) -> Mapping[str, object]:
    plan = exported.results["plan"]
    return {
        "task": exported.task,
        "output_type": "generate_until",
        "num_fewshot": 0,
        "repeats": plan["sampling"]["num_samples"],
        "generation_kwargs": plan["sampling"],
        "metadata": {"version": 1, **{k: plan[k] for k in ("mode", "prompt", "rollout", "grading", "tasks")}},
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
