"""The tests of `tests/unit/cli/test_status.py` that need sockets or processes."""

from __future__ import annotations

import re
from functools import partial

import pytest
import trio

from bench.ports import free_port
from zab.cli.status.server_queries import (
    ask,
)


async def test_unreachable_server_is_reported_with_the_reason() -> None:
    port = free_port()
    for host, reason in (("127.0.0.1", "Connection refused"), ("no-such-host.invalid", "known|resolution")):
        (row,) = (await ask("here", host, port, 10)).rows
        assert re.match(f"it cannot be reached: .*({reason})", row.problem or "")


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", "its HTTP reply breaks off"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n", "not a JSON object"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"a": 1}', "the reply has no 'server'"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"server": "1"}', "server is '1', and not of the type int"),
        (b"Mode: follower\nZxid: 0x1\n", "the reply to `srvr` has no 'Latency min/avg/max'"),
        (b"Mode: follower\nZxid: 0x1\nLatency min/avg/max: 1\n", "no state of a server can be read there"),
        (b"220 mail.example ESMTP\r\n", "the reply to `srvr` is '220 mail.example ESMTP"),
    ],
)
async def test_reply_of_another_program_is_a_problem(reply: bytes, problem: str) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some(1_000)
        await stream.send_all(reply)
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]
        (row,) = (await ask("here", "127.0.0.1", port, 10)).rows
        nursery.cancel_scope.cancel()
    assert row.problem is not None
    assert problem in row.problem
