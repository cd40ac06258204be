from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from zab.core.batch import pack
from zab.core.errors import LocalProtocolError
from zab.core.messages import Ack, Commit, LinkDown, LinkUp, Propose, SnapChunk, SnapEnd
from zab.core.zxid import ServerId, Zxid, make
from zab.net.wakeup import Wakeup
from zab.runtime.inbox import Inbox
from zab.runtime.link import Link, Send
from zab.service.limits import Limits
from zab.wire.frames import FrameReader, frame
from zab.wire.greeting import WrongPeer
from zab.wire.peer import Channel, decode, encode
from zab.wire.relay_messages import SnapPiece

Pair = tuple[Link, trio.abc.Stream]


def inbox(bytes_max: int = 1 << 20, backlog: Callable[[], int] = lambda: 0) -> Inbox:
    return Inbox(Wakeup(), bytes_max, backlog)


def commits(*counters: int) -> list[bytes]:
    return [encode(Commit(make(1, counter))) for counter in counters]


class Talk:
    """A link of the leader with its other end in the test."""

    def __init__(self, nursery: trio.Nursery, limits: Limits = Limits(), room: Inbox | None = None) -> None:  # noqa: B008
        self.inbox = inbox() if room is None else room
        self.link = Link(ServerId(2), dialled=False, limits=limits)
        self.here, self.there = trio.testing.lockstep_stream_pair()
        self.heard: list[Any] = []
        self._reader = FrameReader(1 << 20)
        nursery.start_soon(self.link.run, self._opened, LinkUp(dialled=False), self.inbox)

    async def _opened(self) -> trio.abc.Stream:
        return self.here

    def events(self) -> list[Any]:
        self.heard += [message for source, messages in self.inbox.take() for message in messages]
        return self.heard

    async def settle(self) -> list[Any]:
        await trio.testing.wait_all_tasks_blocked()
        return self.events()

    async def receive(self) -> list[Any]:
        """Return the decoded result of one receive at the other end."""
        data = await self.there.receive_some()
        return [decode(Channel.TO_LEARNER, payload) for payload in self._reader.feed(data)]


async def test_link_reports_up_then_messages_then_down() -> None:
    async with trio.open_nursery() as nursery:
        talk = Talk(nursery)
        await talk.there.send_all(encode(Ack(make(1, 1))) + encode(Ack(make(1, 2))))
        await talk.there.aclose()
    assert talk.events() == [LinkUp(False), Ack(make(1, 1)), Ack(make(1, 2)), LinkDown(False)]
    assert talk.link.reason == "closed by the peer"


@pytest.mark.mechanism(112)
async def test_frames_of_one_turn_leave_in_one_piece() -> None:
    async with trio.open_nursery() as nursery:
        talk = Talk(nursery)
        await talk.settle()
        for each in commits(1, 2, 3):
            talk.link.send(each)
        talk.link.flush()
        assert await talk.receive() == [Commit(make(1, 1)), Commit(make(1, 2)), Commit(make(1, 3))]
        await talk.settle()
        assert talk.link.queued_bytes == 0
        assert talk.link.queued_frames == 0
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("limits", [Limits(link_bytes_max=40), Limits(link_frames_max=2)])
@pytest.mark.mechanism(112)
async def test_a_peer_that_does_not_read_is_cut(limits: Limits) -> None:
    async with trio.open_nursery() as nursery:
        talk = Talk(nursery, limits)
        for each in commits(1, 2):
            talk.link.send(each)
        talk.link.flush()
        assert LinkDown(False) not in await talk.settle()
        for each in commits(3, 4):
            talk.link.send(each)
    assert talk.events()[-1] == LinkDown(False)
    assert "too slow" in talk.link.reason


async def test_messages_after_a_long_transfer_keep_their_order() -> None:
    async def long(send: Send) -> None:
        for each in commits(2, 3, 4):
            await send(each)

    async with trio.open_nursery() as nursery:
        talk = Talk(nursery, Limits(link_bytes_max=40))
        (one, five) = commits(1, 5)
        talk.link.send(one)
        talk.link.send_bulk(long)
        talk.link.send(five)
        talk.link.flush()
        heard: list[Commit] = []
        while len(heard) < 5:
            heard += await talk.receive()
        assert heard == [Commit(make(1, counter)) for counter in (1, 2, 3, 4, 5)]
        nursery.cancel_scope.cancel()


