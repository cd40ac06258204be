"""Commands over real sockets: in order, once each is answered, and never from a controller that is none any more."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from kraft_controller.core import controller_events as events
from kraft_controller.core.command_handler import ControllerCommandHandler
from kraft_controller.core.commands import Answer, Command, LeaderAndIsr, Numbered, Stop, StopReplica, UpdateMetadata
from kraft_controller.core.controller_events import Event
from kraft_controller.core.error_codes import STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH
from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from kraft_controller.core.state import Broker, Endpoint
from kraft_controller.runtime.command_connections import CommandConnections, ConnectionSettings, endpoint_of
from kraft_controller.runtime.command_server import CommandServer, report_misaddressed
from kraft_controller.runtime.frames import Frames
from kraft_controller.wire.command_frames import FrameError, decode, encode

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
        self.serve_as(None)
        self.connections = 0

    def serve_as(self, me: BrokerId | None) -> None:
        report = partial(report_misaddressed, me or ONE)
        self.handler = ControllerCommandHandler(lambda: BrokerEpoch(5), self.apply, me=me, report_misaddressed=report)
        self.server = CommandServer(self.handler)

    def apply(self, command: Command) -> Mapping[TopicPartition, int]:
        self.heard.append(command)
        return self.errors

    async def serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        if self.hang_ups:
            self.hang_ups -= 1
            await stream.receive_some(10)
            await stream.aclose()
            return
        await self.server.serve(stream)


@asynccontextmanager
async def linked(broker: Broken, answered: Callable[[Event], None] = print) -> AsyncIterator[CommandConnections]:
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, broker.serve, [listener])
        links = CommandConnections(answered, ConnectionSettings(backoff_s=0.01, answer_s=20.0, waiting_max=200))
        await nursery.start(links.run)
        links.update_brokers({ONE: Broker(ONE, BrokerEpoch(5), (Endpoint("PLAINTEXT", "127.0.0.1", port),))})
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


def test_command_without_a_reply_is_sent_again_first(caplog: pytest.LogCaptureFixture) -> None:
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
            await until(lambda: "broker 1 is reachable again" in caplog.text)
            assert caplog.text.count("failed to send a command to broker 1") == 1, "not at each try"

    run(test)


@pytest.mark.mechanism(82)
def test_nothing_is_sent_after_the_term() -> None:
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


def test_command_for_another_registration_is_not_sent() -> None:
    async def test() -> None:
        broker = Broken()
        async with linked(broker) as links:
            links.send(ONE, metadata(1, broker_epoch=4))
            links.send(BrokerId(2), metadata(1))
            links.send(ONE, metadata(2))
            await until(lambda: bool(broker.heard))
            assert [command.controller_epoch for command in broker.heard] == [2]

    run(test)


def test_replies_become_events() -> None:
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
                events.LeaderAndIsrReplied(ONE, BrokerEpoch(5), (T0,)),
                events.StopReplicaReplied(ONE, BrokerEpoch(5), (other,), (T0,)),
            ]
            # A log that says that it is another topic's cannot be led with either; what is old is no matter of logs.
            broker.errors = {T0: 11, other: 103}
            links.send(ONE, LeaderAndIsr(*head, False, (), ()))
            await until(lambda: len(heard) == 3)
            assert heard[-1] == events.LeaderAndIsrReplied(ONE, BrokerEpoch(5), (other,))

    run(test)


@pytest.mark.mechanism(82)
def test_commands_are_fenced_by_epochs() -> None:
    obeyed: list[Command] = []

    def apply(command: Command) -> dict[TopicPartition, int]:
        obeyed.append(command)
        return {}

    handler = ControllerCommandHandler(lambda: BrokerEpoch(5), apply)
    assert handler.handle(Numbered(1, metadata(3, 5))).error == 0
    assert handler.handle(Numbered(2, metadata(2, 5))).error == STALE_CONTROLLER_EPOCH
    assert handler.handle(Numbered(3, metadata(4, 4))).error == STALE_BROKER_EPOCH
    assert handler.handle(Numbered(4, metadata(3, 6))).error == 0
    assert handler.handle(Numbered(5, metadata(3, -1))).error == 0
    assert len(obeyed) == 3
    assert handler.controller_epoch == 3


def test_late_command_of_the_same_controller_is_refused() -> None:
    obeyed: list[Command] = []

    def apply(command: Command) -> dict[TopicPartition, int]:
        obeyed.append(command)
        return {}

    handler = ControllerCommandHandler(lambda: BrokerEpoch(5), apply)
    for number in (7, 7, 9):  # said again, because the first answer was lost
        assert handler.handle(Numbered(number, metadata(3))).error == 0
    assert handler.handle(Numbered(7, metadata(3))).error == STALE_CONTROLLER_EPOCH
    assert len(obeyed) == 3
    assert handler.handle(Numbered(1, metadata(4))).error == 0, "another controller counts anew"


def test_new_queue_continues_the_correlation_numbers() -> None:
    async def test() -> None:
        broker = Broken()
        async with linked(broker) as links:
            for _ in range(3):
                links.send(ONE, metadata())
            await until(lambda: len(broker.heard) == 3)
            [known] = [queue.broker for queue in links.queues()]
            links.update_brokers({})
            links.update_brokers({ONE: known})
            links.send(ONE, metadata())
            await until(lambda: len(broker.heard) == 4)

    run(test)


@pytest.mark.parametrize(
    "noise",
    [b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff\xff\xff", b"\0\0\0\x03abc", b"\0\0\0\x09x"],
)
def test_malformed_frame_closes_only_its_connection(noise: bytes) -> None:
    async def test() -> None:
        broker = Broken()
        async with linked(broker) as links:
            links.send(ONE, metadata())
            await until(lambda: bool(broker.heard))
            ours, theirs = trio.testing.memory_stream_pair()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(broker.server.serve, theirs)
                await ours.send_all(noise)
                await ours.send_eof()
                assert await ours.receive_some() == b""
            links.send(ONE, metadata(2))
            await until(lambda: len(broker.heard) == 2)

    run(test)


def test_reply_to_another_command_is_not_accepted() -> None:
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


def test_misaddressed_command_is_refused_and_repeated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A broker that is registered with the address of another would have that one's replicas deleted."""

    async def test() -> None:
        broker = Broken()
        broker.serve_as(BrokerId(7))
        async with linked(broker) as links:
            links.send(ONE, metadata())
            await until(lambda: links.queues()[0].resent > 2)
            assert broker.heard == []
            assert caplog.text.count("broker 7 receives commands for broker 1") == 1
            assert caplog.text.count("broker 1 registered an endpoint that belongs to another broker") == 1
            # What is for itself is heard: the other's commands, of greater numbers, have not made it old.
            assert broker.handler.handle(Numbered(1, metadata(), BrokerId(7))).error == 0
            broker.serve_as(ONE)
            broker.heard.clear()
            await until(lambda: len(broker.heard) == 1)

    run(test)


