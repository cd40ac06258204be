"""Clients that ask and never read: what waits for all of them together is bounded."""

from __future__ import annotations

import socket
from pathlib import Path

import trio
from attrs import evolve

import zab
from tests.integration.stores import PORTS, stores
from zab.store.operations import Op
from zab.wire.client.connect import ConnectRequest, encode_connect_request
from zab.wire.client.requests import encode_request


def never_reads(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.sendall(encode_connect_request(ConnectRequest(0, 20_000)))
    return connection


def asks(connection: socket.socket, path: str, times: int) -> None:
    connection.sendall(b"".join(encode_request(Op.GET_DATA, xid, (path, False)) for xid in range(times)))


async def test_only_a_client_that_reads_nothing_is_disconnected(tmp_path: Path) -> None:
    client_ports = evolve(PORTS, unsent_total_bytes_max=2 << 20, unsent_bytes_max=1 << 20)
    with trio.fail_after(120):
        async with stores(tmp_path, client_ports=client_ports) as running, zab.connect(running.hosts()) as reader:
            await reader.create("/big", bytes(500_000))
            deaf = [never_reads(running.ports[1]) for _ in range(12)]
            server = running.servers[1]
            try:
                while len(server.clients.connections) < 13:
                    await trio.sleep(0.01)
                for connection in deaf:  # only now: none is cut before all have been seen
                    asks(connection, "/big", 50)
                while (
                    sum(connection.unsent for connection in server.clients.connections) > 2 << 20
                    or len(server.clients.connections) > 3
                ):
                    await reader.get("/big")
                    await trio.sleep(0.05)
            finally:
                for connection in deaf:
                    connection.close()
            assert reader.state is zab.SessionState.CONNECTED
            assert len((await reader.get("/big"))[0] or b"") == 500_000
