"""Dialling other servers by names."""

from __future__ import annotations

import errno
from collections.abc import Sequence

import trio
import trio.testing

from zab.core.zxid import Epoch, ServerId
from zab.host.logs import Log
from zab.runtime.peer_handshake import PeerHandshake
from zab.runtime.peer_port import PeerPort
from zab.service.limits import Limits
from zab.wire.greeting import Purpose


class OneDescriptor(trio.abc.Listener[trio.abc.Stream]):
    """Accepts one connection, and has no descriptor for the next one."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._streams = [stream]

    async def listen(self, host: str, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        return [self]

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        raise NotImplementedError

    async def accept(self) -> trio.abc.Stream:
        if self._streams:
            return self._streams.pop()
        await trio.sleep(1)
        raise OSError(errno.EMFILE, "too many open files")

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def no_peer(hello: object, stream: trio.abc.Stream) -> None:
    raise AssertionError(hello)


def test_lack_of_descriptors_ends_a_silent_connection_of_a_stranger() -> None:
    async def main() -> None:
        accepted, silent = trio.testing.memory_stream_pair()
        me = ServerId(1)
        handshake = PeerHandshake(me, "zab", Limits(handshake_ms=3_600_000), lambda hello: [])
        log = Log(me, lambda: Epoch(0))
        port = PeerPort(Purpose.LEARNER, OneDescriptor(accepted), handshake, Limits(), log, no_peer)
        async with trio.open_nursery() as nursery:
            await port.bind(nursery, "host1", 2888)
            with trio.fail_after(60):
                await silent.receive_some()
                assert await silent.receive_some() == b""
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