async def test_closing_a_link_sends_its_queue_first() -> None:
    async with trio.open_nursery() as nursery:
        talk = Talk(nursery)
        await talk.settle()
        (one, two) = commits(1, 2)
        talk.link.send(one)
        talk.link.hang_up()
        talk.link.send(two)
        assert await talk.receive() == [Commit(make(1, 1))]
        assert await talk.there.receive_some() == b""
        assert LinkDown(False) not in await talk.settle(), "the other end has not closed yet"
        await talk.there.aclose()
    assert talk.events()[-1] == LinkDown(False)


def test_hanging_up_on_a_peer_that_takes_nothing_ends_in_time() -> None:
    async def main() -> float:
        async with trio.open_nursery() as nursery:
            talk = Talk(nursery, Limits(linger_ms=700))
            (one,) = commits(1)
            talk.link.send(one)
            talk.link.flush()
            await talk.settle()
            began = trio.current_time()
            talk.link.hang_up()
        return trio.current_time() - began

    assert trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0)) == pytest.approx(0.7)


async def test_a_cut_is_at_once_and_once() -> None:
    async with trio.open_nursery() as nursery:
        talk = Talk(nursery)
        await talk.settle()
        talk.link.cut("one reason")
        talk.link.cut("another")
    assert talk.link.reason == "one reason"
    assert talk.events() == [LinkUp(False), LinkDown(False)]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff\xff\xff\xff", "a frame of length 4294967295"),
        (frame(b"\xc1"), "does not unpack"),
        (encode(Commit(Zxid(1))), "tag 49 is not allowed on this link"),  # a learner does not commit
        (encode(Propose(pack(make(1, 1), [b""]))), "is not allowed on this link"),
    ],
)
async def test_noise_ends_the_link_with_a_reason(data: bytes, reason: str) -> None:
    async with trio.open_nursery() as nursery:
        talk = Talk(nursery)
        await talk.there.send_all(encode(Ack(make(1, 1))))
        await talk.settle()
        await talk.there.send_all(data)
    assert reason in talk.link.reason
    assert talk.link.at_fault
    assert talk.events() == [LinkUp(False), Ack(make(1, 1)), LinkDown(False)]


IN_PIECES = encode(SnapPiece(b"one ")) + encode(SnapPiece(b"two ")) + encode(SnapChunk(b"three")) + encode(SnapEnd())


async def learns(data: bytes, limits: Limits) -> tuple[Link, list[Any]]:
    """A learner's end of a link, on which `data` comes and then the end."""
    here, there = trio.testing.memory_stream_pair()
    link, room = Link(ServerId(3), dialled=True, limits=limits), inbox()

    async def opened() -> trio.abc.Stream:
        return here

    await there.send_all(data)
    await there.aclose()
    await link.run(opened, LinkUp(dialled=True), room)
    return link, [message for _, messages in room.take() for message in messages]


async def test_chunk_received_in_pieces_is_one_message() -> None:
    _, heard = await learns(IN_PIECES, Limits(snapshot_chunk_bytes_max=13))
    assert heard == [LinkUp(True), SnapChunk(b"one two three"), SnapEnd(), LinkDown(True)]


async def test_a_chunk_above_the_limit_cuts_the_link() -> None:
    link, heard = await learns(IN_PIECES, Limits(snapshot_chunk_bytes_max=12))
    assert heard == [LinkUp(True), LinkDown(True)]
    assert link.at_fault
    assert "more than 12 bytes" in link.reason


async def test_pieces_without_their_end_are_gone_with_the_link() -> None:
    _, heard = await learns(encode(SnapPiece(b"one ")), Limits())
    assert heard == [LinkUp(True), LinkDown(True)]


async def test_end_inside_a_frame_differs_from_a_clean_end() -> None:
    async with trio.open_nursery() as nursery:
        talk = Talk(nursery)
        await talk.there.send_all(encode(Ack(make(1, 1)))[:-1])
        await talk.there.aclose()
    assert talk.link.reason == "closed by the peer in the middle of a frame"


