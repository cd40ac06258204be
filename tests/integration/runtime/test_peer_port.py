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
from zab.net.network import TcpNetwork
from zab.runtime.peer_handshake import PeerHandshake
from zab.runtime.peer_port import PeerDialler
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
