"""The watches that the controller leaves: every change after a read arrives as an event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from kraft_controller.core.event_queue import EventQueue
from kraft_controller.core.names import BrokerId, TopicPartition, Version
from kraft_controller.core.store_requests import (
    Children,
    Exists,
    Failed,
    Get,
    Listing,
    Node,
    Result,
    StoreRequests,
    Why,
)
from kraft_controller.runtime.controller import Controller as Candidate
from kraft_controller.runtime.controller import Pace
from kraft_controller.wire.epoch_fence import Fence
from kraft_controller.wire.znode_store import ZnodeStore
from tests.unit.kraft_controller.cluster import Controller, Store
from tests.unit.kraft_controller.store_double import (
    ListBrokers,
    ListDeletions,
    ListTopics,
    ReadBroker,
    ReadConfig,
    ReadConfigChanges,
    ReadState,
    ReadTopic,
    TakeIsrChanges,
)

STORE = ZnodeStore(Fence(Version(0)))


def watched(procedure: StoreRequests[Any], *, exists: bool = True) -> set[str]:
    """Return the paths that a procedure watches, if all nodes exist or none does."""
    results: list[Result] | None = None
    paths: set[str] = set()
    while True:
        try:
            operations = next(procedure) if results is None else procedure.send(results)
        except StopIteration:
            return paths
        results = []
        for each in operations:
            if isinstance(each, Get | Exists | Children) and each.watch:
                paths.add(each.path)
            if not exists:
                results.append(Failed(Why.NO_NODE))
            elif isinstance(each, Get | Exists):
                results.append(Node(b"{}", Version(0), 1, 0))
            else:
                results.append(Listing(()))


@pytest.mark.mechanism(60)
def test_failover_reads_lists_before_their_elements() -> None:
    store = Store()
    store.topic("t", (1, 2))
    Controller(store).take_over()
    kinds = [type(access) for access in store.accesses]
    lists = {ListBrokers, ListTopics, ListDeletions, TakeIsrChanges, ReadConfigChanges}
    reads = {ReadBroker, ReadTopic, ReadState, ReadConfig}
    first_read = min(place for place, kind in enumerate(kinds) if kind in reads)
    assert lists <= set(kinds[:first_read])
    assert not lists & set(kinds[first_read:])


@pytest.mark.parametrize(
    ("read", "path"),
    [
        (lambda: STORE.reassignments(), "/admin/reassign_partitions"),
        (lambda: STORE.take_isr_changes(), "/isr_change_notification"),
        (lambda: STORE.preferred_elections(), "/admin/preferred_replica_election"),
        (lambda: STORE.topic_names(), "/brokers/topics"),
        (lambda: STORE.topic_deletions(), "/admin/delete_topics"),
        (lambda: STORE.registered_brokers(), "/brokers/ids"),
        pytest.param(lambda: STORE.read_brokers([BrokerId(1)]), "/brokers/ids/1", marks=pytest.mark.mechanism(66)),
        (lambda: STORE.read_topics(["t"]), "/brokers/topics/t"),
        (lambda: STORE.config_changes(None), "/config/changes"),
        (lambda: STORE.take_log_dir_events(), "/log_dir_event_notification"),
        (lambda: STORE.read_states([TopicPartition("t", 0)], watch=True), "/brokers/topics/t/partitions/0/state"),
    ],
)
@pytest.mark.mechanism(50, 60, 61, 62, 63, 64, 65, 66, 67)
def test_reads_leave_a_watch(read: Callable[[], StoreRequests[Any]], path: str) -> None:
    assert path in watched(read())


@pytest.mark.parametrize(
    "read",
    [
        lambda: STORE.reassignments(), lambda: STORE.preferred_elections(), lambda: STORE.read_topics(["t"]),
        lambda: STORE.topic_names(), lambda: STORE.topic_deletions(), lambda: STORE.registered_brokers(),
        lambda: STORE.take_isr_changes(), lambda: STORE.take_log_dir_events(), lambda: STORE.config_changes(None),
    ],
)  # fmt: skip
def test_reads_of_absent_nodes_leave_a_watch(read: Callable[[], StoreRequests[Any]]) -> None:
    assert len(watched(read(), exists=False)) == 1


@pytest.mark.mechanism(74)
def test_leaders_are_balanced_after_five_seconds_and_then_every_five_minutes() -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)
    heard: list[float] = []

    class Noting(EventQueue):
        def note(self, event: Any) -> None:
            heard.append(trio.current_time())

    async def main() -> float:
        began = trio.current_time()
        candidate = Candidate.__new__(Candidate)
        candidate._pace = Pace()
        with trio.move_on_after(606):
            await candidate._balance(Noting(trio.current_time))
        return began

    began = trio.run(main, clock=clock)
    assert [at - began for at in heard] == [5, 305, 605]
