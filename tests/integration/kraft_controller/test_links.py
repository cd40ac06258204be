"""Commands over real sockets: in order, once each is answered, and never from a controller that is none any more."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from kraft_controller.core import events
from kraft_controller.core.commands import Command, LeaderAndIsr, Stop, StopReplica, UpdateMetadata
from kraft_controller.core.events import Event
from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from kraft_controller.core.state import Broker, Endpoint
from kraft_controller.runtime.frames import Frames
from kraft_controller.runtime.links import BrokerLinks, LinkSettings, endpoint_of
from kraft_controller.runtime.orders import STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH, Orders
from kraft_controller.wire.commands import Answer, FrameError, Numbered, decode, encode

T0 = TopicPartition("t", 0)
ONE = BrokerId(1)


def metadata(epoch: int = 1, broker_epoch: int = 5) -> UpdateMetadata:
    return UpdateMetadata(BrokerId(9), ControllerEpoch(epoch), BrokerEpoch(broker_epoch), (), ())


class Broken:
    """A broker that may hang up instead of answering."""

    def __init__(self) -> None:
        self.heard: list[Command] = []
        self.hang_ups = 0
        self.errors: Mapping[TopicPartition, int] = {}
        self.orders = Orders(lambda: BrokerEpoch(5), self.obey)
        self.connections = 0

    def obey(self, command: Command) -> Mapping[TopicPartition, int]:
        self.heard.append(command)
        return self.errors

    async def serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        if self.hang_ups:
            self.hang_ups -= 1
            await stream.receive_some(10)
            await stream.aclose()
            return
        await self.orders.serve(stream)


@asynccontextmanager
async def linked(broker: Broken, answered: Callable[[Event], None] = print) -> AsyncIterator[BrokerLinks]:
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, broker.serve, [listener])
        links = BrokerLinks(answered, LinkSettings(backoff_s=0.01, answer_s=20.0, waiting_max=200))
        await nursery.start(links.run)
        links.know({ONE: Broker(ONE, BrokerEpoch(5), (Endpoint("PLAINTEXT", "127.0.0.1", port),))})
        yield links
        nursery.cancel_scope.cancel()


async def until(check: Callable[[], bool]) -> None:
    while not check():
        await trio.sleep(0.01)


def run(test: Any) -> None:
    async def main() -> None:
        with trio.fail_after(120):
            await test()

    trio.run(main)


def test_commands_arrive_in_order_over_one_connection() -> None:
    async def test() -> None:
        broker = Broken()
        async with linked(broker) as links:
            said = [metadata(epoch) for epoch in range(1, 200)]
            for command in said:
                links.send(ONE, command)
            await until(lambda: len(broker.heard) == len(said))
            assert broker.heard == said
            assert broker.connections == 1
            await until(lambda: links.waiting() == {ONE: 0})

    run(test)


def test_what_is_not_answered_is_said_again_before_anything_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def test() -> None:
        broker = Broken()
        broker.hang_ups = 3
        async with linked(broker) as links:
            links.send(ONE, metadata(1))
            links.send(ONE, metadata(2))
            await until(lambda: len(broker.heard) == 2)
            assert [command.controller_epoch for command in broker.heard] == [1, 2]
            assert broker.connections == 4
            await until(lambda: "broker 1 hears its controller again" in caplog.text)
            assert caplog.text.count("broker 1 does not hear its controller") == 1, "not at each try"

    run(test)


@pytest.mark.mechanism(82)
def test_nothing_leaves_when_the_controller_is_none_any_more() -> None:
    async def test() -> None:
        broker = Broken()
        broker.hang_ups = 10_000
        async with linked(broker) as links:
            links.send(ONE, metadata())
            await until(lambda: broker.connections > 2)
            links.close()
            broker.hang_ups = 0
            await trio.sleep(0.1)
            assert broker.heard == []
            assert links.waiting() == {}

    run(test)


def test_a_command_for_another_life_of_the_broker_is_not_sent() -> None:
    async def test() -> None:
        broker = Broken()
        async with linked(broker) as links:
            links.send(ONE, metadata(1, broker_epoch=4))
            links.send(BrokerId(2), metadata(1))
            links.send(ONE, metadata(2))
            await until(lambda: bool(broker.heard))
            assert [command.controller_epoch for command in broker.heard] == [2]

    run(test)


def test_answers_come_back_as_events() -> None:
    async def test() -> None:
        broker, heard = Broken(), list[Event]()
        head = (BrokerId(9), ControllerEpoch(1), BrokerEpoch(5))
        other = TopicPartition("t", 1)
        async with linked(broker, heard.append) as links:
            broker.errors = {T0: 56, other: 0}
            links.send(ONE, LeaderAndIsr(*head, False, (), ()))
            stops = (Stop(T0, LeaderEpoch(1), True), Stop(other, LeaderEpoch(1), True))
            links.send(ONE, StopReplica(*head, stops))
            links.send(ONE, StopReplica(*head, (Stop(T0, LeaderEpoch(1), False),)))
            await until(lambda: links.waiting() == {ONE: 0})
            assert heard == [
                events.RolesAnswered(ONE, BrokerEpoch(5), (T0,)),
                events.DeletionAnswered(ONE, BrokerEpoch(5), (other,), (T0,)),
            ]
            # A log that says that it is another topic's cannot be led with either; what is old is no matter of logs.
            broker.errors = {T0: 11, other: 103}
            links.send(ONE, LeaderAndIsr(*head, False, (), ()))
            await until(lambda: len(heard) == 3)
            assert heard[-1] == events.RolesAnswered(ONE, BrokerEpoch(5), (other,))

    run(test)


@pytest.mark.mechanism(82)
def test_who_may_command() -> None:
    obeyed: list[Command] = []

    def obey(command: Command) -> dict[TopicPartition, int]:
        obeyed.append(command)
        return {}

    orders = Orders(lambda: BrokerEpoch(5), obey)
    assert orders.answer(Numbered(1, metadata(3, 5))).error == 0
    assert orders.answer(Numbered(2, metadata(2, 5))).error == STALE_CONTROLLER_EPOCH
    assert orders.answer(Numbered(3, metadata(4, 4))).error == STALE_BROKER_EPOCH
    assert orders.answer(Numbered(4, metadata(3, 6))).error == 0
    assert orders.answer(Numbered(5, metadata(3, -1))).error == 0
    assert len(obeyed) == 3
    assert orders.controller_epoch == 3


def test_what_comes_late_over_a_connection_that_was_given_up_is_not_obeyed() -> None:
    obeyed: list[Command] = []

    def obey(command: Command) -> dict[TopicPartition, int]:
        obeyed.append(command)
        return {}

    orders = Orders(lambda: BrokerEpoch(5), obey)
    for number in (7, 7, 9):  # said again, because the first answer was lost
        assert orders.answer(Numbered(number, metadata(3))).error == 0
    assert orders.answer(Numbered(7, metadata(3))).error == STALE_CONTROLLER_EPOCH
    assert len(obeyed) == 3
    assert orders.answer(Numbered(1, metadata(4))).error == 0, "another controller counts anew"


def test_a_link_that_is_made_anew_does_not_count_anew() -> None:
    async def test() -> None:
        broker = Broken()
        async with linked(broker) as links:
            for _ in range(3):
                links.send(ONE, metadata())
            await until(lambda: len(broker.heard) == 3)
            [known] = [link.broker for link in links._links.values()]
            links.know({})
            links.know({ONE: known})
            links.send(ONE, metadata())
            await until(lambda: len(broker.heard) == 4)

    run(test)


@pytest.mark.parametrize(
    "noise",
    [b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff\xff\xff", b"\0\0\0\x03abc", b"\0\0\0\x09x"],
)
def test_noise_costs_the_connection_and_nothing_else(noise: bytes) -> None:
    async def test() -> None:
        broker = Broken()
        async with linked(broker) as links:
            links.send(ONE, metadata())
            await until(lambda: bool(broker.heard))
            ours, theirs = trio.testing.memory_stream_pair()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(broker.orders.serve, theirs)
                await ours.send_all(noise)
                await ours.send_eof()
                assert await ours.receive_some() == b""
            links.send(ONE, metadata(2))
            await until(lambda: len(broker.heard) == 2)

    run(test)


def test_an_answer_to_something_else_is_none() -> None:
    async def test() -> None:
        asked: list[int] = []

        async def serve(stream: trio.SocketStream) -> None:
            frames = Frames(stream)
            body = await frames.receive()
            assert body is not None
            frame = decode(body)
            assert isinstance(frame, Numbered)
            asked.append(frame.number)
            await frames.send(encode(Answer(frame.number if len(asked) > 2 else frame.number + 7, 0, {})))
            await trio.sleep_forever()

        broker = Broken()
        broker.serve = serve  # type: ignore[method-assign]
        async with linked(broker) as links:
            links.send(ONE, metadata())
            await until(lambda: links.waiting() == {ONE: 0})
            assert asked == [1, 1, 1]

    run(test)


def test_a_command_for_somebody_else_is_not_obeyed_and_said_again_until_he_is_where_he_says(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A broker that is registered with the address of another would have that one's replicas deleted."""

    async def test() -> None:
        broker = Broken()
        broker.orders = Orders(lambda: BrokerEpoch(5), broker.obey, me=BrokerId(7))
        async with linked(broker) as links:
            links.send(ONE, metadata())
            await until(lambda: links.counts()[ONE][1] > 2)
            assert broker.heard == []
            assert caplog.text.count("broker 7 hears commands for broker 1") == 1
            assert caplog.text.count("broker 1 is registered with an address at which another broker answers") == 1
            # What is for itself is heard: the other's commands, of greater numbers, have not made it old.
            assert broker.orders.answer(Numbered(1, metadata(), BrokerId(7))).error == 0
            broker.orders = Orders(lambda: BrokerEpoch(5), broker.obey, me=ONE)
            broker.heard.clear()
            await until(lambda: len(broker.heard) == 1)

    run(test)


