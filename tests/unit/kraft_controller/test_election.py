"""Who leads, case by case. Brokers 1, 2 and 3 hold the partition, in this order, unless said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_controller.core import election
from kraft_controller.core.names import NOBODY, BrokerId, ControllerEpoch, LeaderEpoch, Version
from kraft_controller.core.state import Assignment, PartitionState, Recovery

BY = ControllerEpoch(7)


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number) for number in numbers)


AR = ids(1, 2, 3)


def state(leader: int, *isr: int) -> PartitionState:
    return PartitionState(BrokerId(leader), ids(*isr), LeaderEpoch(4), ControllerEpoch(6), version=Version(9))


@pytest.mark.mechanism(38)
def test_the_order_of_the_assignment_counts_and_not_that_of_the_isr() -> None:
    chosen = election.offline(AR, state(1, 3, 2, 1), {2, 3}, BY)
    assert chosen is not None
    assert chosen.state.leader == 2
    assert chosen.state.isr == (3, 2)
    assert chosen.tell == (2, 3)
    assert not chosen.unclean


@pytest.mark.mechanism(84)
def test_each_decision_has_a_leader_epoch_of_its_own_and_holds_under_the_version_read() -> None:
    chosen = election.offline(AR, state(1, 1, 2), {2, 3}, BY)
    assert chosen is not None
    assert (chosen.state.leader_epoch, chosen.state.controller_epoch, chosen.state.version) == (5, 7, 9)


@pytest.mark.mechanism(10, 40)
def test_nobody_in_sync_is_alive_and_consistency_counts() -> None:
    assert election.offline(AR, state(1, 1), {2, 3}, BY) is None


@pytest.mark.mechanism(40)
def test_nobody_in_sync_is_alive_and_availability_counts() -> None:
    chosen = election.offline(AR, state(1, 1), {2, 3}, BY, unclean=True)
    assert chosen is not None
    assert chosen.unclean
    assert (chosen.state.leader, chosen.state.isr, chosen.state.recovery) == (2, (2,), Recovery.RECOVERING)


def test_an_unclean_election_is_a_clean_one_where_it_can_be() -> None:
    chosen = election.offline(AR, state(1, 1, 3), {2, 3}, BY, unclean=True)
    assert chosen is not None
    assert (chosen.state.leader, chosen.unclean, chosen.state.recovery) == (3, False, Recovery.RECOVERED)


def test_all_are_dead() -> None:
    assert election.offline(AR, state(1, 1, 2), frozenset(), BY, unclean=True) is None


def test_the_target_of_a_move_leads_in_its_own_order() -> None:
    chosen = election.reassigned(ids(5, 4), state(1, 1, 4, 5), {1, 4, 5}, BY)
    assert chosen is not None
    assert (chosen.state.leader, chosen.state.isr, chosen.tell) == (5, (1, 4, 5), (5, 4))
    chosen = election.reassigned(ids(5, 4), state(1, 1, 4, 5), {4}, BY)
    assert chosen is not None
    assert (chosen.state.leader, chosen.state.isr) == (4, (4,))
    assert election.reassigned(ids(5, 4), state(1, 1), {4, 5}, BY) is None


def test_the_preferred_one_or_nobody() -> None:
    chosen = election.preferred(AR, state(2, 1, 2), {1, 2}, BY)
    assert chosen is not None
    assert (chosen.state.leader, chosen.state.isr, chosen.tell) == (1, (1, 2), AR)
    assert election.preferred(AR, state(2, 2, 3), {1, 2, 3}, BY) is None
    assert election.preferred(AR, state(2, 1, 2), {2, 3}, BY) is None


def test_who_leaves_leads_no_more_and_still_hears_it() -> None:
    chosen = election.controlled_shutdown(AR, state(1, 1, 2, 3), {2, 3}, {1}, BY)
    assert chosen is not None
    assert (chosen.state.leader, chosen.state.isr, chosen.tell) == (2, (2, 3), AR)
    assert election.controlled_shutdown(AR, state(1, 1), {2, 3}, {1}, BY) is None


@pytest.mark.mechanism(54)
def test_the_last_in_sync_replica_stays_on_record() -> None:
    assert election.without(state(2, 1, 2), BrokerId(3), BY) is None
    shrunk = election.without(state(2, 1, 2), BrokerId(1), BY)
    assert shrunk is not None
    assert (shrunk.leader, shrunk.isr, shrunk.leader_epoch) == (2, (2,), 5)
    last = election.without(state(2, 2), BrokerId(2), BY)
    assert last is not None
    assert (last.leader, last.isr) == (NOBODY, (2,))


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
        election.offline(held, before, live, BY, unclean=unclean),
        election.reassigned(held, before, live, BY),
        election.preferred(held, before, live, BY),
        election.controlled_shutdown(held, before, there, leaving, BY),
    ):
        if chosen is None:
            continue
        after = chosen.state
        assert after.leader in after.isr
        assert after.leader in live
        assert set(after.isr) <= set(held)
        assert after.leader_epoch == 4
        assert after.leader in before.isr or chosen.unclean
        assert set(chosen.tell) <= set(held)


def test_a_move_from_one_set_to_another() -> None:
    moving = Assignment(ids(1, 2, 3)).to(ids(4, 5, 6))
    assert moving == Assignment(ids(4, 5, 6, 1, 2, 3), adding=ids(4, 5, 6), removing=ids(1, 2, 3))
    assert (moving.origin, moving.target, moving.moving) == (ids(1, 2, 3), ids(4, 5, 6), True)
    assert moving.arrived() == Assignment(ids(4, 5, 6))


def test_a_move_that_is_redirected_begins_where_the_first_one_did() -> None:
    again = Assignment(ids(1, 2, 3)).to(ids(4, 5, 6)).to(ids(2, 7))
    assert again == Assignment(ids(2, 7, 1, 3), adding=ids(7), removing=ids(1, 3), before=ids(1, 2, 3))


def test_a_move_that_is_cancelled_is_a_move_back() -> None:
    moving = Assignment(ids(1, 2)).to(ids(3, 4))
    assert moving.to(moving.origin).arrived() == Assignment(ids(1, 2))
    moving = Assignment(ids(1, 2)).to(ids(3, 2))
    assert moving.to(moving.origin) == Assignment(ids(1, 2))  # who was preferred is so again


def test_a_move_of_which_somebody_has_forgotten_the_beginning_goes_back_to_the_same_brokers() -> None:
    """Another controller has written the node anew, without the key that it does not know; or it holds nonsense."""
    for before in ((), ids(1, 9), ids(1, 2, 3)):
        moving = Assignment(ids(3, 2, 1), adding=ids(3), removing=ids(1), before=before)
        assert moving.to(moving.origin) == Assignment(ids(2, 1))
