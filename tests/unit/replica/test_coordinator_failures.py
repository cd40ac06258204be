"""An exception in a coordinator: one request fails, or the coordinator is rebuilt from its log, and service goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from replica.core.coordinator_topic import CoordinatorTopic
from replica.core.errors import ErrorCode as E
from replica.core.errors import KafkaError
from replica.core.groups.group_coordinator import GroupCoordinator
from replica.runtime.coordination.coordinator_runtime import RETRY_S
from replica.runtime.coordination.group_coordinator_runtime import GroupCoordinatorRuntime
from replica.runtime.coordination.transaction_coordinator_runtime import TransactionCoordinatorRuntime
from replica.runtime.requests import ApiKey
from replica.wire import group_records
from replica.wire.record_fields import RecordError, pack, text_field
from tests.unit.replica.test_group_runtime import Broker, play
from tests.unit.replica.test_transaction_runtime import Broker as TransactionBroker
from tests.unit.replica.test_transaction_runtime import Partitions
from tests.unit.replica.test_transaction_runtime import play as play_transactions

GREATEST = 2**63 - 1


class Unforeseen(Exception):
    pass


def failing(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, times: int = 1) -> list[object]:
    """Make the next calls of a method raise; returns the arguments of those that did."""
    usual = getattr(owner, name)
    raised: list[object] = []

    def fails(*arguments: Any, **named: Any) -> Any:
        if len(raised) < times:
            raised.append(arguments)
            raise Unforeseen(name)
        return usual(*arguments, **named)

    monkeypatch.setattr(owner, name, fails)
    return raised


async def works(broker: Broker) -> None:
    listed = await broker.call(ApiKey.LIST_GROUPS, 4)
    assert listed["error_code"] == E.NONE
    assert await broker.commit(8, 42) == [E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION]
    assert await broker.committed() == 42


# -- one request ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retention", [0, 1, GREATEST - 1, GREATEST])
@pytest.mark.parametrize("version", [2, 3, 4])
def test_commit_with_any_retention_time_leaves_other_groups_served(version: int, retention: int) -> None:
    async def story(broker: Broker, _: trio.Nursery) -> None:
        broker.lead()
        await broker.served()
        known, _unknown = await broker.commit(version, 7, retention_time_ms=retention)
        assert known == E.NONE
        await works(broker)
        assert broker.groups.rebuilt == 0

    play(story)


def test_record_that_cannot_be_encoded_is_an_error_of_its_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(broker: Broker, _: trio.Nursery) -> None:
        broker.lead()
        await broker.served()
        raised = failing(monkeypatch, group_records, "encode_value")
        assert await broker.commit(8, 1) == [E.UNKNOWN_SERVER_ERROR, E.UNKNOWN_TOPIC_OR_PARTITION]
        assert len(raised) == 1
        await works(broker)
        assert broker.groups.rebuilt == 0

    play(story)


@pytest.mark.parametrize(
    "encode",
    [
        lambda: pack(">q", 2**63),
        lambda: pack(">h", -(2**15) - 1),
        lambda: text_field("\ud800"),
        lambda: text_field("x" * 2**15),
    ],
)
def test_encoding_of_a_record_raises_one_kind_of_error(encode: Callable[[], bytes]) -> None:
    with pytest.raises(RecordError):
        encode()


# -- an exception of the coordinator -------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["step", "ready", "appended", "tick"])
def test_groups_are_served_again_after_an_exception(
    method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(broker: Broker, nursery: trio.Nursery) -> None:
        broker.lead()
        await broker.served()
        assert await broker.commit(8, 41) == [E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION]
        await trio.testing.wait_all_tasks_blocked()
        raised = failing(monkeypatch, CoordinatorTopic if method == "appended" else GroupCoordinator, method)
        ended = trio.Event()

        async def asks() -> None:
            with pytest.raises(KafkaError, match="see the log"):
                await broker.commit(8, 1)
            ended.set()

        if method == "tick":
            broker.groups._wakeup.ring()
        else:
            nursery.start_soon(asks)
            await ended.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert len(raised) == 1
        assert broker.groups.rebuilt == 1
        [line] = [each for each in caplog.records if each.exc_info]
        assert line.getMessage().startswith("groups_coordinator_rebuilt")
        await broker.served()
        assert await broker.committed() in (1, 41)  # read from the log; a write may be done although its answer is lost
        await works(broker)

    with caplog.at_level(logging.ERROR):
        play(story)


def test_rebuilt_coordinator_releases_waiting_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(broker: Broker, nursery: trio.Nursery) -> None:
        broker.lead()
        await broker.served()
        released = trio.Event()

        async def joins() -> None:
            with pytest.raises(KafkaError):
                await broker.join(3)
            released.set()

        nursery.start_soon(joins)
        await trio.testing.wait_all_tasks_blocked()
        failing(monkeypatch, GroupCoordinator, "step")
        with pytest.raises(KafkaError):
            await broker.call(ApiKey.LIST_GROUPS, 4)
        await released.wait()
        await broker.served()
        await works(broker)

    play(story)


def test_write_reported_to_a_rebuilt_coordinator_is_taken_for_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(broker: Broker, nursery: trio.Nursery) -> None:
        broker.lead()
        await broker.served()
        broker.storage.holding = True

        async def commits(offset: int) -> None:
            try:
                await broker.commit(8, offset)
            except KafkaError:
                pass

        nursery.start_soon(commits, 1)
        await trio.testing.wait_all_tasks_blocked()
        failing(monkeypatch, GroupCoordinator, "step")
        await commits(2)
        for where, log in broker.storage.logs.items():
            broker.storage.safe[where] = log.end_offset
        await broker.served()
        nursery.start_soon(commits, 3)
        await trio.testing.wait_all_tasks_blocked()
        (old, _), (_, at) = broker.storage.waiting
        old(E.NONE, at + 1_000)  # of the coordinator before
        await trio.testing.wait_all_tasks_blocked()
        assert await broker.committed() == 1
        broker.storage.waiting[1][0](E.NONE, at)
        assert await broker.committed() == 3

    play(story)


def test_load_that_raises_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(broker: Broker, _: trio.Nursery) -> None:
        raised = failing(monkeypatch, GroupCoordinator, "loaded", times=4)
        began = trio.current_time()
        broker.lead()
        await trio.sleep(0.1)
        await broker.served()
        assert len(raised) == 4
        assert trio.current_time() - began >= RETRY_S  # and not in a tight loop
        await works(broker)

    play(story)


def test_record_that_cannot_be_replayed_keeps_no_other_partition_from_its_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(broker: Broker, _: trio.Nursery) -> None:
        failing(monkeypatch, GroupCoordinator, "replay", times=1_000_000)
        broker.lead()
        await trio.sleep(10 * RETRY_S)
        assert len(broker.groups.coordinator.topic.loading) == 1
        monkeypatch.undo()
        await broker.served()
        assert await broker.committed() == 5

    async def before(broker: Broker, _: trio.Nursery) -> None:
        broker.lead()
        await broker.served()
        await broker.commit(8, 5)
        kept.append(broker.storage)

    kept: list[Any] = []
    play(before)
    play(story, kept[0])


def test_exception_in_a_note_rebuilds_the_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(broker: Broker, _: trio.Nursery) -> None:
        broker.lead()
        await broker.served()
        failing(monkeypatch, GroupCoordinatorRuntime, "_tell")
        with pytest.raises(KafkaError):
            await broker.join(3)
        await broker.served()
        await works(broker)

    play(story)


def test_coordinator_rebuilt_in_turn_of_the_clock_loads_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(broker: Broker, _: trio.Nursery) -> None:
        broker.lead()
        await broker.served()
        failing(monkeypatch, GroupCoordinatorRuntime, "_carry_out", 2)
        began = trio.current_time()
        broker.groups._wakeup.ring()  # the clock turns
        while broker.groups.rebuilt < 2 or broker.groups.coordinator.topic._loading:
            await trio.sleep(0.1)
        assert trio.current_time() - began < 4 * RETRY_S
        await works(broker)

    play(story)


def test_transactions_are_served_again_after_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(broker: TransactionBroker) -> None:
        await broker.lead()
        made = await broker.producer()
        failing(monkeypatch, TransactionCoordinatorRuntime, "_carry_out")
        with pytest.raises(KafkaError):
            await broker.producer()
        assert broker.transactions.rebuilt == 1
        await broker.lead(2)
        again = await broker.producer()
        assert again["producer_id"] == made["producer_id"]
        assert again["producer_epoch"] > made["producer_epoch"]

    play_transactions(story)


def test_marker_of_a_rebuilt_coordinator_ends_no_other_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = Partitions()

    async def story(broker: TransactionBroker) -> None:
        await broker.lead()
        partitions.deaf = True
        who = await broker.producer()
        await broker.add(3, who, t=[0])
        assert await broker.end(3, who) == E.NONE
        failing(monkeypatch, TransactionCoordinatorRuntime, "_carry_out")
        with pytest.raises(KafkaError):
            await broker.described()
        await trio.sleep(2 * RETRY_S)
        first, second = partitions.sent
        assert first.number != second.number
        assert not broker.transactions.awaits_marker(first.number)
        broker.transactions.marked(first.number, first.partitions[0])
        assert (await broker.described())["transaction_state"] == "PrepareCommit"
        broker.transactions.marked(second.number, second.partitions[0])
        assert (await broker.described())["transaction_state"] == "CompleteCommit"

    play_transactions(story, markers=partitions)