def test_roles_that_a_broker_does_not_take_up_are_told(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        broker = Broken()
        broker.errors = {T0: 103}
        async with linked(broker) as links:
            links.send(ONE, LeaderAndIsr(BrokerId(9), ControllerEpoch(1), BrokerEpoch(5), False, (), ()))
            await until(lambda: links.waiting() == {ONE: 0})
            assert "broker 1 refuses 1 roles: t-0 (error 103)" in caplog.text

    run(test)


def test_so_many_commands_wait_for_a_broker_and_no_more() -> None:
    """Then all are dropped: the controller hears of it, and says everything anew over another link."""

    async def test() -> None:
        broker, heard = Broken(), list[Event]()
        broker.hang_ups = 10_000
        async with linked(broker, heard.append) as links:
            [known] = [link.broker for link in links._links.values()]
            for number in range(1, 202):
                assert heard == []
                links.send(ONE, metadata(number))
            assert heard == [events.LinkOverflowed(ONE, BrokerEpoch(5))]
            links.send(ONE, metadata(300))
            assert links.waiting() == {}
            broker.hang_ups = 0
            links.know({ONE: known})
            links.send(ONE, metadata(301))
            await until(lambda: bool(broker.heard))
            assert [command.controller_epoch for command in broker.heard] == [301]

    run(test)


def test_so_many_connections_are_heard_and_the_most_silent_goes_for_one_more() -> None:
    async def test() -> None:
        orders = Orders(lambda: BrokerEpoch(5), lambda command: {}, connections_max=2)
        async with trio.open_nursery() as nursery:

            async def connection() -> Frames:
                ours, theirs = trio.testing.memory_stream_pair()
                nursery.start_soon(orders.serve, theirs)
                await trio.testing.wait_all_tasks_blocked()
                return Frames(ours)

            async def answers(frames: Frames, number: int) -> bool:
                await frames.send(encode(Numbered(number, metadata())))
                return await frames.receive() is not None

            first, second = await connection(), await connection()
            assert await answers(first, 1)
            third = await connection()
            assert await second.receive() is None
            assert await answers(first, 2)
            assert await answers(third, 3)
            nursery.cancel_scope.cancel()

    run(test)


def test_a_broker_without_the_endpoint_is_named() -> None:
    with pytest.raises(OSError, match="broker 1 has no endpoint CONTROL"):
        endpoint_of(Broker(ONE, BrokerEpoch(1), (Endpoint("PLAINTEXT", "h", 1),)), "CONTROL")


def test_a_frame_cut_off() -> None:
    async def test() -> None:
        ours, theirs = trio.testing.memory_stream_pair()
        await ours.send_all(b"\0\0")
        await ours.send_eof()
        with pytest.raises(FrameError, match="in the middle"):
            await Frames(theirs).receive()

    run(test)