def test_refused_roles_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        broker = Broken()
        broker.errors = {T0: 103}
        async with linked(broker) as links:
            links.send(ONE, LeaderAndIsr(BrokerId(9), ControllerEpoch(1), BrokerEpoch(5), False, (), ()))
            await until(lambda: links.waiting() == {ONE: 0})
            assert "broker 1 refused LeaderAndIsr roles (1 in total): t-0 (error 103)" in caplog.text

    run(test)


def test_full_queue_is_dropped() -> None:
    """Then all are dropped: the controller hears of it, and says everything anew over another link."""

    async def test() -> None:
        broker, heard = Broken(), list[Event]()
        broker.hang_ups = 10_000
        async with linked(broker, heard.append) as links:
            [known] = [queue.broker for queue in links.queues()]
            for number in range(1, 202):
                assert heard == []
                links.send(ONE, metadata(number))
            assert heard == [events.CommandQueueOverflowed(ONE, BrokerEpoch(5))]
            links.send(ONE, metadata(300))
            assert links.waiting() == {}
            broker.hang_ups = 0
            links.update_brokers({ONE: known})
            links.send(ONE, metadata(301))
            await until(lambda: bool(broker.heard))
            assert [command.controller_epoch for command in broker.heard] == [301]

    run(test)


def test_most_silent_connection_is_closed_for_a_new_one() -> None:
    async def test() -> None:
        handler = ControllerCommandHandler(lambda: BrokerEpoch(5), lambda command: {})
        server = CommandServer(handler, connections_max=2)
        async with trio.open_nursery() as nursery:

            async def connection() -> Frames:
                ours, theirs = trio.testing.memory_stream_pair()
                nursery.start_soon(server.serve, theirs)
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


def test_malformed_frames_are_logged_once_per_host(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        server = CommandServer(ControllerCommandHandler(lambda: BrokerEpoch(5), lambda command: {}))
        for number in range(50):
            ours, theirs = trio.testing.memory_stream_pair()
            await Frames(ours).send(b"not a command")
            await server.serve(theirs, f"10.0.0.{number % 2}")
        lines = [record.getMessage() for record in caplog.records]
        assert [line.partition(" why=")[0] for line in lines] == [
            f"command_connection_closed host=10.0.0.{host}" for host in (0, 1)
        ]

    run(test)


def test_missing_endpoint_is_named() -> None:
    with pytest.raises(OSError, match=r"broker 1 has no endpoint for commands \(listener CONTROL"):
        endpoint_of(Broker(ONE, BrokerEpoch(1), (Endpoint("PLAINTEXT", "h", 1),)), "CONTROL")


def test_torn_frame_is_refused() -> None:
    async def test() -> None:
        ours, theirs = trio.testing.memory_stream_pair()
        await ours.send_all(b"\0\0")
        await ours.send_eof()
        with pytest.raises(FrameError, match="in the middle"):
            await Frames(theirs).receive()

    run(test)
