"""What a new controller asks of the store, and that it hears of every change from the moment it asks."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from kraft_controller.core import asks, failover
from kraft_controller.core.asks import Ask
from kraft_controller.core.names import BrokerId, TopicPartition, Version
from kraft_controller.runtime.controller import Controller as Candidate
from kraft_controller.runtime.controller import Pace
from kraft_controller.runtime.queue import Queue
from kraft_controller.wire.asking import Asking
from kraft_controller.wire.reign import Fence
from kraft_controller.wire.work import Children, Exists, Failed, Get, Listing, Node, Result, Why
from tests.unit.kraft_controller.cluster import Controller, Store


def watched(ask: Ask, *, there: bool = True) -> set[str]:
    """The paths of which something will be heard, when the store has answered."""
    work = Asking(Fence(Version(0))).answer([ask])
    answers: list[Result] | None = None
    paths: set[str] = set()
    while True:
        try:
            asked = next(work) if answers is None else work.send(answers)
        except StopIteration:
            return paths
        answers = []
        for each in asked:
            if isinstance(each, Get | Exists | Children) and each.watch:
                paths.add(each.path)
            if not there:
                answers.append(Failed(Why.NO_NODE))
            elif isinstance(each, Get | Exists):
                answers.append(Node(b"{}", Version(0), 1, 0))
            else:
                answers.append(Listing(()))


@pytest.mark.mechanism(60)
def test_lists_come_before_all_that_they_name() -> None:
    store = Store()
    store.topic("t", (1, 2))
    controller = Controller(store)
    controller.run(failover.take_over(controller.desk, controller.new_id))
    kinds = [type(ask) for ask in store.asked]
    lists = {asks.ListBrokers, asks.ListTopics, asks.ListDeletions, asks.TakeIsrChanges, asks.TakeConfigChanges}
    reads = {asks.ReadBroker, asks.ReadTopic, asks.ReadState, asks.ReadConfig}
    first_read = min(place for place, kind in enumerate(kinds) if kind in reads)
    assert lists <= set(kinds[:first_read])
    assert not lists & set(kinds[first_read:])


@pytest.mark.parametrize(
    ("ask", "path"),
    [
        (asks.ReadMoves(), "/admin/reassign_partitions"),
        (asks.TakeIsrChanges(), "/isr_change_notification"),
        (asks.ReadPreferred(), "/admin/preferred_replica_election"),
        (asks.ListTopics(), "/brokers/topics"),
        (asks.ListDeletions(), "/admin/delete_topics"),
        (asks.ListBrokers(), "/brokers/ids"),
        pytest.param(asks.ReadBroker(BrokerId(1)), "/brokers/ids/1", marks=pytest.mark.mechanism(66)),
        (asks.ReadTopic("t"), "/brokers/topics/t"),
        (asks.TakeConfigChanges(None), "/config/changes"),
        (asks.TakeLogDirEvents(), "/log_dir_event_notification"),
        (asks.ReadState(TopicPartition("t", 0), watch=True), "/brokers/topics/t/partitions/0/state"),
    ],
)  # fmt: skip
@pytest.mark.mechanism(50, 60, 61, 62, 63, 64, 65, 66, 67)
def test_what_is_read_is_heard_of(ask: Ask, path: str) -> None:
    assert path in watched(ask)


@pytest.mark.parametrize(
    "ask",
    [
        asks.ReadMoves(), asks.ReadPreferred(), asks.ReadTopic("t"), asks.ListTopics(), asks.ListDeletions(),
        asks.ListBrokers(), asks.TakeIsrChanges(), asks.TakeLogDirEvents(), asks.TakeConfigChanges(None),
    ],
)  # fmt: skip
def test_and_so_is_what_is_not_there_yet(ask: Ask) -> None:
    assert len(watched(ask, there=False)) == 1


@pytest.mark.mechanism(74)
def test_leaders_are_balanced_after_five_seconds_and_then_every_five_minutes() -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)
    heard: list[float] = []

    class Noting(Queue):
        def note(self, event: Any) -> None:
            heard.append(trio.current_time())

    async def main() -> float:
        began = trio.current_time()
        candidate = Candidate.__new__(Candidate)
        candidate._pace = Pace()
        with trio.move_on_after(606):
            await candidate._balance(Noting())
        return began

    began = trio.run(main, clock=clock)
    assert [at - began for at in heard] == [5, 305, 605]
