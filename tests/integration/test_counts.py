"""The counters of the client port in `mntr`, under the names that alerts use."""

from __future__ import annotations

from pathlib import Path

import trio
from attrs import evolve

from tests.integration.stores import PORTS, stores
from tests.integration.test_client_port import create, get, raw
from zab.runtime.admin.store_metrics import monitor
from zab.runtime.store_server.server_runtime import ServerRuntime
from zab.service.throttle import ThrottleSettings
from zab.store.acl import OPEN
from zab.store.operations import Op
from zab.wire.client.connect import ConnectRequest
from zab.wire.client.requests import encode_request

PATIENCE_S = 240


async def until(server: ServerRuntime, name: str, count: int) -> None:
    with trio.fail_after(PATIENCE_S):
        while monitor(server)[name] != count:
            await trio.sleep(0.01)


async def test_connections_and_their_bytes(tmp_path: Path) -> None:
    async with stores(
        tmp_path, 1, client_ports=evolve(PORTS, connections_per_host_max=2, first_frame_ms=5_000)
    ) as running:
        server = running.servers[1]
        before = monitor(server)
        for name in ("connection_request_count", "connection_rejected", "connection_drop_count", "response_bytes",
                     "bytes_received_count", "sessionless_connections_expired", "auth_failed_count"):  # fmt: skip
            assert before[name] == 0, name
        async with raw(running) as one:
            await one.connect()
            asked = create(1, "/a") + get(2, "/a")
            await one.ask(create(1, "/a"), get(2, "/a"))
            assert monitor(server)["bytes_received_count"] == len(asked)
            said = monitor(server)["response_bytes"]
            assert isinstance(said, int)
            assert said > 2 * 20
            async with raw(running) as two:
                await two.rest()  # it says nothing, and is not waited for
            await until(server, "sessionless_connections_expired", 1)
            async with raw(running) as two:
                await two.connect()
                async with raw(running) as three:
                    assert await three.rest() == []
                assert monitor(server)["connection_rejected"] == 1
                await two.ask(encode_request(Op.CLOSE_SESSION, 1, ()))
                await two.rest()
        await until(server, "connection_drop_count", 1)  # of `one`; `two` has closed its session
        assert monitor(server)["connection_request_count"] == 2
        assert server.clients.response_bytes > said


async def test_counts_of_throttled_connections_and_requests(tmp_path: Path) -> None:
    throttle = ThrottleSettings(connection_tokens=1, connection_fill_ms=3_600_000, large_request_threshold=1000,
                                large_request_max_bytes=2000)  # fmt: skip
    async with stores(tmp_path, 1, client_ports=evolve(PORTS, throttle=throttle)) as running:
        server = running.servers[1]
        async with raw(running) as one:
            await one.connect()
            async with raw(running) as two:
                assert await two.connect() is None
            await one.stream.send_all(encode_request(Op.CREATE, 1, ("/a", bytes(3000), OPEN, 0)))
            await one.rest()
        found = monitor(server)
        assert (found["connection_rejected"], found["large_requests_rejected"]) == (1, 1)


async def test_a_session_that_went_silent(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as running:
        async with raw(running) as one:
            await one.connect(ConnectRequest(0, 400))
        await until(running.servers[1], "stale_sessions_expired", 1)


async def test_how_servers_are_brought_up_to_date_is_counted_where_they_lead(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as running:
        leader = running.servers[await running.leader()]
        await until(leader, "diff_count", 2)
        assert monitor(leader)["snap_count"] == 0
