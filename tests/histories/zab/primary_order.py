"""The order in which transactions of primaries are delivered."""

from __future__ import annotations

from harness.checkers.primary_order import GlobalPrimaryOrder, LocalPrimaryOrder, PrimaryIntegrity
from tests.histories.zab.scenario import ONE, THREE, TWO, Scenario, batch, breaks
from zab.core.batch import Batch
from zab.core.messages import State
from zab.core.ready import Recovered
from zab.core.zxid import Epoch


@breaks(LocalPrimaryOrder)
def out_of_the_primarys_order(s: Scenario, bad: bool) -> None:
    a, b = s.proposes(THREE, 1, 1), s.proposes(THREE, 1, 2)
    for each in (b, a) if bad else (a, b):
        s.applies(each, ONE)


@breaks(LocalPrimaryOrder)
def primarys_first_is_skipped(s: Scenario, bad: bool) -> None:
    """A formula "there are a, b" would miss this pair: a is never delivered."""
    a, b = s.proposes(THREE, 1, 1), s.proposes(THREE, 1, 2)
    if not bad:
        s.applies(a, ONE)
    s.applies(b, ONE)


@breaks(LocalPrimaryOrder)
def later_pair_is_out_of_order(s: Scenario, bad: bool) -> None:
    """The first pairs are in order: a check of some pairs only would pass."""
    batches = [s.proposes(THREE, 1, number) for number in (1, 2, 3, 4)]
    if bad:
        batches[2], batches[3] = batches[3], batches[2]
    for each in batches:
        s.applies(each, ONE)


@breaks(LocalPrimaryOrder)
def skipped_behind_a_snapshot(s: Scenario, bad: bool) -> None:
    batches = [s.proposes(THREE, 1, number) for number in (1, 2, 3)]
    s.judge.restored(ONE, batches[0].last if bad else batches[1].last)
    s.applies(batches[2], ONE)


@breaks(GlobalPrimaryOrder)
def epochs_out_of_order(s: Scenario, bad: bool) -> None:
    s.applies(s.proposes(THREE, 2 if bad else 1, 1), ONE)
    s.applies(s.proposes(TWO, 1 if bad else 2, 1), ONE)


@breaks(PrimaryIntegrity)
def broadcasts_before_it_has_delivered(s: Scenario, bad: bool) -> None:
    first = s.proposes(THREE, 1, 1)
    s.applies(first, *((ONE,) if bad else (ONE, TWO)))
    s.proposes(TWO, 2, 1)


@breaks(PrimaryIntegrity)
def follower_delivers_more_than_its_primary(s: Scenario, bad: bool) -> None:
    first, second = s.proposes(THREE, 1, 1), s.proposes(THREE, 1, 2)
    s.applies(first, ONE, TWO)
    s.leads(TWO, 2)
    s.follows(ONE, TWO, 2)
    s.proposes(TWO, 2, 1)
    if not bad:
        s.applies(second, TWO)
    s.applies(second, ONE)


@breaks(LocalPrimaryOrder)
def out_of_order_within_what_was_proposed_at_once(s: Scenario, bad: bool) -> None:
    s.proposes(THREE, 1, 1, b"a", b"b", b"c")
    s.applies(batch(1, 1, b"a", b"b"), ONE)
    s.applies(batch(1, 3 if not bad else 2, b"c"), ONE)


@breaks(LocalPrimaryOrder)
def proposed_out_of_order(s: Scenario, bad: bool) -> None:
    """Delivering the first proposal is not wrong yet."""
    s.proposes(THREE, 1, 1)
    s.proposes(THREE, 1, 3)
    s.proposes(THREE, 1, 2)
    s.applies(batch(1, 1), ONE)
    if bad:
        s.applies(batch(1, 2), ONE)


@breaks(LocalPrimaryOrder)
def numbers_of_a_primary_begin_anew(s: Scenario, bad: bool) -> None:
    a, b = s.proposes(THREE, 1, 1), s.proposes(TWO, 2, 1)
    c = s.proposes(TWO, 2, 2)
    s.applies(a, ONE)
    if not bad:
        s.applies(b, ONE)
    s.applies(c, ONE)


