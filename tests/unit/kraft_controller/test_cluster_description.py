"""What the campaign that kills controllers takes for right: no more than must be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.worlds.processes.controllers.settled import Expected, Unsettled, _check_state, _stays_unfinished
from kraft_controller.core.names import NO_LEADER, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from kraft_controller.core.state import Assignment, PartitionState

T0 = TopicPartition("t", 0)


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def state(leader: int, *isr: int) -> PartitionState:
    return PartitionState(BrokerId(leader), ids(*isr), LeaderEpoch(0), ControllerEpoch(1))


MOVING = Assignment(ids(3, 1), ids(3), ids(1))
"""From 1 to 3."""
REFUSED = "reassignment_refused partition=t-0 why=brokers [3] are not alive, and would have to begin\n"


def logs(said: str) -> Callable[[int], str]:
    return lambda ident: f"of before {said}" if ident == 2 else ""


def look(
    held: Assignment, *, away: int | None = None, led: int = 1, said: str = "", dead: tuple[int, ...] = (3,)
) -> bool:
    wanted = Expected({T0: ids(3)}, {T0: ids(1)}, set(dead), {2: len("of before ")})
    return _stays_unfinished(wanted, logs(said), T0, held, state(led, 1), away)


def test_move_to_an_offline_broker_stays() -> None:
    assert look(MOVING, away=3)


def test_move_stays_while_the_only_source_is_offline() -> None:
    assert look(MOVING, away=1, led=NO_LEADER)


@pytest.mark.parametrize("away", [None, 2, 1])
def test_any_other_move_must_end(away: int | None) -> None:
    with pytest.raises(Unsettled, match="is being reassigned"):
        look(MOVING, away=away)


def test_arrived_moves_are_valid() -> None:
    assert not look(Assignment(ids(3)))


def test_refusal_because_of_a_killed_broker_is_valid() -> None:
    assert not look(Assignment(ids(1)), said=REFUSED)


@pytest.mark.parametrize(
    ("said", "dead"),
    [("", (3,)), (REFUSED, (2,)), (REFUSED.replace("t-0", "t-1"), (3,)), (REFUSED.replace("not alive", "ours"), (3,))],
    ids=["nothing was said", "another was killed", "of another", "for another reason"],
)
def test_unmoved_replica_without_a_reason_is_invalid(said: str, dead: tuple[int, ...]) -> None:
    with pytest.raises(Unsettled, match="were requested"):
        look(Assignment(ids(1)), said=said, dead=dead)


def test_reports_of_an_earlier_round_are_ignored() -> None:
    wanted = Expected({T0: ids(3)}, {T0: ids(1)}, {3}, {2: 1_000})
    with pytest.raises(Unsettled):
        _stays_unfinished(wanted, logs(REFUSED), T0, Assignment(ids(1)), state(1, 1), None)


@pytest.mark.parametrize(
    ("held", "found", "away", "right"),
    [
        (ids(1, 2), state(1, 1, 2), None, True),
        (ids(1, 2), state(1, 1), None, False),
        (ids(1, 2), state(1, 1), 2, True),
        (ids(1, 2), state(2, 2), 2, False),
        (ids(2,), state(NO_LEADER, 2), 2, True),
        (ids(1, 2), state(NO_LEADER, 1), 2, False),
        (ids(1, 2), state(2, 1), None, False),
    ],
)  # fmt: skip
def test_leader_and_isr_are_read(
    held: tuple[BrokerId, ...], found: PartitionState, away: int | None, right: bool
) -> None:
    if right:
        _check_state(T0, Assignment(held), found, away)
    else:
        with pytest.raises(Unsettled):
            _check_state(T0, Assignment(held), found, away)
