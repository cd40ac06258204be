"""Examples for every invariant of ZAB: its checker must report the run with the violation, and accept the legal one.

The examples are in `tests.histories.zab`.
"""

from __future__ import annotations

import pytest

from harness.checkers import ALL, Checker, Judge, OracleState, Violation
from harness.checkers.primary_order import GlobalPrimaryOrder
from tests.histories.zab import EXAMPLES, Example, Scenario
from tests.histories.zab.scenario import ENSEMBLE

IDS = [f"{example.checker.__name__}-{name}" for name, example in EXAMPLES.items()]


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=IDS)
def test_checker_reports_the_violation(example: Example) -> None:
    step = None if example.step is None else f"takes the step {example.step.name}, which requires that "
    with pytest.raises(Violation, match=step) as caught:
        example.build(Scenario(example.checker), True)
    assert caught.value.invariant == example.checker.invariant


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=IDS)
def test_checker_accepts_the_legal_run(example: Example) -> None:
    example.build(Scenario(example.checker), False)


def test_every_checker_has_an_example() -> None:
    assert {example.checker for example in EXAMPLES.values()} == set(ALL)


def test_every_invariant_has_one_name() -> None:
    assert len({checker.invariant for checker in ALL}) == len(ALL)
    assert all(checker.invariant for checker in ALL)


def test_checker_receives_only_its_events() -> None:
    judge = Judge(OracleState(ENSEMBLE, 4), [GlobalPrimaryOrder])
    facts = [name for name, fact in vars(Checker).items() if callable(fact) and name not in ("__init__", "fail")]
    assert [fact for fact in facts if judge.concerned(fact, again=False)] == ["applied"]
    assert not any(judge.concerned(fact, again=True) for fact in facts)
