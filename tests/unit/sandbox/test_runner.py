from __future__ import annotations

import linecache
from typing import Any

import pytest

from agentmath.sandbox import runner
from agentmath.sandbox.local import LocalSandbox
from agentmath.sandbox.runner import BlockEnd, run_block


def run(code: str, namespace: dict[str, Any] | None = None) -> BlockEnd:
    return run_block(code.encode(), namespace={} if namespace is None else namespace, name="<snippet 1>")


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("1 + 1", "2"),
        ("x = 3\nx", "3"),
        ("x = 3", None),
        ("None", None),
        ("print", "<built-in function print>"),
        ("'a'", "'a'"),
        ("", None),
        ("# only a comment", None),
        ("for i in range(3): i", None),
        ("1; 2", "2"),
        ("2;", "2"),
        ("(\n 1 +\n 2\n)", "3"),
        ("from __future__ import annotations\nx: nowhere = 1\nx", "1"),
        ("[x for x in range(3)]", "[0, 1, 2]"),
    ],
)
def test_only_a_trailing_expression_is_echoed(code: str, value: str | None) -> None:
    assert run(code) == BlockEnd(runner.FINISHED, value=value)


def test_a_long_value_is_cut() -> None:
    end = run("'x' * 100000")
    assert end.value is not None
    assert len(end.value) < 10_000
    assert end.value.endswith("...")


def test_blocks_share_a_namespace() -> None:
    namespace: dict[str, Any] = {}
    run("def f(n): return n * k\nk = 2", namespace)
    assert run("f(21)", namespace).value == "42"


def test_an_exception_is_told_by_its_first_own_line(capsys: pytest.CaptureFixture[str]) -> None:
    end = run("def f():\n    raise ValueError('bad\\nnews')\nf()")
    assert (end.outcome, end.exit_code, end.error) == (runner.EXCEPTION, 1, "ValueError: bad")
    assert "in f\n    raise ValueError('bad\\nnews')" in capsys.readouterr().err


def test_the_traceback_shows_no_line_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    run("1 / 0")
    assert "runner.py" not in capsys.readouterr().err


def test_a_syntax_error_is_an_exception_like_any_other() -> None:
    assert run("x = ").error == "SyntaxError: invalid syntax"


def test_an_exception_that_cannot_be_printed_is_still_named() -> None:
    code = "class Rude(Exception):\n    def __str__(self):\n        raise SystemExit\nraise Rude"
    assert run(code).error.startswith("Rude")


def test_a_value_whose_repr_raises_is_an_exception() -> None:
    assert run("class A:\n    def __repr__(self): return 1/0\nA()").error == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize(("argument", "code"), [("", 0), ("0", 0), ("3", 3), ("256", 0), ("-1", 255), ("'no'", 1)])
def test_exit_codes_are_what_the_kernel_would_make_of_them(argument: str, code: int) -> None:
    end = run(f"raise SystemExit({argument})")
    assert (end.outcome, end.exit_code) == (runner.EXIT, code)


def test_a_memory_error_is_told_apart() -> None:
    assert run("raise MemoryError").outcome == runner.MEMORY


def test_code_that_cannot_be_encoded_is_an_exception() -> None:
    end = run_block(b"'\xed\xa0\x80'", namespace={}, name="<snippet 1>")
    assert end.outcome == runner.EXCEPTION


def test_a_rehearsal_leaves_nothing_for_the_first_block_to_find(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    reports: list[tuple[object, ...]] = []
    monkeypatch.setattr(linecache, "cache", {})

    def encode(*report: object) -> bytes:
        reports.append(report)
        return b""

    runner.rehearse(encode)
    assert reports == [(runner.FINISHED, 0, 0, None, b"")]
    assert linecache.cache == {}
    assert capfd.readouterr() == ("", "")


def test_a_fresh_child_has_an_empty_namespace(sandbox: LocalSandbox) -> None:
    result = sandbox.execute_blocking("sorted(name for name in globals() if not name.startswith('__'))")
    assert result.value == "[]"