async def test_a_dial_that_fails_is_down_without_having_been_up() -> None:
    async def refused() -> trio.abc.Stream:
        raise OSError("connection refused")

    link, room = Link(ServerId(3), dialled=True, limits=Limits()), inbox()
    link.send(b"never sent")
    await link.run(refused, LinkUp(dialled=True), room)
    assert room.take() == [(link, [LinkDown(True)])]
    assert link.reason == "not reachable: connection refused"
    assert not link.at_fault


async def test_a_dial_that_ends_with_a_stranger_is_somebodys_fault() -> None:
    async def stranger() -> trio.abc.Stream:
        raise WrongPeer("it refused this server: it belongs to another ensemble")

    link, room = Link(ServerId(3), dialled=True, limits=Limits()), inbox()
    await link.run(stranger, LinkUp(dialled=True), room)
    assert link.at_fault
    assert "it refused this server" in link.reason


async def test_a_dial_may_be_given_up() -> None:
    async def endless() -> trio.abc.Stream:
        await trio.sleep_forever()
        raise AssertionError

    link, room = Link(ServerId(3), dialled=True, limits=Limits()), inbox()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.run, endless, LinkUp(dialled=True), room)
        await trio.testing.wait_all_tasks_blocked()
        link.cut("changed my mind")
    assert room.take() == [(link, [LinkDown(True)])]


# -- over a real socket, where the driver writes by itself -----------------------------------------------------


@asynccontextmanager
async def over_tcp(limits: Limits) -> AsyncIterator[tuple[Link, trio.SocketStream]]:
    here, there = socket.socketpair()
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(there))

    async def opened() -> trio.abc.Stream:
        return trio.SocketStream(trio.socket.from_stdlib_socket(here))

    link = Link(ServerId(2), dialled=False, limits=limits)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.run, opened, LinkUp(dialled=False), inbox())
        await trio.testing.wait_all_tasks_blocked()
        yield link, stream
        await trio.aclose_forcefully(stream)


async def test_flushed_data_is_sent_before_any_task_runs() -> None:
    async with over_tcp(Limits()) as (link, stream):
        for each in commits(1, 2):
            link.send(each)
        link.flush()
        assert (link.queued_bytes, link.queued_frames) == (0, 0)
        assert stream.socket.fileno() >= 0
        with trio.fail_after(120):
            data = await stream.receive_some()
        assert data == b"".join(commits(1, 2))
        assert link.sent_bytes == len(data)


async def test_unsent_bytes_follow_in_order() -> None:
    async with over_tcp(Limits()) as (link, stream):
        frames = [encode(Propose(pack(make(1, number), [bytes(100_000)]))) for number in range(1, 60)]
        for each in frames:
            link.send(each)
            link.flush()
        assert link.queued_bytes > 0
        received = bytearray()
        while len(received) < sum(map(len, frames)):
            received += await stream.receive_some()
            if len(received) == 65536:
                link.flush()
        assert received == b"".join(frames)
        await trio.testing.wait_all_tasks_blocked()
        assert (link.queued_bytes, link.queued_frames) == (0, 0)


async def test_a_peer_that_is_gone_is_noticed_when_written_to() -> None:
    async with over_tcp(Limits()) as (link, stream):
        await trio.aclose_forcefully(stream)
        link.send(commits(1)[0])
        link.flush()
        await trio.testing.wait_all_tasks_blocked()
        link.send(commits(1)[0])
        link.flush()
        assert link.queued_bytes == 0 or "broken" in link.reason


async def test_long_transfer_precedes_later_flushed_messages() -> None:
    async def long(send: Send) -> None:
        await trio.lowlevel.checkpoint()
        await send(commits(1)[0])

    async with over_tcp(Limits()) as (link, stream):
        link.send_bulk(long)
        link.send(commits(2)[0])
        link.flush()
        link.send(commits(3)[0])
        link.flush()
        received = b""
        while len(received) < len(b"".join(commits(1, 2, 3))):
            received += await stream.receive_some()
        assert received == b"".join(commits(1, 2, 3))


# -- the inbox ----------------------------------------------------------------------------------------------


