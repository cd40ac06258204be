"""The tests of `tests/unit/runtime/test_peer_port.py` that need sockets or processes."""

from __future__ import annotations

import logging
import socket
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
            PeerHandshake(me, "zab", Limits(handshake_ms=1000), lambda hello: [hello.host]),
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
        port = PeerPort(
            Purpose.LEARNER,
            TcpNetwork(),
            PeerHandshake(me, "zab", Limits(handshake_ms=100), lambda hello: []),
            Limits(),
            log,
            no_peer,
        )
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
