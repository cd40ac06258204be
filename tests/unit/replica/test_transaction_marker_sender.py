"""Requests with markers on their way to leaders: one task and connection for each, and outcomes for the coordinator."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import trio
import trio.testing
from attrs import define, field

from kraft_controller.core.names import BrokerId, TopicPartition
from replica.core.errors import ErrorCode as E
from replica.core.transactions.transaction_effects import Marker, MarkerId
from replica.runtime.coordination.transaction_marker_sender import MarkerSenderSettings, TransactionMarkerSender
from replica.runtime.logs import Log
from replica.runtime.network.broker_connection import ClientSettings, Unreachable
from replica.runtime.requests import ApiKey
from replica.wire.fields import Api
from replica.wire.schemas.transaction_schemas import WriteTxnMarkersResponse
from tests.kafka_bodies import Body, body_of, values_of

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
GONE = TopicPartition("gone", 0)
SETTINGS = MarkerSenderSettings(idle_s=30)


@define(eq=False, slots=False)
class World:
    """The brokers that answer, and their metadata.

    leaders   the known partitions with their leaders
    there     the partitions in the store
    errors    the errors of the next answers about a partition
    down      brokers that do not answer
    asked     the requests, with their brokers
    closed    the brokers to which connections were closed
    """

    leaders: dict[TopicPartition, BrokerId | None] = field(factory=dict)
    there: set[TopicPartition] = field(factory=set)
    errors: dict[TopicPartition, list[E]] = field(factory=dict)
    down: set[BrokerId] = field(factory=set)
    asked: list[tuple[BrokerId, Body]] = field(factory=list)
    closed: list[BrokerId] = field(factory=list)
    awaited: set[MarkerId] = field(factory=set)
    marked: list[tuple[MarkerId, TopicPartition]] = field(factory=list)
    refused: list[tuple[MarkerId, TopicPartition, E]] = field(factory=list)

    def __contains__(self, where: TopicPartition) -> bool:
        return where in self.leaders

    def leader(self, where: TopicPartition) -> BrokerId | None:
        return self.leaders.get(where)

    async def exists(self, where: TopicPartition) -> bool:
        await trio.lowlevel.checkpoint()
        return where in self.there

    async def connection(self, address: tuple[str, int], settings: ClientSettings) -> Line:
        await trio.lowlevel.checkpoint()
        return Line(self, BrokerId(address[1]))


Q = TypeVar("Q")
R = TypeVar("R")


@define(eq=False)
class Line:
    world: World
    broker: BrokerId

    async def ask(self, api: Api[Q, R], body: Q) -> R:
        assert api.key is ApiKey.WRITE_TXN_MARKERS
        asked = values_of(body)
        await trio.lowlevel.checkpoint()
        self.world.asked.append((self.broker, asked))
        if self.broker in self.world.down:
            raise Unreachable("it is down")
        markers = [
            {"producer_id": each["producer_id"], "topics": [self._topic(topic) for topic in each["topics"]]}
            for each in asked["markers"]
        ]
        return body_of(api.response, {"markers": markers})

    def _topic(self, topic: Body) -> dict[str, Any]:
        def error(number: int) -> E:
            left = self.world.errors.get(TopicPartition(topic["name"], number))
            return left.pop(0) if left else E.NONE

        parts = [{"partition_index": number, "error_code": error(number)} for number in topic["partition_indexes"]]
        return {"name": topic["name"], "partitions": parts}

    async def aclose(self) -> None:
        self.world.closed.append(self.broker)
        await trio.lowlevel.checkpoint()


@define(eq=False)
class Owner:
    world: World

    def awaits_marker(self, number: MarkerId) -> bool:
        return number in self.world.awaited

    def marked(self, number: MarkerId, where: TopicPartition) -> None:
        self.world.marked.append((number, where))

    def refused(self, number: MarkerId, where: TopicPartition, error: E) -> None:
        self.world.refused.append((number, where, error))


def marker(world: World, number: int, *partitions: TopicPartition, commit: bool = True) -> Marker:
    ident = MarkerId(number)
    world.awaited.add(ident)
    return Marker(ident, f"id{number}", 0, 100 + number, 3, 7, commit, partitions)


def play(world: World, story: Callable[[TransactionMarkerSender], Awaitable[None]]) -> None:
    async def main() -> None:
        def address(broker: BrokerId) -> tuple[str, int]:
            return "host", broker

        made = TransactionMarkerSender(BrokerId(1), world, world.exists, address, Log(1), world, SETTINGS)
        async with trio.open_nursery() as nursery:
            await nursery.start(made.run, Owner(world))
            with trio.fail_after(1_000):
                await story(made)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def until(true: Callable[[], object]) -> None:
    while not true():
        await trio.sleep(0.01)


def test_each_leader_receives_the_markers_of_its_partitions() -> None:
    world = World({T0: BrokerId(1), T1: BrokerId(2), U0: BrokerId(2)})

    async def story(markers: TransactionMarkerSender) -> None:
        markers.send(marker(world, 1, T0, T1, U0))
        markers.send(marker(world, 2, T1, commit=False))
        await until(lambda: len(world.marked) == 4)
        assert not len(markers)

    play(world, story)
    [one] = [body["markers"] for broker, body in world.asked if broker == 1]
    assert one == [
        {
            "producer_id": 101,
            "producer_epoch": 3,
            "transaction_result": True,
            "topics": [{"name": "t", "partition_indexes": [0]}],
            "coordinator_epoch": 7,
        }
    ]
    [two] = [body["markers"] for broker, body in world.asked if broker == 2]
    assert [(each["producer_id"], each["transaction_result"]) for each in two] == [(101, True), (102, False)]


def test_marker_goes_to_the_next_leader_until_it_is_written() -> None:
    world = World({T0: BrokerId(1), T1: None}, there={T0, T1})
    world.errors[T0] = [E.NOT_LEADER_OR_FOLLOWER, E.NOT_ENOUGH_REPLICAS, E.REQUEST_TIMED_OUT]

    async def story(markers: TransactionMarkerSender) -> None:
        markers.send(marker(world, 1, T0, T1))
        await until(lambda: world.marked)
        assert len(world.asked) == 4
        world.down.add(BrokerId(2))
        world.leaders[T1] = BrokerId(2)
        await until(lambda: len(world.asked) >= 8)
        world.leaders[T1] = BrokerId(3)
        await until(lambda: len(world.marked) == 2)
        assert world.asked[-1][0] == 3

    play(world, story)


def test_unknown_partition_is_awaited_until_the_store_has_deleted_it() -> None:
    world = World(there={T0})

    async def story(markers: TransactionMarkerSender) -> None:
        markers.send(marker(world, 1, T0, GONE))
        await until(lambda: world.marked)
        assert world.marked == [(1, GONE)]
        await trio.sleep(60)
        assert not world.asked
        world.leaders[T0] = BrokerId(2)
        await until(lambda: len(world.marked) == 2)

    play(world, story)


def test_answer_that_does_not_belong_to_the_request_is_a_failure() -> None:
    world = World({T0: BrokerId(1)})

    class Confused(Line):
        async def ask(self, api: Api[Q, R], body: Q) -> R:
            response = await super().ask(api, body)
            if len(self.world.asked) == 1:
                assert isinstance(response, WriteTxnMarkersResponse)
                response.markers[0].producer_id = 999
            return response

    async def connection(address: tuple[str, int], settings: ClientSettings) -> Line:
        await trio.lowlevel.checkpoint()
        return Confused(world, BrokerId(address[1]))

    world.connection = connection  # type: ignore[method-assign]

    async def story(markers: TransactionMarkerSender) -> None:
        markers.send(marker(world, 1, T0))
        await until(lambda: world.marked)
        assert len(world.asked) == 2
        assert world.closed == [1]

    play(world, story)


def test_refusal_is_reported_to_the_owner() -> None:
    world = World({T0: BrokerId(1), T1: BrokerId(1)})
    world.errors[T0] = [E.TRANSACTION_COORDINATOR_FENCED]
    world.errors[T1] = [E.UNSUPPORTED_VERSION]

    async def story(markers: TransactionMarkerSender) -> None:
        markers.send(marker(world, 1, T0, T1))
        await until(lambda: world.refused and world.marked)
        await trio.sleep(60)
        assert world.refused == [(1, T0, E.TRANSACTION_COORDINATOR_FENCED)]
        assert world.marked == [(1, T1)]
        assert len(world.asked) == 1

    play(world, story)


def test_idle_connection_is_closed_and_opened_again_for_the_next_marker() -> None:
    world = World({T0: BrokerId(1)})

    async def story(markers: TransactionMarkerSender) -> None:
        for number in (1, 2):
            markers.send(marker(world, number, T0))
            await trio.sleep(29)
            assert len(world.marked) == number
            assert world.closed == [1] * (number - 1)
            await trio.sleep(2)
            assert world.closed == [1] * number

    play(world, story)
