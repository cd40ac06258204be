"""Who leads, case by case. Brokers 1, 2 and 3 hold the partition, in this order, unless said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_controller.core.names import NO_LEADER, BrokerId, ControllerEpoch, LeaderEpoch, Version
from kraft_controller.core.state import Assignment, PartitionState, Recovery
from kraft_controller.core.topics import leader_election

BY = ControllerEpoch(7)


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)


AR = ids(1, 2, 3)


def state(leader: int, *isr: int) -> PartitionState:
    return PartitionState(BrokerId(leader), ids(*isr), LeaderEpoch(4), ControllerEpoch(6), version=Version(9))


@pytest.mark.mechanism(38)
def test_leader_is_chosen_in_the_order_of_the_assignment() -> None:
    chosen = leader_election.offline(AR, state(1, 3, 2, 1), {2, 3}, BY)
    assert chosen is not None
    assert chosen.state.leader == 2
    assert chosen.state.isr == (3, 2)
    assert chosen.recipients == (2, 3)
    assert not chosen.unclean


@pytest.mark.mechanism(84)
def test_election_takes_the_next_leader_epoch_and_keeps_the_version() -> None:
    chosen = leader_election.offline(AR, state(1, 1, 2), {2, 3}, BY)
    assert chosen is not None
    assert (chosen.state.leader_epoch, chosen.state.controller_epoch, chosen.state.version) == (5, 7, 9)


@pytest.mark.mechanism(10, 40)
def test_no_leader_without_a_live_isr_member() -> None:
    assert leader_election.offline(AR, state(1, 1), {2, 3}, BY) is None


@pytest.mark.mechanism(40)
def test_unclean_election_takes_any_live_replica() -> None:
    chosen = leader_election.offline(AR, state(1, 1), {2, 3}, BY, unclean=True)
    assert chosen is not None
    assert chosen.unclean
    assert (chosen.state.leader, chosen.state.isr, chosen.state.recovery) == (2, (2,), Recovery.RECOVERING)


def test_unclean_election_prefers_the_isr() -> None:
    chosen = leader_election.offline(AR, state(1, 1, 3), {2, 3}, BY, unclean=True)
    assert chosen is not None
    assert (chosen.state.leader, chosen.unclean, chosen.state.recovery) == (3, False, Recovery.RECOVERED)


def test_no_leader_if_all_replicas_failed() -> None:
    assert leader_election.offline(AR, state(1, 1, 2), frozenset(), BY, unclean=True) is None


def test_reassignment_elects_in_the_order_of_the_target() -> None:
    chosen = leader_election.reassigned(ids(5, 4), state(1, 1, 4, 5), {1, 4, 5}, BY)
    assert chosen is not None
    assert (chosen.state.leader, chosen.state.isr, chosen.recipients) == (5, (1, 4, 5), (5, 4))
    chosen = leader_election.reassigned(ids(5, 4), state(1, 1, 4, 5), {4}, BY)
    assert chosen is not None
    assert (chosen.state.leader, chosen.state.isr) == (4, (4,))
    assert leader_election.reassigned(ids(5, 4), state(1, 1), {4, 5}, BY) is None


def test_preferred_election_takes_the_first_replica_or_none() -> None:
    chosen = leader_election.preferred(AR, state(2, 1, 2), {1, 2}, BY)
    assert chosen is not None
    assert (chosen.state.leader, chosen.state.isr, chosen.recipients) == (1, (1, 2), AR)
    assert leader_election.preferred(AR, state(2, 2, 3), {1, 2, 3}, BY) is None
    assert leader_election.preferred(AR, state(2, 1, 2), {2, 3}, BY) is None


def test_shutdown_election_notifies_the_stopping_broker() -> None:
    chosen = leader_election.controlled_shutdown(AR, state(1, 1, 2, 3), {2, 3}, {1}, BY)
    assert chosen is not None
    assert (chosen.state.leader, chosen.state.isr, chosen.recipients) == (2, (2, 3), AR)
    assert leader_election.controlled_shutdown(AR, state(1, 1), {2, 3}, {1}, BY) is None


@pytest.mark.mechanism(54)
def test_last_isr_member_stays_recorded() -> None:
    assert leader_election.without(state(2, 1, 2), BrokerId(3), BY) is None
    shrunk = leader_election.without(state(2, 1, 2), BrokerId(1), BY)
    assert shrunk is not None
    assert (shrunk.leader, shrunk.isr, shrunk.leader_epoch) == (2, (2,), 5)
    last = leader_election.without(state(2, 2), BrokerId(2), BY)
    assert last is not None
    assert (last.leader, last.isr) == (NO_LEADER, (2,))


sets = st.frozensets(st.integers(1, 5))


@given(
    replicas=st.permutations([1, 2, 3, 4, 5]), size=st.integers(1, 5), isr=st.permutations([1, 2, 3, 4, 5]),
    keep=st.integers(1, 5), live=sets, leaving=sets, unclean=st.booleans(),
)  # fmt: skip
def test_always(
    replicas: list[int], size: int, isr: list[int], keep: int, live: set[int], leaving: set[int], unclean: bool
) -> None:
    held = ids(*replicas[:size])
    in_sync = tuple(member for member in ids(*isr[:keep]) if member in held) or held[:1]
    before = PartitionState(in_sync[0], in_sync, LeaderEpoch(3), ControllerEpoch(2))
    there = {broker for broker in live if broker not in leaving}
    for chosen in (
        leader_election.offline(held, before, live, BY, unclean=unclean),
        leader_election.reassigned(held, before, live, BY),
        leader_election.preferred(held, before, live, BY),
        leader_election.controlled_shutdown(held, before, there, leaving, BY),
    ):
        if chosen is None:
            continue
        after = chosen.state
        assert after.leader in after.isr
        assert after.leader in live
        assert set(after.isr) <= set(held)
        assert after.leader_epoch == 4
        assert after.leader in before.isr or chosen.unclean
        assert set(chosen.recipients) <= set(held)


def test_assignment_during_a_reassignment() -> None:
    moving = Assignment(ids(1, 2, 3)).to(ids(4, 5, 6))
    assert moving == Assignment(ids(4, 5, 6, 1, 2, 3), adding=ids(4, 5, 6), removing=ids(1, 2, 3))
    assert (moving.origin, moving.target, moving.moving) == (ids(1, 2, 3), ids(4, 5, 6), True)
    assert moving.arrived() == Assignment(ids(4, 5, 6))


def test_redirected_reassignment_keeps_its_origin() -> None:
    again = Assignment(ids(1, 2, 3)).to(ids(4, 5, 6)).to(ids(2, 7))
    assert again == Assignment(ids(2, 7, 1, 3), adding=ids(7), removing=ids(1, 3), before=ids(1, 2, 3))


def test_cancelled_reassignment_restores_the_origin() -> None:
    moving = Assignment(ids(1, 2)).to(ids(3, 4))
    assert moving.to(moving.origin).arrived() == Assignment(ids(1, 2))
    moving = Assignment(ids(1, 2)).to(ids(3, 2))
    assert moving.to(moving.origin) == Assignment(ids(1, 2))  # who was preferred is so again


def test_cancelled_reassignment_without_recorded_order_restores_the_brokers() -> None:
    """Another controller has written the node anew, without the key that it does not know; or it holds nonsense."""
    for before in ((), ids(1, 9), ids(1, 2, 3)):
        moving = Assignment(ids(3, 2, 1), adding=ids(3), removing=ids(1), before=before)
        assert moving.to(moving.origin) == Assignment(ids(2, 1))