async def test_a_full_inbox_stops_the_reading() -> None:
    room = inbox(bytes_max=20)
    async with trio.open_nursery() as nursery:
        talk = Talk(nursery, room=room)
        ack = encode(Ack(make(1, 1)))
        sent = 0

        async def send() -> None:
            nonlocal sent
            for _ in range(10):
                await talk.there.send_all(ack)
                sent += 1

        nursery.start_soon(send)
        await trio.testing.wait_all_tasks_blocked()
        assert sent < 5
        while sent < 10:
            room.take()
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


async def test_a_slow_disk_stops_the_reading_too() -> None:
    backlog = 100
    room = inbox(bytes_max=20, backlog=lambda: backlog)
    passed = False

    async def read() -> None:
        nonlocal passed
        await room.wait_for_room()
        passed = True

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        room.take()
        await trio.testing.wait_all_tasks_blocked()
        assert not passed
        backlog = 0
        room.take()
        await trio.testing.wait_all_tasks_blocked()
        assert passed


# -- a codec with state ------------------------------------------------------------------------------------


class Counting:
    """A codec whose messages have their place in the stream in front."""

    shares_frames = False
    held_bytes = 0

    def __init__(self) -> None:
        self.count = 0

    def feed(self, data: bytes | bytearray) -> tuple[list[Any], int]:
        return [], 0

    def encode(self, message: Any) -> bytes:
        if message is None:
            raise LocalProtocolError("no such message")
        self.count += 1
        return f"{self.count}:{message} ".encode()


@asynccontextmanager
async def counting(limits: Limits = Limits()) -> AsyncIterator[tuple[Link, trio.abc.Stream]]:  # noqa: B008
    here, there = trio.testing.memory_stream_pair()
    link = Link(ServerId(2), False, limits, codec=Counting())

    async def opened() -> trio.abc.Stream:
        return here

    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.run, opened, LinkUp(dialled=False), inbox())
        await trio.testing.wait_all_tasks_blocked()
        yield link, there
        nursery.cancel_scope.cancel()


async def test_messages_behind_bulk_data_are_encoded_after_it() -> None:
    goes_on = trio.Event()

    async def bulk(send: Send) -> None:
        await send(link.codec.encode("sync"))
        await goes_on.wait()
        await send(link.codec.encode("synced"))

    async with counting() as (link, there):
        link.send_message("a")
        link.send_bulk(bulk)
        link.send_message("b")
        link.flush()
        await trio.testing.wait_all_tasks_blocked()
        link.send_message("c")
        link.flush()
        goes_on.set()
        await trio.testing.wait_all_tasks_blocked()
        link.send_message("d")
        link.flush()
        await trio.testing.wait_all_tasks_blocked()
        assert await there.receive_some() == b"1:a 2:sync 3:synced 4:b 5:c 6:d "
        assert (link.queued_frames, link.queued_bytes) == (0, 0)


async def test_messages_behind_bulk_data_count_toward_the_limits() -> None:
    async def bulk(send: Send) -> None:
        await trio.sleep_forever()

    async with counting(Limits(link_bytes_max=100)) as (link, _):
        link.send_bulk(bulk)
        link.send_message(Propose(pack(make(1, 1), [bytes(60)])))
        assert link.reason == "closed"
        link.send_message(Propose(pack(make(1, 2), [bytes(60)])))
        assert "too slow" in link.reason


async def test_message_that_the_protocol_lacks_cuts_the_link() -> None:
    async with counting() as (link, _):
        link.send_message(None)
        assert (link.reason, link.at_fault) == ("no such message", True)


async def test_first_bytes_are_read_before_the_stream() -> None:
    here, there = trio.testing.memory_stream_pair()
    link, room = Link(ServerId(2), False, Limits()), inbox()

    async def opened() -> trio.abc.Stream:
        return here

    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.run, opened, LinkUp(dialled=False), room, encode(Ack(make(1, 1))))
        await there.send_all(encode(Ack(make(1, 2))))
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    found = [message for _, messages in room.take() for message in messages]
    assert found == [LinkUp(False), Ack(make(1, 1)), Ack(make(1, 2)), LinkDown(False)]
