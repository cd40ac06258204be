"""Election links over a network in memory: one for each pair, and the newest notification arrives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from zab.core.ensemble import Ensemble, Server
from zab.core.messages import Notification, Reachable, State
from zab.core.zxid import NOTHING, Epoch, ServerId
from zab.host.logs import Log
from zab.net.wakeup import Wakeup
from zab.runtime.election_links import ElectionLinks
from zab.runtime.inbox import Inbox
from zab.runtime.peer_handshake import PeerHandshake
from zab.runtime.peer_port import PeerDialler, PeerPort
from zab.service.election_link import Address
from zab.service.limits import Limits
from zab.wire.greeting import Purpose

ENSEMBLE = Ensemble((Server(ServerId(1), "localhost", 1, 2),))


class MemoryNetwork:
    """Streams in memory. Every connection is remembered, so that a test can count and cut them."""

    def __init__(self) -> None:
        self.listeners: dict[Address, trio.MemorySendChannel[trio.abc.Stream]] = {}
        self.made: list[tuple[trio.abc.Stream, trio.abc.Stream]] = []
        self.down: set[Address] = set()

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        if (host, port) not in self.listeners or (host, port) in self.down:
            raise OSError("connection refused")
        here, there = trio.testing.memory_stream_pair()
        self.made.append((here, there))
        await self.listeners[host, port].send(there)
        return here

    async def listen(self, host: str, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        send, receive = trio.open_memory_channel[trio.abc.Stream](10)
        self.listeners[host, port] = send
        return [MemoryListener(receive)]

    def swallow(self) -> None:
        """Deliver nothing that is sent on the connections of now, and break none of them."""
        for ends in self.made:
            for end in ends:
                end.send_stream.send_all_hook = end.send_stream.close_hook = None  # type: ignore[attr-defined]

    async def cut(self) -> None:
        made, self.made = self.made, []
        for here, there in made:
            await trio.aclose_forcefully(here)
            await trio.aclose_forcefully(there)


class MemoryListener(trio.abc.Listener[trio.abc.Stream]):
    def __init__(self, streams: trio.MemoryReceiveChannel[trio.abc.Stream]) -> None:
        self._streams = streams

    async def accept(self) -> trio.abc.Stream:
        return await self._streams.receive()

    async def aclose(self) -> None:
        await self._streams.aclose()


class Peer:
    def __init__(self, network: MemoryNetwork, sid: int, known: Sequence[int]) -> None:
        limits = Limits()
        self.sid = ServerId(sid)
        self.inbox = Inbox(Wakeup(), 1 << 20, lambda: 0)
        self.heard: list[tuple[int, Any]] = []
        log = Log(self.sid, lambda: Epoch(0))
        handshake = PeerHandshake(self.sid, "zab", limits, lambda hello: [hello.host])
        handshake.listen_at(f"host{sid}", 3888)
        self.known = set(known)
        self.elections = ElectionLinks(
            self.sid, PeerDialler(network, handshake, limits, log), self.inbox, limits, log, self._addresses
        )
        self.port = PeerPort(Purpose.ELECTION, network, handshake, limits, log, self.elections.welcomed)

    def _addresses(self, peer: ServerId) -> list[Address]:
        return [(f"host{peer}", 3888)] if peer in self.known else []

    def say(self, to: int, turn: int, state: State = State.LOOKING) -> None:
        self.elections.send(ServerId(to), Notification(state, self.sid, NOTHING, Epoch(0), turn, ENSEMBLE))

    def hear(self) -> list[tuple[int, Any]]:
        """Return senders and rounds; `reachable` for an opened link."""
        for source, messages in self.inbox.take():
            assert isinstance(source, int)
            for message in messages:
                self.heard.append((source, "reachable" if isinstance(message, Reachable) else message.round))
        return self.heard

    def rounds(self, source: int) -> list[int]:
        return [word for who, word in self.hear() if who == source and word != "reachable"]


@asynccontextmanager
async def peers(*sids: int, known: Sequence[int] = (1, 2, 3)) -> AsyncIterator[tuple[MemoryNetwork, dict[int, Peer]]]:
    network = MemoryNetwork()
    made = {sid: Peer(network, sid, known) for sid in sids}
    async with trio.open_nursery() as nursery:
        for sid, peer in made.items():
            await peer.port.bind(nursery, f"host{sid}", 3888)
            nursery.start_soon(peer.elections.run)
        await trio.testing.wait_all_tasks_blocked()
        yield network, made
        nursery.cancel_scope.cancel()


def jumping(main: Any) -> None:
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def settle(seconds: float = 3.0) -> None:
    """Wait until all tasks are idle, on a clock that jumps."""
    await trio.sleep(seconds)


def test_the_larger_one_connects() -> None:
    async def main() -> None:
        async with peers(1, 2) as (network, made):
            made[2].say(1, turn=7)
            await settle()
            assert made[1].hear() == [(2, "reachable"), (2, 7)]
            assert made[2].hear() == [(1, "reachable")]
            assert len(network.made) == 1

    jumping(main)


def test_the_smaller_one_knocks_and_is_called_back() -> None:
    async def main() -> None:
        async with peers(1, 2) as (network, made):
            made[1].say(2, turn=7)
            await settle()
            assert made[2].hear() == [(1, "reachable"), (1, 7)]
            assert made[1].hear() == [(2, "reachable")]
            assert len(network.made) == 2, "a knock, and the connection"

    jumping(main)


def test_simultaneous_connections_end_with_one_working_link() -> None:
    async def main() -> None:
        async with peers(1, 2, 3) as (_, made):
            for here in made:
                for there in made:
                    if here != there:
                        made[here].say(there, turn=here)
            await settle()
            for sid, peer in made.items():
                others = sorted({1, 2, 3} - {sid})
                assert list(peer.elections.links()) == others
                for other in others:
                    assert set(peer.rounds(other)) == {other}
            before = [len(peer.hear()) for peer in made.values()]
            await settle(60)
            assert [len(peer.hear()) for peer in made.values()] == before, "and then there is peace"

    jumping(main)


@pytest.mark.parametrize("looks", [1, 2])
def test_link_whose_bytes_are_swallowed_is_replaced(looks: int) -> None:
    async def main() -> None:
        async with peers(1, 2) as (network, made):
            other = 3 - looks
            made[looks].say(other, turn=7)
            await settle()
            network.swallow()
            made[looks].say(other, turn=8)
            await settle(5)
            made[looks].elections.renew_silent([ServerId(other)], 9_000)
            await settle()
            assert made[other].rounds(looks) == [7], "the link is not silent for that long"
            made[looks].elections.renew_silent([ServerId(other)], 5_000)
            await settle()
            assert made[other].rounds(looks) == [7, 8]
            assert made[looks].elections.links() == (other,)

    jumping(main)


def test_only_the_newest_word_waits_for_a_peer_that_is_down() -> None:
    async def main() -> None:
        async with peers(1, 2) as (network, made):
            network.down.add(("host1", 3888))
            for turn in range(50):
                made[2].say(1, turn)
                await trio.sleep(0.1)
            network.down.clear()
            await settle()
            assert made[1].rounds(2) == [49]

    jumping(main)


def test_last_notification_is_repeated_after_a_reconnection() -> None:
    async def main() -> None:
        async with peers(1, 2) as (network, made):
            made[2].say(1, turn=7)
            made[1].say(2, turn=5)
            await settle()
            await network.cut()
            await settle()
            assert made[1].rounds(2) == [7, 7]
            assert made[2].rounds(1) == [5, 5]

    jumping(main)


def test_settled_election_sends_no_old_notifications() -> None:
    async def main() -> None:
        async with peers(1, 2) as (network, made):
            made[2].say(1, turn=7)
            await settle()
            made[2].elections.settled()
            await network.cut()
            await settle()
            assert made[1].rounds(2) == [7]

    jumping(main)


def test_stranger_is_answered_at_the_address_of_its_greeting() -> None:
    """A joining server is in no membership yet."""

    async def main() -> None:
        async with peers(1, 3, 2) as (_, made):
            made[3].known = {3}
            made[1].say(3, turn=1)
            await settle()
            assert made[3].rounds(1) == [1], "called back where it said it is"
            made[3].say(1, turn=9)
            await settle()
            assert made[1].rounds(3) == [9]

    jumping(main)


def test_a_server_that_left_is_dropped() -> None:
    async def main() -> None:
        async with peers(1, 2) as (_, made):
            made[2].say(1, turn=7)
            await settle()
            made[2].known = {2, 3}
            made[2].elections.drop(ServerId(1))
            await settle()
            assert made[2].elections.links() == ()
            assert made[1].elections.links() == ()

    jumping(main)


def test_strangers_are_remembered_up_to_a_number() -> None:
    async def main() -> None:
        async with peers(2) as (network, made):
            limit = made[2].elections.limits.strangers_max
            for sid in range(100, 100 + 2 * limit):
                made[2].say(sid, turn=1)
            assert len(made[2].elections._pairs) <= limit
            await settle()
            assert made[2].elections._pairs == {}, "and not for long, if they cannot be reached"
            assert network.made == []

    jumping(main)
