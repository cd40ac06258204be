"""No delayed request waits whose condition holds."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.observed import Broker
from harness.checkers.partitions.waiting import WAITS, check_waiting
from kraft_controller.core.names import BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition, Version
from replica.core.outbox import Outbox
from replica.core.partitions.follower_role import FollowerRole
from replica.core.partitions.isr import Isr
from replica.core.partitions.leader_role import LeaderRole
from replica.core.purgatory import (
    Condition,
    DelayedDeleteRecords,
    DelayedFetch,
    DelayedOperationPurgatory,
    DelayedProduce,
)
from replica.core.replica_messages import CONSUMER, Deleted, Fetch, FetchPartition, Produced

HERE = TopicPartition("t1", 0)
ONE, TWO = BrokerId(1), BrokerId(2)
LEADS = LeaderRole(ONE, LeaderEpoch(1), ControllerEpoch(1), 0, Isr((ONE, TWO), Version(0)))
FOLLOWS = FollowerRole(TWO, LeaderEpoch(1))


def broker(
    purgatory: DelayedOperationPurgatory,
    role: object = LEADS,
    session: object = None,
    produced: Mapping[int, int] | None = None,
    follower_reads: bool = True,
) -> Broker:
    """A broker with one partition: offsets 2 to 9, of which 5 are committed and 4 durable."""
    log = SimpleNamespace(start_offset=2, end_offset=9)
    partition = SimpleNamespace(role=role, log=log, leader_epoch=1, high_watermark=5, stable_offset=3, durable=4)
    core = SimpleNamespace(
        purgatory=purgatory,
        partitions={HERE: partition},
        settings=SimpleNamespace(follower_reads=follower_reads),
        fetches=SimpleNamespace(sessions=SimpleNamespace(of=lambda _: session)),
    )
    return cast(Broker, SimpleNamespace(id=ONE, core=core, produced=produced or {}))


def is_wrong(made: Broker) -> bool:
    try:
        check_waiting(made)
    except Violation as violation:
        return violation.invariant == WAITS
    return False


@pytest.mark.parametrize(
    ("condition", "offset", "wrong"),
    [
        (Condition.COMMITTED, 5, True),
        (Condition.COMMITTED, 6, False),
        (Condition.DURABLE, 4, True),
        (Condition.DURABLE, 5, False),
    ],
)
def test_no_produce_waits_for_an_offset_that_is_reached(condition: Condition, offset: int, wrong: bool) -> None:
    purgatory = DelayedOperationPurgatory(Outbox())
    for token, awaited in ((1, 8), (2, offset)):
        results = [Produced(HERE, base_offset=awaited - 2)]
        purgatory.delay(DelayedProduce(token, 99, results, {0: (HERE, condition)}), {0: 99})
    assert is_wrong(broker(purgatory, produced={1: 2, 2: 2})) is wrong


def test_a_deletion_may_wait() -> None:
    purgatory = DelayedOperationPurgatory(Outbox())
    purgatory.delay(DelayedDeleteRecords(1, 99, [Deleted(HERE)], {0: (HERE, Condition.DELETED)}), {0: 1})
    assert not is_wrong(broker(purgatory))


def fetch(offset: int, replica: BrokerId = CONSUMER, **more: Any) -> Fetch:
    return Fetch((FetchPartition(HERE, offset, 100, more.pop("epoch", 1)),), replica, **more)


@pytest.mark.parametrize(
    ("asked", "role", "wrong"),
    [
        (fetch(4), LEADS, True),
        (fetch(5), LEADS, False),
        (fetch(1), LEADS, False),
        (fetch(4, epoch=2), LEADS, False),
        (fetch(4, epoch=-1), LEADS, True),
        (fetch(4, bytes_min=2), LEADS, False),
        (fetch(3, committed=True), LEADS, False),
        (fetch(2, committed=True), LEADS, True),
        (fetch(4), FOLLOWS, False),
        (fetch(4, any_replica=True), FOLLOWS, True),
        (fetch(8, TWO), LEADS, True),
        (fetch(9, TWO), LEADS, False),
        (fetch(4, any_replica=True), None, False),
    ],
)
def test_no_fetch_waits_for_records_that_exist(asked: Fetch, role: object, wrong: bool) -> None:
    purgatory = DelayedOperationPurgatory(Outbox())
    purgatory.delay_fetch(DelayedFetch(1, 99, asked))
    assert is_wrong(broker(purgatory, role)) is wrong


def test_a_fetch_of_a_follower_waits_if_consumers_read_at_leaders_only() -> None:
    purgatory = DelayedOperationPurgatory(Outbox())
    purgatory.delay_fetch(DelayedFetch(1, 99, fetch(4, any_replica=True)))
    assert not is_wrong(broker(purgatory, FOLLOWS, follower_reads=False))


@pytest.mark.parametrize(("number", "offset", "wrong"), [(7, 8, True), (7, 9, False), (6, 8, False)])
def test_a_session_is_read_from_its_newest_requests(number: int, offset: int, wrong: bool) -> None:
    purgatory = DelayedOperationPurgatory(Outbox())
    purgatory.delay_fetch(DelayedFetch(1, 99, Fetch((), TWO), 7))
    [part] = fetch(offset).parts
    session = SimpleNamespace(id=number, requests={HERE: part})
    assert is_wrong(broker(purgatory, session=session)) is wrong


def test_a_closed_session_reads_nothing() -> None:
    purgatory = DelayedOperationPurgatory(Outbox())
    purgatory.delay_fetch(DelayedFetch(1, 99, Fetch((), TWO), 7))
    assert not is_wrong(broker(purgatory))


def test_a_partition_that_is_offline_is_not_judged() -> None:
    purgatory = DelayedOperationPurgatory(Outbox())
    purgatory.delay(DelayedProduce(1, 99, [Produced(HERE)], {0: (HERE, Condition.COMMITTED)}), {0: 1})
    purgatory.delay_fetch(DelayedFetch(2, 99, fetch(4)))
    made = broker(purgatory)
    cast(Any, made).core.partitions.clear()
    assert not is_wrong(made)