@breaks(LocalPrimaryOrder)
def unproposed_transaction_has_no_number(s: Scenario, bad: bool) -> None:
    """Its delivery violates another invariant. The order begins again after it, as after a snapshot."""
    a = s.proposes(THREE, 1, 5)
    b = s.proposes(THREE, 1, 6)
    s.applies(batch(1, 4), ONE)
    s.applies(b if bad else a, ONE)


@breaks(PrimaryIntegrity)
def primary_that_broadcasts_is_not_checked_again(s: Scenario, bad: bool) -> None:
    first = s.proposes(THREE, 1, 1)
    if not bad:
        s.proposes(TWO, 2, 1)
    s.applies(first, ONE)
    s.proposes(TWO, 2, 2)


@breaks(PrimaryIntegrity)
def crashed_server_has_delivered_nothing(s: Scenario, bad: bool) -> None:
    first = s.proposes(THREE, 1, 1)
    s.applies(first, ONE)
    if not bad:
        s.judge.crashed(ONE)
    s.proposes(TWO, 2, 1)


@breaks(PrimaryIntegrity)
def transactions_of_its_own_epoch_need_not_be_delivered(s: Scenario, bad: bool) -> None:
    s.applies(batch(1 if bad else 2, 1), ONE)
    s.judge.broadcasts(TWO, Epoch(2))


@breaks(PrimaryIntegrity)
def as_much_as_the_others_is_enough(s: Scenario, bad: bool) -> None:
    first = s.proposes(THREE, 1, 1)
    s.applies(first, ONE, *(() if bad else (TWO,)))
    s.judge.broadcasts(TWO, Epoch(2))
    s.judge.broadcasts(ONE, Epoch(3))


def _two_of_which_the_leader_has_one(s: Scenario, *, broadcasts: bool = True) -> Batch:
    """Server 1 follows 2, which leads epoch 2 and has delivered the first transaction."""
    first, second = s.proposes(THREE, 1, 1), s.proposes(THREE, 1, 2)
    s.applies(first, ONE, TWO)
    s.leads(TWO, 2)
    s.follows(ONE, TWO, 2)
    if broadcasts:
        s.judge.broadcasts(TWO, Epoch(2))
    return second


@breaks(PrimaryIntegrity)
def primary_that_is_gone_is_not_compared(s: Scenario, bad: bool) -> None:
    second = _two_of_which_the_leader_has_one(s)
    if not bad:
        s.judge.crashed(TWO)
    s.applies(second, ONE)


@breaks(PrimaryIntegrity)
def primary_that_was_started_again_is_not_compared(s: Scenario, bad: bool) -> None:
    """It leads again, without a new epoch yet: a follower of its former epoch may have delivered more."""
    second = _two_of_which_the_leader_has_one(s)
    s.judge.crashed(THREE if bad else TWO)
    s.judge.started(THREE if bad else TWO, Recovered(Epoch(2), Epoch(2)), second.last)
    s.leads(TWO, 2)
    s.applies(second, ONE)


@breaks(PrimaryIntegrity)
def leader_that_does_not_broadcast_yet_is_not_compared(s: Scenario, bad: bool) -> None:
    second = _two_of_which_the_leader_has_one(s, broadcasts=bad)
    s.applies(second, ONE)


@breaks(PrimaryIntegrity)
def transactions_of_this_epoch_may_be_delivered_first(s: Scenario, bad: bool) -> None:
    second = _two_of_which_the_leader_has_one(s)
    s.applies(second if bad else s.proposes(TWO, 2, 1), ONE)


@breaks(PrimaryIntegrity)
def follower_of_an_earlier_epoch_is_not_compared(s: Scenario, bad: bool) -> None:
    second = _two_of_which_the_leader_has_one(s)
    if not bad:
        s.judge.role(ONE, State.FOLLOWING, Epoch(1), TWO, True)
    s.applies(second, ONE)
