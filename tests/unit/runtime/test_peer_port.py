"""Dialling other servers by names."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from zab.core.zxid import Epoch, ServerId
from zab.host.logs import Log
from zab.net.cannot_listen import CannotListen
from zab.net.network import TcpNetwork
from zab.runtime.peer_handshake import PeerHandshake
from zab.runtime.peer_port import PeerDialler, PeerPort
from zab.service.limits import Limits
from zab.wire.greeting import Purpose


class NoNames(trio.abc.HostnameResolver):
    async def getaddrinfo(self, *arguments: Any, **options: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def getnameinfo(self, *arguments: Any) -> Any:
        raise NotImplementedError


def test_unresolved_name_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def main() -> None:
        trio.socket.set_custom_hostname_resolver(NoNames())
        me = ServerId(1)
        dialler = PeerDialler(
            TcpNetwork(),
            PeerHandshake(me, "zab", 1000, lambda hello: [hello.host]),
            Limits(),
            Log(me, lambda: Epoch(0)),
        )
        for _ in range(3):
            with pytest.raises(OSError, match="not known"):
                await dialler.dial("zk2.example", 2888, ServerId(2), Purpose.ELECTION)

    trio.run(main)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("host_unknown server=1 epoch=0 peer=2 host=zk2.example why=")
    assert "the name zk2.example cannot be resolved: Name or service not known" in said


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


def test_port_moves_from_all_addresses_to_one_of_them() -> None:
    """While a listener has the port on all addresses, no single address is free."""

    async def answers(host: str, port: int) -> bool:
        try:
            stream = await trio.open_tcp_stream(host, port)
        except OSError:
            return False
        await stream.aclose()
        return True

    async def main() -> None:
        me = ServerId(1)
        log = Log(me, lambda: Epoch(0))
        port = PeerPort(Purpose.LEARNER, TcpNetwork(), PeerHandshake(me, "zab", 100, list), Limits(), log, no_peer)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            number = free.getsockname()[1]
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                await port.bind(nursery, "0.0.0.0", number)
                assert await answers("127.0.0.2", number)
                await port.bind(nursery, "127.0.0.1", number)
                assert port.bound == ("127.0.0.1", number)
                assert await answers("127.0.0.1", number)
                assert not await answers("127.0.0.2", number)
                with pytest.raises(CannotListen):
                    await port.bind(nursery, "192.0.2.1", number)
                assert port.bound == ("127.0.0.1", number)
                assert await answers("127.0.0.1", number)
                nursery.cancel_scope.cancel()

    trio.run(main)


def test_lack_of_descriptors_ends_a_silent_connection_of_a_stranger() -> None:
    async def main() -> None:
        accepted, silent = trio.testing.memory_stream_pair()
        me = ServerId(1)
        handshake = PeerHandshake(me, "zab", 3_600_000, lambda hello: [])
        log = Log(me, lambda: Epoch(0))
        port = PeerPort(Purpose.LEARNER, OneDescriptor(accepted), handshake, Limits(), log, no_peer)
        async with trio.open_nursery() as nursery:
            await port.bind(nursery, "host1", 2888)
            with trio.fail_after(60):
                await silent.receive_some()
                assert await silent.receive_some() == b""
            port.unbind()
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
