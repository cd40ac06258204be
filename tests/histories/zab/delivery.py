"""Delivery of transactions to state machines."""

from __future__ import annotations

from harness.checkers.delivery import Agreement, CommittedAndDurable, Integrity, PrefixConsistency, TotalOrder
from tests.histories.zab.scenario import ONE, THREE, TWO, Scenario, batch, breaks, z
from zab.core.batch import pack
from zab.core.zxid import NOTHING


@breaks(PrefixConsistency)
def committed_beside_the_canon(s: Scenario, bad: bool) -> None:
    s.begins()
    other = pack(z(2, 1), [b"other"])
    if bad:
        s.judge.truncated(ONE, NOTHING)
    s.logs(other, ONE)
    s.judge.committed(ONE, other.last, True)


@breaks(PrefixConsistency)
def delivered_beside_the_canon(s: Scenario, bad: bool) -> None:
    s.begins()
    second = s.proposes(THREE, 1, 2)
    s.logs(second, ONE, TWO, THREE)
    s.judge.committed(THREE, second.last, True)
    s.applies(pack(z(1, 3), [b"x"]) if bad else second, ONE)


@breaks(PrefixConsistency)
def restored_from_nowhere(s: Scenario, bad: bool) -> None:
    first = s.begins()
    s.judge.restored(TWO, z(1, 7) if bad else first.last)


@breaks(TotalOrder)
def two_orders(s: Scenario, bad: bool) -> None:
    a, b = pack(z(1, 1), [b"a"]), pack(z(1, 2), [b"b"])
    s.applies(a, ONE)
    s.applies(b, ONE)
    if not bad:
        s.applies(a, TWO)
    s.applies(b, TWO)


@breaks(Agreement)
def each_delivers_a_transaction_that_the_other_lacks(s: Scenario, bad: bool) -> None:
    a, b = pack(z(1, 1), [b"a"]), pack(z(1, 2), [b"b"])
    s.applies(a, ONE)
    if not bad:
        s.applies(a, TWO)
    s.applies(b, TWO)


@breaks(Agreement)
def disagreement_through_a_snapshot(s: Scenario, bad: bool) -> None:
    a, b, c = (pack(z(1, number), [b"%d" % number]) for number in (1, 2, 3))
    s.applies(a, ONE)
    s.applies(b, ONE)
    s.judge.restored(TWO, z(1, 1) if bad else z(1, 2))
    s.applies(c, TWO)
    if not bad:
        s.applies(c, ONE)


@breaks(Integrity)
def delivered_but_never_proposed(s: Scenario, bad: bool) -> None:
    batch = pack(z(1, 1), [b"a"]) if bad else s.proposes(THREE, 1, 1)
    s.applies(batch, ONE)


@breaks(Integrity)
def delivered_with_another_content(s: Scenario, bad: bool) -> None:
    s.proposes(THREE, 1, 1, b"a", b"b")
    s.applies(pack(z(1, 1), [b"a", b"x" if bad else b"b"]), ONE)


@breaks(Integrity)
def proposed_twice(s: Scenario, bad: bool) -> None:
    s.proposes(THREE, 1, 1, b"a")
    s.proposes(TWO, 1, 1 if bad else 2, b"b")


@breaks(CommittedAndDurable)
def applied_before_committed(s: Scenario, bad: bool) -> None:
    first = s.proposes(THREE, 1, 1)
    s.logs(first, ONE, TWO, THREE)
    if not bad:
        s.judge.committed(THREE, first.last, True)
    s.applies(first, THREE)


@breaks(CommittedAndDurable)
def applied_before_durable(s: Scenario, bad: bool) -> None:
    first = s.proposes(THREE, 1, 1)
    s.logs(first, TWO, THREE)
    s.logs(first, ONE, durably=not bad)
    s.judge.committed(THREE, first.last, True)
    s.applies(first, ONE)


@breaks(CommittedAndDurable)
def applied_with_a_gap(s: Scenario, bad: bool) -> None:
    first, second = s.proposes(THREE, 1, 1), s.proposes(THREE, 1, 2)
    for each in (first, second):
        s.logs(each, ONE, TWO, THREE)
    s.judge.committed(THREE, second.last, True)
    if not bad:
        s.applies(first, ONE)
    s.applies(second, ONE)


@breaks(CommittedAndDurable)
def reported_as_committed_but_never_committed(s: Scenario, bad: bool) -> None:
    first = s.proposes(THREE, 1, 1)
    s.logs(first, ONE, TWO, THREE)
    if not bad:
        s.judge.committed(THREE, first.last, True)
    s.judge.committed(ONE, first.last, False)


@breaks(PrefixConsistency)
def batch_that_is_committed_in_part(s: Scenario, bad: bool) -> None:
    s.begins()
    both = s.proposes(THREE, 1, 2, b"a", b"b")
    s.logs(both, ONE, TWO, THREE)
    s.commits(THREE, z(1, 2) if bad else both.last)
    s.applies(both, ONE)


@breaks(TotalOrder)
def batch_is_delivered_in_its_order(s: Scenario, bad: bool) -> None:
    s.applies(batch(1, 1, b"a", b"b"), ONE)
    s.applies(batch(1, 1, b"a"), TWO)
    if bad:
        s.judge.restored(TWO, NOTHING)
    s.applies(batch(1, 2, b"b"), TWO)


@breaks(Agreement)
def repeated_delivery_does_not_advance(s: Scenario, bad: bool) -> None:
    s.applies(batch(1, 1), ONE)
    s.applies(batch(1, 1), ONE)
    if not bad:
        s.applies(batch(1, 1), TWO)
    s.applies(batch(1, 2), TWO)
    s.applies(batch(1, 2), ONE)


def _one_is_skipped(s: Scenario) -> None:
    """Server 2 delivers less than server 1, and not a prefix of it; that is no disagreement yet."""
    for number in (1, 2):
        s.applies(batch(1, number), ONE)
    s.applies(batch(1, 2), TWO)


@breaks(Agreement)
def repeated_delivery_does_not_replace_a_skipped_one(s: Scenario, bad: bool) -> None:
    _one_is_skipped(s)
    s.applies(batch(1, 2), TWO)
    if not bad:
        s.applies(batch(1, 1), TWO)
    s.applies(batch(1, 3), TWO)


@breaks(Agreement)
def snapshot_delivers_skipped_transactions(s: Scenario, bad: bool) -> None:
    _one_is_skipped(s)
    s.applies(batch(1, 3), ONE)
    if not bad:
        s.judge.restored(TWO, z(1, 3))
    s.applies(batch(1, 4), TWO)
    s.applies(batch(1, 4), ONE)


@breaks(Agreement)
def one_server_may_be_ahead_of_another(s: Scenario, bad: bool) -> None:
    _one_is_skipped(s)
    s.applies(batch(1, 1), TWO)
    s.applies(batch(1, 3), TWO)
    if not bad:
        s.applies(batch(1, 3), ONE)
    s.applies(batch(1, 4), ONE)
    s.applies(batch(1, 4), TWO)


@breaks(Integrity)
def batch_with_an_unproposed_second_transaction(s: Scenario, bad: bool) -> None:
    s.proposes(THREE, 1, 1, *((b"a",) if bad else (b"a", b"b")))
    s.applies(batch(1, 1, b"a", b"b"), ONE)


@breaks(CommittedAndDurable)
def batch_applied_before_all_of_it_is_committed(s: Scenario, bad: bool) -> None:
    both = s.proposes(THREE, 1, 1, b"a", b"b")
    s.logs(both, ONE, TWO, THREE)
    s.commits(THREE, both.first if bad else both.last)
    s.applies(both, ONE)
