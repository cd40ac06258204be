"""The beginnings of connections as ZooKeeper's servers make them, over streams in memory and a clock that jumps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

import pytest
import trio
import trio.testing

from zab.core.errors import WireError
from zab.core.messages import FollowerInfo
from zab.core.zxid import Epoch, ServerId, Zxid
from zab.runtime.peer_protocol import UNREACHABLE, Introduction
from zab.runtime.quorum_auth import QuorumAuth
from zab.runtime.zookeeper_handshake import ZookeeperHandshake
from zab.service.limits import Limits
from zab.service.zookeeper_peers import QuorumSasl, ZookeeperPeers
from zab.wire.apache.proposals import ProposalEncoder
from zab.wire.apache.quorum_packets import PacketType, QuorumPacket, encode_packet
from zab.wire.greeting import Purpose, WrongPeer
from zab.wire.sasl import SaslError


def protocol(
    me: int,
    known: Callable[[Introduction], list[str]] = lambda introduced: ["host"],
    sasl: QuorumSasl | None = None,
) -> ZookeeperHandshake:
    auth = None if sasl is None else QuorumAuth(sasl, Random(me).randbytes)
    made = ZookeeperHandshake(ServerId(me), ZookeeperPeers(), Limits(handshake_ms=500), known, ProposalEncoder(), auth)
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


# -- SASL ----------------------------------------------------------------------------------------------

USERS = {"zk": "secret"}
LOGS_IN, REQUIRES = QuorumSasl(("zk", "secret"), USERS, False), QuorumSasl(None, USERS, True)
INFO = FollowerInfo(Epoch(2), Zxid(0), False)


@pytest.mark.parametrize("purpose", list(Purpose))
async def test_dialler_logs_in_and_later_bytes_stay_unread(purpose: Purpose) -> None:
    here, there = trio.testing.memory_stream_pair()
    dialler, acceptor = protocol(4, sasl=LOGS_IN), protocol(1, sasl=REQUIRES)
    introduced: list[Introduction] = []

    async def answer() -> None:
        introduced.append(await acceptor.answer(there, purpose))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        await dialler.call(here, ServerId(1), purpose)
        await here.send_all(dialler.codec(dialled=True).encode(INFO) if purpose is Purpose.LEARNER else b"later")
    assert introduced[0].server == 4
    if purpose is Purpose.ELECTION:
        assert introduced[0].first == b""
        assert await there.receive_some(100) == b"later"
    else:
        assert acceptor.codec(dialled=False).feed(introduced[0].first)[0] == [INFO]


@pytest.mark.parametrize("purpose", list(Purpose))
@pytest.mark.parametrize("users", [{"zk": "another"}, {"other": "secret"}])
async def test_wrong_password_is_refused_at_both_ends(purpose: Purpose, users: dict[str, str]) -> None:
    dialler, acceptor = protocol(4, sasl=LOGS_IN), protocol(1, sasl=QuorumSasl(None, users, False))

    async def call(stream: trio.abc.Stream) -> None:
        with pytest.raises(SaslError, match="refused the user or the password"):
            await dialler.call(stream, ServerId(1), purpose)

    assert isinstance(await answered(call, acceptor, purpose), WrongPeer)


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("purpose", list(Purpose))
async def test_dialler_without_login_is_refused_if_it_must_log_in(purpose: Purpose, required: bool) -> None:
    dialler, acceptor = protocol(4), protocol(1, sasl=QuorumSasl(None, USERS, required))

    async def call(stream: trio.abc.Stream) -> None:
        await dialler.call(stream, ServerId(1), purpose)
        await stream.send_all(dialler.codec(dialled=True).encode(INFO) if purpose is Purpose.LEARNER else b"12345678")

    found = await answered(call, acceptor, purpose)
    if required:
        assert isinstance(found, WrongPeer)
    else:
        assert isinstance(found, Introduction)
        assert found.server == 4
        assert found.first == b"12345678" or purpose is Purpose.LEARNER


async def test_knock_without_login_is_accepted_if_none_is_required() -> None:
    async def knock(stream: trio.abc.Stream) -> None:
        await protocol(1).call(stream, ServerId(4), Purpose.ELECTION)
        await stream.aclose()

    found = await answered(knock, protocol(4, sasl=LOGS_IN), Purpose.ELECTION)
    assert found == Introduction(ServerId(1), "10.0.0.1", 3888)
