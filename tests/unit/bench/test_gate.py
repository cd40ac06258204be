"""The gate warns of what has become dearer by more than chance, and of nothing else."""

from __future__ import annotations

import json

import pytest

from bench.gate import instructions_of
from bench.gate.verdict import Figure, Method, Word, from_document, interpreter, judge, merged, to_document
from bench.gate.work import WORKS

HERE = interpreter()


def cpu(work: str, figure: float, interpreter: str = HERE) -> Figure:
    return Figure(work, Method.CPU.value, interpreter, figure)


@pytest.mark.parametrize(
    ("method", "figure", "word"),
    [
        (Method.CPU, 1.0, Word.SAME),
        (Method.CPU, 1.14, Word.SAME),
        (Method.CPU, 1.16, Word.WORSE),
        (Method.CPU, 0.86, Word.SAME),
        (Method.CPU, 0.84, Word.BETTER),
        (Method.INSTRUCTIONS, 1.01, Word.SAME),
        (Method.INSTRUCTIONS, 1.03, Word.WORSE),
        (Method.INSTRUCTIONS, 0.97, Word.BETTER),
    ],
)
def test_more_than_chance_is_worse_or_better(method: Method, figure: float, word: Word) -> None:
    stored = Figure("set", method.value, HERE, 1.0)
    (verdict,) = judge([Figure("set", method.value, HERE, figure)], [stored])
    assert verdict.word is word
    assert verdict.change == pytest.approx(figure - 1.0)


def test_figures_of_another_interpreter_method_or_work_are_not_compared() -> None:
    now = cpu("set", 9.0)
    others = [cpu("get", 1.0), cpu("set", 1.0, "another"), Figure("set", Method.INSTRUCTIONS.value, HERE, 1.0)]
    (verdict,) = judge([now], others)
    assert (verdict.word, verdict.change) == (Word.NEW, None)


def test_what_is_stored_replaces_its_like_alone() -> None:
    before = [cpu("set", 1.0), cpu("get", 2.0), cpu("set", 3.0, "another")]
    after = merged([cpu("set", 1.5)], before)
    assert sorted(each.figure for each in after) == [1.5, 2.0, 3.0]
    assert from_document(json.loads(json.dumps(to_document(after)))) == after


def test_valgrind_says_how_many() -> None:
    assert instructions_of("==1== \n==1== I   refs:      1,073,265,985\n") == 1_073_265_985
    with pytest.raises(ValueError, match="no instructions"):
        instructions_of("valgrind: fatal error")


@pytest.mark.parametrize("name", WORKS)
def test_works_do_what_they_say(name: str) -> None:
    """Each checks itself; and does so much that what a process does once hardly counts."""
    assert WORKS[name]() >= 1_000
