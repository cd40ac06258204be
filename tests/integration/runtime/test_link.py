"""The tests of `tests/unit/runtime/test_link.py` that need sockets or processes."""

from __future__ import annotations

import socket

import trio
import trio.testing

from tests.unit.runtime.test_link import inbox
from zab.core.messages import LinkUp
from zab.core.zxid import ServerId
from zab.net.network import TcpNetwork
from zab.runtime.link import Link, Send
from zab.service.limits import Limits


async def test_peer_without_room_ends_no_link_in_the_kernel() -> None:
    """The protocol gives a synchronization up; the kernel's limit is shorter, and ends what still moves."""
    data = bytes(8 << 20)

    async def bulk(send: Send) -> None:
        await send(data)

    network = TcpNetwork(silence_ms=300)
    (listener,) = await network.listen("127.0.0.1", 0)
    with socket.socket() as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.setblocking(False)
        peer = trio.SocketStream(trio.socket.from_stdlib_socket(plain))
        address = listener._listener.socket.getsockname()  # type: ignore[attr-defined]
        async with trio.open_nursery() as nursery, peer, listener:
            await peer.socket.connect(address)
            link = Link(ServerId(2), dialled=False, limits=Limits())
            nursery.start_soon(link.run, listener.accept, LinkUp(dialled=False), inbox())
            link.send_bulk(bulk)
            link.flush()
            await trio.sleep(2)
            assert link.reason == "closed"
            with trio.fail_after(60):
                left = len(data)
                while left:
                    left -= len(await peer.receive_some(1 << 20))
            assert link.moved_bytes == len(data)
            assert link.pace()["bytes_per_s"] > 0
