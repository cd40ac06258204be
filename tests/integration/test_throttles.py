"""Limits of a server, as its clients meet them."""

from __future__ import annotations

from pathlib import Path

import trio
from attrs import evolve

from tests.integration.stores import PORTS, stores
from tests.integration.test_client_port import Client, create, get, raw
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.service.throttle import ThrottleSettings
from zab.store.acl import OPEN
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op
from zab.wire.client.requests import PING, PING_XID, encode_request

PATIENCE_S = 240


def client_ports(**options: int) -> ClientPortSettings:
    return evolve(PORTS, throttle=ThrottleSettings(**options))  # type: ignore[arg-type]


async def test_requests_beyond_the_limit_wait_and_are_answered_in_order(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, client_ports=client_ports(request_max_requests=3, request_stall_ms=1)) as running:
        leader = await running.leader()
        sid = next(sid for sid in running.servers if sid != leader)
        server, most = running.servers[sid], 0
        async with raw(running, sid) as client:
            requests = [create(xid, f"/a{xid}") if xid % 2 else get(xid, f"/a{xid - 1}") for xid in range(1, 101)]
            with trio.fail_after(PATIENCE_S):
                await client.connect(behind=b"".join(requests))
                heard: list[int] = []
                while len(heard) < 100:
                    ((xid, _, error, _),) = await client.hear(1)
                    assert error == 0
                    heard.append(xid)
                    most = max(most, server.clients.totals.open_requests)
            assert heard == list(range(1, 101))
            assert 0 < most <= 3


async def test_overdue_requests_are_answered_with_throttledop(tmp_path: Path) -> None:
    """The first one is under way, and stays so for want of a quorum."""
    throttle = client_ports(request_max_requests=1, request_stall_ms=10, op_wait_ms=500)
    async with stores(tmp_path, 1, client_ports=throttle) as running, raw(running) as slow, raw(running) as client:
        await slow.connect()
        await client.connect()
        server = running.servers[1]
        server.clients.totals.open_requests += 1  # as if another connection had sent a request
        try:
            with trio.fail_after(PATIENCE_S):
                replies = await client.ask(create(1, "/a"), get(2, "/"), PING)
                answers = sorted((xid, error) for xid, _, error, _ in replies)
                assert answers == [(PING_XID, 0), (1, ErrorCode.THROTTLED_OP), (2, ErrorCode.THROTTLED_OP)]
        finally:
            server.clients.totals.open_requests -= 1
        ((_, _, error, _),) = await client.ask(get(3, "/a"))
        assert error == ErrorCode.NO_NODE, "it was answered, and not done"


async def test_connections_at_once(tmp_path: Path) -> None:
    throttle = client_ports(connection_tokens=2, connection_fill_ms=3_600_000)
    async with stores(tmp_path, 1, client_ports=throttle) as running, raw(running) as one, raw(running) as two:
        assert await one.connect() is not None
        assert await two.connect() is not None
        async with raw(running) as three:
            assert await three.connect() is None
        assert (await one.ask(get(1, "/")))[0][2] == 0


async def test_large_requests(tmp_path: Path) -> None:
    throttle = client_ports(large_request_threshold=10_000, large_request_max_bytes=50_000)
    async with stores(tmp_path, 1, client_ports=throttle) as running:

        def put(xid: int, size: int) -> bytes:
            return encode_request(Op.CREATE, xid, (f"/a{xid}", bytes(size), OPEN, 0))

        async with raw(running) as client:
            await client.connect()
            for xid in range(1, 6):
                assert (await client.ask(put(xid, 40_000)))[0][2] == 0, "one after the other is no problem"
            await client.stream.send_all(put(6, 60_000))
            assert await client.rest() == []
        assert running.servers[1].clients.totals.large_bytes == 0
        async with raw(running) as client:
            await client.connect()
            assert (await client.ask(get(1, "/a6")))[0][2] == ErrorCode.NO_NODE


async def gets_in(client: Client) -> bool:
    try:
        return await client.connect() is not None
    except trio.BrokenResourceError:  # closed before it could say who it is
        return False


async def test_connection_beyond_a_limit_full_of_sessions_is_closed(tmp_path: Path) -> None:
    two = evolve(PORTS, connections_max=2, connections_per_host_max=0)
    async with stores(tmp_path, 1, client_ports=two) as running, raw(running) as one, raw(running) as other:
        assert await one.connect() is not None
        assert await other.connect() is not None
        with trio.fail_after(PATIENCE_S):
            async with raw(running) as beyond:
                assert not await gets_in(beyond)
        assert (await one.ask(get(1, "/")))[0][2] == 0


async def test_idle_connections_by_the_hundred(tmp_path: Path) -> None:
    """The connections send nothing, or half of a frame. The oldest is dropped for a client beyond the limit."""
    few = evolve(PORTS, connections_max=100, connections_per_host_max=0)
    async with stores(tmp_path, 1, client_ports=few) as running:
        async with raw(running) as client:
            assert await client.connect() is not None
            streams = [await trio.open_tcp_stream("127.0.0.1", running.ports[1]) for _ in range(99)]
            for count, stream in enumerate(streams):
                await stream.send_all(b"\0\0\0\x2d\0\0\0\0\0\0"[: count % 10])
            with trio.fail_after(PATIENCE_S):
                async with raw(running) as beyond:
                    assert await gets_in(beyond)
                assert (await client.ask(get(1, "/")))[0][2] == 0
        for stream in streams:
            await stream.aclose()
        with trio.fail_after(PATIENCE_S):
            while True:
                async with raw(running) as late:
                    if await gets_in(late):
                        break
