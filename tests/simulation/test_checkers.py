"""For every promise stories in which it is broken, case to its checker alone, which must object.

And the same stories with the fault taken out, to which it must not. A checker that can never fail would
pass all of the second kind and none of the first. The stories stand in `tests.histories.zab`.
"""

from __future__ import annotations

import pytest

from harness.checkers import ALL, Checker, Judge, OracleState, Violation
from harness.checkers.primary_order import GlobalPrimaryOrder
from tests.histories.zab import EXAMPLES, Example, Scenario
from tests.histories.zab.scenario import ENSEMBLE

IDS = [f"{case.checker.__name__}-{name}" for name, case in EXAMPLES.items()]


@pytest.mark.parametrize("case", EXAMPLES.values(), ids=IDS)
def test_it_objects(case: Example) -> None:
    step = None if case.step is None else f"takes the step {case.step.name}, which requires that "
    with pytest.raises(Violation, match=step) as caught:
        case.build(Scenario(case.checker), True)
    assert caught.value.invariant == case.checker.invariant


@pytest.mark.parametrize("case", EXAMPLES.values(), ids=IDS)
def test_it_does_not_object_without_reason(case: Example) -> None:
    case.build(Scenario(case.checker), False)


def test_every_checker_has_a_story() -> None:
    assert {case.checker for case in EXAMPLES.values()} == set(ALL)


def test_every_promise_has_one_name() -> None:
    assert len({checker.invariant for checker in ALL}) == len(ALL)
    assert all(checker.invariant for checker in ALL)


def test_a_checker_is_asked_only_for_what_it_wants() -> None:
    judge = Judge(OracleState(ENSEMBLE, 4), [GlobalPrimaryOrder])
    facts = [name for name, fact in vars(Checker).items() if callable(fact) and name not in ("__init__", "fail")]
    assert [fact for fact in facts if judge.concerned(fact, again=False)] == ["applied"]
    assert not any(judge.concerned(fact, again=True) for fact in facts)
