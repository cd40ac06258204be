"""Local sessions, and their upgrade."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from attrs import evolve

from tests.integration.stores import PORTS, Stores, stores
from tests.integration.test_client_port import Client, create, get, raw
from zab.service.local_sessions import LocalSessions
from zab.store.acl import OPEN
from zab.store.error_codes import ErrorCode
from zab.store.operations import CreateFlag, Op
from zab.wire.client.connect import ConnectRequest
from zab.wire.client.requests import encode_request, makes_ephemeral

LOCAL = evolve(PORTS, local_sessions_enabled=True)
UPGRADING = evolve(LOCAL, local_sessions_upgrading_enabled=True)
PATIENCE_S = 240


def ephemeral(xid: int, path: str) -> bytes:
    return create(xid, path, CreateFlag.EPHEMERAL)


def close(xid: int) -> bytes:
    return encode_request(Op.CLOSE_SESSION, xid, ())


def known(running: Stores) -> list[int]:
    """Wait until every server has the session."""
    return [len(server.machine.sessions.table) for server in running.servers.values()]


def again(client: Client) -> ConnectRequest:
    return ConnectRequest(0, 10_000, client.session, client.password or b"")


async def test_it_costs_no_transaction(tmp_path: Path) -> None:
    async with stores(tmp_path, 1, client_ports=LOCAL) as running:
        server = running.servers[1]
        async with raw(running) as client:
            await client.connect()
            zxid = server.machine.zxid
            async with raw(running) as other:
                await other.connect()
                assert (len(server.clients.sessions.local), known(running)) == (2, [0])
                replies = await other.ask(get(1, "/"), close(2))
                assert [error for _, _, error, _ in replies] == [0, 0]
                assert await other.rest() == []
            assert (len(server.clients.sessions.local), server.machine.zxid) == (1, zxid)
            replies = await client.ask(create(1, "/a"), get(2, "/a"), ephemeral(3, "/b"), get(4, "/a"))
            assert [error for _, _, error, _ in replies] == [0, 0, ErrorCode.EPHEMERAL_ON_LOCAL_SESSION, 0]


async def test_close_waits_for_earlier_requests(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, client_ports=LOCAL) as running, raw(running) as client:
        requests = [create(xid, f"/a{xid}") for xid in range(1, 50)]
        await client.connect(behind=b"".join(requests) + close(50) + create(51, "/never"))
        replies = await client.hear(50)
        assert [(xid, error) for xid, _, error, _ in replies] == [(xid, 0) for xid in range(1, 51)]
        assert await client.rest() == []


async def test_coming_back_here_and_elsewhere(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, client_ports=LOCAL) as running:
        async with raw(running, 1) as client:
            await client.connect()
        async with raw(running, 1) as back:
            response = await back.connect(again(client))
            assert response is not None
            assert response.session == client.session
            assert (await back.ask(create(1, "/a")))[0][2] == 0
        async with raw(running, 1) as thief:
            response = await thief.connect(evolve(again(client), password=bytes(16)))
            assert response is not None
            assert response.timeout_ms == 0
        async with raw(running, 2) as elsewhere:
            response = await elsewhere.connect(again(client))
            assert response is not None
            assert response.timeout_ms == 0, "no other server has ever heard of it"


async def test_it_ends_by_itself(tmp_path: Path) -> None:
    async with stores(tmp_path, 1, client_ports=LOCAL) as running:
        async with raw(running) as client:
            await client.connect(ConnectRequest(0, 1))
        with trio.fail_after(PATIENCE_S):
            while running.servers[1].clients.sessions.local:
                await trio.sleep(0.05)
        async with raw(running) as back:
            response = await back.connect(again(client))
            assert response is not None
            assert response.timeout_ms == 0


async def test_the_first_ephemeral_makes_it_known_to_all(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, client_ports=UPGRADING) as running:
        async with raw(running, 1) as client:
            await client.connect()
            assert known(running) == [0, 0, 0]
            requests = [get(1, "/"), create(2, "/p"), ephemeral(3, "/a"), ephemeral(4, "/b"), get(5, "/b")]
            replies = await client.ask(*requests)
            assert [(xid, error) for xid, _, error, _ in replies] == [(xid, 0) for xid in range(1, 6)]
            for server in running.servers.values():
                await server.member.barrier()
            assert known(running) == [1, 1, 1]
            assert not running.servers[1].clients.sessions.local
        async with raw(running, 2) as back:
            response = await back.connect(again(client))
            assert response is not None
            assert response.session == client.session, "and under the same password"
            replies = await back.ask(get(1, "/a"), close(2))
            assert [error for _, _, error, _ in replies] == [0, 0]
        async with raw(running, 3) as other:
            await other.connect()
            await other.ask(encode_request(Op.SYNC, 1, ("/",)))
            assert (await other.ask(get(2, "/a")))[0][2] == ErrorCode.NO_NODE


async def test_a_multi_may_make_one(tmp_path: Path) -> None:
    async with stores(tmp_path, 1, client_ports=UPGRADING) as running, raw(running) as client:
        await client.connect()
        parts = ((Op.CREATE, ("/p", b"", OPEN, 0)), (Op.CREATE2, ("/p/q", b"", OPEN, CreateFlag.EPHEMERAL_SEQUENTIAL)))
        replies = await client.ask(encode_request(Op.MULTI, 1, parts), get(2, "/p/q0000000000"))
        assert [error for _, _, error, _ in replies] == [0, 0]
        assert known(running) == [1]


async def test_the_connection_is_lost_while_it_becomes_known(tmp_path: Path) -> None:
    """A client that reconnects at once finds the session pending or present, and the node with it."""
    async with stores(tmp_path, 3, client_ports=UPGRADING) as running:
        leader = await running.leader()
        here = next(sid for sid in running.servers if sid != leader)
        server, rising = running.servers[here], 0
        for count in range(20):
            async with raw(running, here) as client:
                await client.connect(ConnectRequest(0, 20_000))
                await client.stream.send_all(ephemeral(1, f"/a{count}"))
                while (
                    client.session not in server.machine.sessions.table
                    and not server.clients.sessions.local.is_upgrading(client.session)
                ):
                    await trio.lowlevel.checkpoint()
            rising += server.clients.sessions.local.is_upgrading(client.session)
            async with raw(running, here) as back:
                response = await back.connect(again(client))
                assert response is not None
                assert response.session == client.session
                assert (await back.ask(get(1, f"/a{count}")))[0][2] == 0
        assert rising
        assert not server.clients.sessions.local


# -- by itself ---------------------------------------------------------------------------------------------


def test_signs_of_life() -> None:
    local = LocalSessions(100, b"secret")
    for session in (1, 2, 3):
        local.add(session, 1_000, 0)
    assert local.upgrade(3) == 1_000
    local.touch([1, 3, 9], 900)
    assert local.due(1_100) == [2]
    assert 3 in local, "its end is the leader's business now"
    assert local.due(5_000) == [1]
    local.forget(3)
    assert len(local) == 0


@pytest.mark.parametrize(
    ("op", "body", "makes"),
    [
        (Op.CREATE, ephemeral(1, "/a")[12:], True),
        (Op.CREATE, create(1, "/a", CreateFlag.PERSISTENT_SEQUENTIAL)[12:], False),
        (Op.CREATE, b"nonsense", False),
        (Op.SET_DATA, b"", False),
        (Op.MULTI, encode_request(Op.MULTI, 1, ((Op.CHECK, ("/a", 1)),))[12:], False),
    ],
)
def test_operations_that_need_a_global_session(op: int, body: bytes, makes: bool) -> None:
    assert makes_ephemeral(op, body) is makes
