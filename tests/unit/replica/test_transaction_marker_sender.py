"""Ends of transactions on their way to the leaders of partitions, which come and go."""

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


@define(eq=False, slots=False)
class World:
    """What brokers answer about partitions, and what they were asked.

    leaders   of partitions that are known
    there     partitions that are there, whether they are known or not
    errors    what the next answers about a partition are; then there is none
    down      brokers that do not answer
    """

    leaders: dict[TopicPartition, BrokerId | None] = field(factory=dict)
    there: set[TopicPartition] = field(factory=set)
    errors: dict[TopicPartition, list[E]] = field(factory=dict)
    down: set[BrokerId] = field(factory=set)
    asked: list[tuple[BrokerId, Body]] = field(factory=list)
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
        await trio.lowlevel.checkpoint()


@define(eq=False)
class Told:
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


def play(world: World, story: Callable[[TransactionMarkerSender], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        def address(broker: BrokerId) -> tuple[str, int]:
            return "host", broker

        made = TransactionMarkerSender(
            BrokerId(1), world, world.exists, address, Log(1), world, MarkerSenderSettings(**settings)
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(made.run, Told(world))
            with trio.fail_after(1_000):
                await story(made)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def until(true: Callable[[], object]) -> None:
    while not true():
        await trio.sleep(0.01)


def test_each_leader_is_told_of_its_partitions_and_many_ends_go_together() -> None:
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


def test_no_more_than_so_many_partitions_are_in_one_request() -> None:
    wheres = [TopicPartition("t", number) for number in range(7)]
    world = World(dict.fromkeys(wheres, BrokerId(1)))

    async def story(markers: TransactionMarkerSender) -> None:
        markers.send(marker(world, 1, *wheres))
        await until(lambda: len(world.marked) == 7)

    play(world, story, partitions_max=3)
    sizes = [len(topic["partition_indexes"]) for _, body in world.asked for topic in body["markers"][0]["topics"]]
    assert sizes == [3, 3, 1]


def test_what_one_leader_does_not_take_goes_to_the_next() -> None:
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


def test_a_partition_of_which_nothing_is_known_here_is_waited_for_and_one_that_is_gone_is_not() -> None:
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


def test_who_will_never_listen_is_not_asked_again() -> None:
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


def test_what_nobody_waits_for_is_not_said() -> None:
    world = World({T0: BrokerId(1), T1: None})

    async def story(markers: TransactionMarkerSender) -> None:
        markers.send(marker(world, 1, T0))
        markers.send(marker(world, 2, T1))
        world.awaited.clear()
        await until(lambda: not len(markers))
        assert not world.asked

    play(world, story)


def test_an_answer_about_something_else_is_no_answer() -> None:
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

    play(world, story)
