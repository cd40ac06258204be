"""The first words, over streams in memory and a clock that jumps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from zab.core.errors import WireError
from zab.core.zxid import ServerId
from zab.runtime.peer_handshake import PeerHandshake, described
from zab.runtime.peer_protocol import Introduction
from zab.service.limits import Limits
from zab.wire.frames import frame
from zab.wire.greeting import VERSION, Purpose, Welcome, WrongPeer
from zab.wire.peer import encode

Side = Callable[[trio.abc.Stream], Awaitable[object]]


def shake(one: int = 1, other: int = 2, ensemble: str = "zab") -> tuple[PeerHandshake, PeerHandshake]:
    def anyone(introduced: Introduction) -> list[str]:
        return [introduced.host]

    limits = Limits(handshake_ms=500)
    return PeerHandshake(ServerId(one), "zab", limits, anyone), PeerHandshake(ServerId(other), ensemble, limits, anyone)


async def both(caller: Side, answerer: Side) -> tuple[object, object]:
    """Return the result or error of each side."""
    here, there = trio.testing.memory_stream_pair()
    outcome: dict[str, object] = {}

    async def run(name: str, side: Side, stream: trio.abc.Stream) -> None:
        try:
            outcome[name] = await side(stream)
        except (WireError, trio.TooSlowError, trio.BrokenResourceError) as error:
            outcome[name] = error

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, "caller", caller, here)
        nursery.start_soon(run, "answerer", answerer, there)
    return outcome["caller"], outcome["answerer"]


async def test_members_welcome_each_other() -> None:
    caller, answerer = shake()
    caller.listen_at("10.0.0.1", 3888)
    called, hello = await both(
        lambda stream: caller.call(stream, ServerId(2), Purpose.ELECTION),
        lambda stream: answerer.answer(stream, Purpose.ELECTION),
    )
    assert called is None
    assert hello == Introduction(ServerId(1), "10.0.0.1", 3888)


async def test_both_sides_of_a_refusal_know_why() -> None:
    caller, answerer = shake(ensemble="other")
    called, answered = await both(
        lambda stream: caller.call(stream, ServerId(2), Purpose.LEARNER),
        lambda stream: answerer.answer(stream, Purpose.LEARNER),
    )
    assert isinstance(called, WrongPeer)
    assert isinstance(answered, WrongPeer)
    assert str(answered) == "it belongs to the ensemble 'zab', this server to 'other'"
    assert str(called) == f"it refused this server: {answered}"


async def test_answering_server_must_have_the_expected_id() -> None:
    caller, answerer = shake(other=3)
    called, _ = await both(
        lambda stream: caller.call(stream, ServerId(2), Purpose.LEARNER),
        lambda stream: answerer.answer(stream, Purpose.LEARNER),
    )
    assert isinstance(called, WrongPeer)
    assert str(called) == "server 3 answers at the address of server 2"


async def test_bytes_after_the_greeting_stay_unread() -> None:
    caller, _ = shake()
    here, there = trio.testing.memory_stream_pair()
    await there.send_all(encode(Welcome(VERSION, ServerId(2))) + b"what follows")
    await caller.call(here, ServerId(2), Purpose.LEARNER)
    assert await here.receive_some() == b"what follows"


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0\x10", encode(Welcome(VERSION, ServerId(2)))[:-1]])
def test_half_a_greeting_is_not_waited_for(data: bytes) -> None:
    async def main() -> float:
        _, answerer = shake()
        here, there = trio.testing.memory_stream_pair()
        await here.send_all(data)
        began = trio.current_time()
        with pytest.raises(trio.TooSlowError):
            await answerer.answer(there, Purpose.LEARNER)
        return trio.current_time() - began

    assert trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0)) == pytest.approx(0.5)


def test_slow_sender_gets_no_extra_time() -> None:
    async def main() -> float:
        _, answerer = shake()
        here, there = trio.testing.memory_stream_pair()

        async def drip() -> None:
            for byte in frame(bytes(1000)):
                await here.send_all(bytes((byte,)))
                await trio.sleep(0.1)

        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drip)
            with pytest.raises(trio.TooSlowError):
                await answerer.answer(there, Purpose.LEARNER)
            nursery.cancel_scope.cancel()
        return trio.current_time() - began

    assert trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0)) == pytest.approx(0.5)


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", frame(b"\xc1"), frame(b"\x91\x63"), b"\0\0\0\0"])
async def test_noise_is_refused(data: bytes) -> None:
    _, answerer = shake()
    here, there = trio.testing.memory_stream_pair()
    await here.send_all(data)
    with pytest.raises(WireError):
        await answerer.answer(there, Purpose.LEARNER)


async def test_an_early_end_is_refused() -> None:
    _, answerer = shake()
    here, there = trio.testing.memory_stream_pair()
    await here.send_all(b"\0\0")
    await here.aclose()
    with pytest.raises(WireError, match="closed during the greeting"):
        await answerer.answer(there, Purpose.LEARNER)


def test_errors_are_described_by_their_cause() -> None:
    wrapped = trio.BrokenResourceError()
    wrapped.__cause__ = ConnectionResetError("reset by peer")
    assert described(wrapped) == "reset by peer"
    assert described(trio.TooSlowError()) == "no answer in time"
    assert described(trio.ClosedResourceError()) == "ClosedResourceError"


@pytest.mark.parametrize("first", [b"\x16\x03\x01\x02\x00\x01", b"\x15\x03\x03\x00\x02\x02\x28"])
async def test_tls_mismatch_is_reported_in_words(first: bytes) -> None:
    """A server with `sslQuorum` dials one without, or the other way round."""
    _, answerer = shake()
    _, answered = await both(
        lambda stream: stream.send_all(first), lambda stream: answerer.answer(stream, Purpose.ELECTION)
    )
    assert "sslQuorum" in str(answered)
