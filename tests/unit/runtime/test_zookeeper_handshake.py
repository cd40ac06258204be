"""The beginnings of connections as ZooKeeper's servers make them, over streams in memory and a clock that jumps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from zab.core.errors import WireError
from zab.core.messages import FollowerInfo
from zab.core.zxid import Epoch, ServerId, Zxid
from zab.runtime.peer_protocol import UNREACHABLE, Introduction
from zab.runtime.zookeeper_handshake import ZookeeperHandshake
from zab.service.limits import Limits
from zab.service.zookeeper_peers import ZookeeperPeers
from zab.wire.apache.proposals import ProposalEncoder
from zab.wire.apache.quorum_packets import PacketType, QuorumPacket, encode_packet
from zab.wire.greeting import Purpose, WrongPeer


def protocol(me: int, known: Callable[[Introduction], list[str]] = lambda introduced: ["host"]) -> ZookeeperHandshake:
    made = ZookeeperHandshake(ServerId(me), ZookeeperPeers(), Limits(handshake_ms=500), known, ProposalEncoder())
    made.listen_at(f"10.0.0.{me}", 3888)
    return made


Caller = Callable[[trio.abc.Stream], Awaitable[object]]


async def answered(call: Caller, answerer: ZookeeperHandshake, purpose: Purpose) -> Introduction | BaseException:
    here, there = trio.testing.memory_stream_pair()
    outcome: list[Introduction | BaseException] = []

    async def answer() -> None:
        try:
            outcome.append(await answerer.answer(there, purpose))
        except UNREACHABLE as error:
            outcome.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        await call(here)
    return outcome[0]


async def test_server_introduces_itself_at_an_election_port_and_leaves_later_bytes_unread() -> None:
    here, there = trio.testing.memory_stream_pair()
    await protocol(4).call(here, ServerId(1), Purpose.ELECTION)
    await here.send_all(b"later")
    introduced = await protocol(1).answer(there, Purpose.ELECTION)
    assert introduced == Introduction(ServerId(4), "10.0.0.4", 3888)
    assert await there.receive_some(100) == b"later"


async def test_first_packet_of_a_learner_introduces_it_and_belongs_to_the_link() -> None:
    here, there = trio.testing.memory_stream_pair()
    learner, leader = protocol(4), protocol(1)
    await learner.call(here, ServerId(1), Purpose.LEARNER)
    info = FollowerInfo(Epoch(2), Zxid(0), True)
    await here.send_all(learner.codec(dialled=True).encode(info))
    introduced = await leader.answer(there, Purpose.LEARNER)
    assert introduced.server == 4
    assert leader.codec(dialled=False).feed(introduced.first)[0] == [info]


@pytest.mark.parametrize(
    ("purpose", "data"),
    [
        (Purpose.ELECTION, b"GET / HTTP/1.1\r\n\r\n"),
        (Purpose.LEARNER, b"GET / HTTP/1.1\r\n\r\n"),
        (Purpose.LEARNER, encode_packet(QuorumPacket(PacketType.PING, 0))),
        (Purpose.LEARNER, encode_packet(QuorumPacket(PacketType.FOLLOWER_INFO, 0, bytes(20)))),
        (Purpose.LEARNER, encode_packet(QuorumPacket(PacketType.FOLLOWER_INFO, 0, bytes(5_000)))),
    ],
)
async def test_bytes_that_introduce_nobody_are_refused(purpose: Purpose, data: bytes) -> None:
    assert isinstance(await answered(lambda stream: stream.send_all(data), protocol(1), purpose), WireError)


async def test_server_that_stays_silent_is_dropped() -> None:
    async def silent(stream: trio.abc.Stream) -> None:
        await stream.send_all(b"\xff")

    assert isinstance(await answered(silent, protocol(1), Purpose.ELECTION), trio.TooSlowError)


async def test_connection_that_closes_early_is_an_error() -> None:
    async def closes(stream: trio.abc.Stream) -> None:
        await stream.aclose()

    assert isinstance(await answered(closes, protocol(1), Purpose.LEARNER), WireError)


async def test_stranger_and_a_server_with_the_same_id_are_refused() -> None:
    def unknown(introduced: Introduction) -> list[str]:
        raise WrongPeer(f"{introduced.server} is unknown")

    def calls(stream: trio.abc.Stream) -> Awaitable[object]:
        return protocol(4).call(stream, ServerId(1), Purpose.ELECTION)

    assert isinstance(await answered(calls, protocol(1, unknown), Purpose.ELECTION), WrongPeer)
    assert isinstance(await answered(calls, protocol(4), Purpose.ELECTION), WrongPeer)
