"""A server that has lost its leader, and clients that want to read all the same."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from attrs import evolve

from tests.integration import apache
from tests.integration.stores import PORTS, Stores, stores
from tests.integration.test_client_port import Client, create, get, raw
from tests.integration.test_java_clients import needs_compiler, program
from zab.store.error_codes import ErrorCode
from zab.store.operations import CreateFlag, Op
from zab.wire.client.connect import ConnectRequest
from zab.wire.client.requests import encode_request

READ_ONLY_PORTS = evolve(PORTS, read_only_mode_enabled=True, read_only_after_ms=300, words=PORTS.words - {"isro"})
ACCEPTS = ConnectRequest(0, 10_000, read_only=True)
PATIENCE_S = 240


@pytest.fixture(autouse=True)
def _sockets_that_kazoo_forgets() -> Iterator[None]:
    yield
    gc.collect()


async def word(running: Stores, sid: int, letters: bytes) -> bytes:
    async with raw(running, sid) as client:
        await client.stream.send_all(letters)
        said = bytearray()
        while data := await client.stream.receive_some():
            said += data
        return bytes(said)


async def alone(running: Stores) -> int:
    """Leave one server of three."""
    leader = await running.leader()
    left, other = (sid for sid in running.servers if sid != leader)
    for sid in (other, leader):  # in this order nobody is elected in between
        await running.stop(sid)
    return left


async def others_back(running: Stores, left: int) -> None:
    for sid in running.ports:
        if sid != left:
            await running.start(sid)
    await running.leader()


async def test_that_it_begins_and_ends_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "zab")
    async with stores(tmp_path, 3, client_ports=READ_ONLY_PORTS) as running:
        caplog.clear()  # of a start, during which a busy machine may look for a leader that long, too
        left = await alone(running)
        told = [f"read_only server={left}", f"read_only_ended server={left}"]
        with trio.fail_after(PATIENCE_S):
            while told[0] not in caplog.text:
                await trio.sleep(0.05)
            assert told[1] not in caplog.text
            await others_back(running, left)
            while told[1] not in caplog.text:
                await trio.sleep(0.05)


async def test_reads_and_nothing_else(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, client_ports=READ_ONLY_PORTS) as running:
        async with raw(running) as client:
            await client.connect()
            await client.ask(create(1, "/a"))
            for server in running.servers.values():
                await server.member.barrier()
        assert await word(running, 1, b"isro") == b"rw"
        left = await alone(running)
        with trio.fail_after(PATIENCE_S):
            async with raw(running, left) as client:
                asked = evolve(ACCEPTS)
                response = await client.connect(asked, behind=get(1, "/a", watch=True))
                assert response is not None
                assert response.read_only
                ((xid, _, error, _),) = await client.hear(1)
                assert (xid, error) == (1, 0)
                assert await word(running, left, b"isro") == b"ro"
                said = (await word(running, left, b"srvr")).decode()
                assert "READ-ONLY mode; serving only read-only clients\n" in said
                assert "Mode: read-only\n" in said
                refused = [
                    create(2, "/b"),
                    encode_request(Op.SYNC, 3, ("/a",)),
                    encode_request(Op.DELETE, 4, ("/a", -1)),
                    encode_request(Op.MULTI, 5, ((Op.CHECK, ("/a", -1)),)),
                    encode_request(Op.SET_DATA, 6, ("/a", b"", -1)),
                    encode_request(Op.RECONFIG, 7, (None, "1", None, -1)),
                    encode_request(Op.SET_ACL, 8, ("/a", (), -1)),
                ]
                replies = await client.ask(*refused, encode_request(Op.EXISTS, 9, ("/b", False)))
                assert [xid for xid, *_ in replies] == list(range(2, 10))
                assert {error for _, _, error, _ in replies[:-1]} == {ErrorCode.NOT_READ_ONLY}
                assert replies[-1][2] == ErrorCode.NO_NODE
                await others_back(running, left)
                assert await client.rest() == [], "who comes back may write, too"
            assert await word(running, left, b"isro") == b"rw"
            async with raw(running, left) as client:
                response = await client.connect(ACCEPTS)
                assert response is not None
                assert not response.read_only
                assert (await client.ask(create(1, "/b")))[0][2] == 0


async def test_client_without_read_only_is_refused(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, client_ports=READ_ONLY_PORTS) as running:
        left = await alone(running)
        with trio.fail_after(PATIENCE_S):
            async with raw(running, left) as client:
                assert await client.connect() is None


async def test_a_session_of_all_may_come_and_read_and_is_kept(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, client_ports=READ_ONLY_PORTS) as running:
        async with raw(running, 1) as client:
            await client.connect(ConnectRequest(0, 20_000, read_only=True))
            await client.ask(create(1, "/here", CreateFlag.EPHEMERAL))
            for server in running.servers.values():
                await server.member.barrier()
            known = Client(client.stream)
            known.session, known.password = client.session, client.password
        left = await alone(running)
        again = ConnectRequest(0, 20_000, known.session, known.password or b"", read_only=True)
        with trio.fail_after(PATIENCE_S):
            async with raw(running, left) as client:
                response = await client.connect(again)
                assert response is not None
                assert (response.session, response.read_only) == (known.session, True)
                closing = encode_request(Op.CLOSE_SESSION, 1, ())
                ((_, _, error, _), (_, _, there, _)) = await client.ask(closing, get(2, "/here"))
                assert (error, there) == (ErrorCode.NOT_READ_ONLY, 0)
            async with raw(running, left) as client:
                wrong = evolve(again, password=bytes(16))
                assert await client.connect(wrong) is None, "neither in nor expired: only a leader knows"
            await others_back(running, left)
            async with raw(running, left) as client:
                response = await client.connect(again)
                assert response is not None
                assert (response.session, response.read_only) == (known.session, False)
                assert (await client.ask(get(1, "/here")))[0][2] == 0


async def test_a_session_made_here_ends_here(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, client_ports=READ_ONLY_PORTS) as running:
        left = await alone(running)
        server = running.servers[left]
        with trio.fail_after(PATIENCE_S):
            async with raw(running, left) as client:
                await client.connect(ACCEPTS)
                session, password = client.session, client.password
                assert len(server.clients.sessions.local) == 1
            async with raw(running, left) as client:
                response = await client.connect(evolve(ACCEPTS, session=session, password=password or b""))
                assert response is not None
                assert response.session == session
                await client.ask(encode_request(Op.CLOSE_SESSION, 1, ()))
                assert await client.rest() == []
            assert len(server.clients.sessions.local) == 0
            async with raw(running, left) as client:
                await client.connect(evolve(ACCEPTS, timeout_ms=1))
            while server.clients.sessions.local:  # nobody speaks for it, so it ends by itself
                await trio.sleep(0.05)


async def test_it_is_off_unless_asked_for(tmp_path: Path) -> None:
    """A client that accepts it waits for a leader like all others."""
    async with stores(tmp_path, 3) as running:
        left = await alone(running)
        with trio.fail_after(PATIENCE_S):
            while await word(running, left, b"isro") != b"null":
                await trio.sleep(0.01)  # it has not yet heard that its leader is gone
            async with trio.open_nursery() as nursery, raw(running, left) as client:
                nursery.start_soon(others_back, running, left)
                response = await client.connect(evolve(ACCEPTS, timeout_ms=20_000))
                assert response is not None
                assert not response.read_only


# -- clients that we did not write -------------------------------------------------------------------------


def kazoo_reads(hosts: str, stop: object, back: object) -> None:
    from kazoo.client import KazooClient
    from kazoo.exceptions import NotReadOnlyCallError
    from kazoo.protocol.states import KeeperState

    assert callable(stop)
    assert callable(back)
    zk = KazooClient(hosts=hosts, timeout=10.0, read_only=True)
    zk.start(PATIENCE_S)
    try:
        zk.create("/seen", b"x", ephemeral=True)
        zk.sync("/")
        session = zk.client_id[0]
        stop()
        _until(lambda: zk.client_state == KeeperState.CONNECTED_RO)
        assert zk.get("/seen")[0] == b"x"
        with pytest.raises(NotReadOnlyCallError):
            zk.create("/fred")
        back()
        _until(lambda: zk.client_state == KeeperState.CONNECTED)
        assert zk.client_id[0] == session, "the session was known to all, and lives on"
        assert zk.exists("/seen") is not None
        zk.create("/fred")
    finally:
        zk.stop()
        zk.close()


def _until(holds: object) -> None:
    assert callable(holds)
    patience = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < patience
        time.sleep(0.05)


async def test_kazoo(tmp_path: Path) -> None:
    pytest.importorskip("kazoo", reason="kazoo is not installed")
    async with stores(tmp_path, 3, client_ports=READ_ONLY_PORTS) as running:
        left: list[int] = []

        async def stop() -> None:
            for server in running.servers.values():
                await server.member.barrier()
            left.append(await alone(running))

        await trio.to_thread.run_sync(
            kazoo_reads,
            running.hosts(),
            lambda: trio.from_thread.run(stop),
            lambda: trio.from_thread.run(others_back, running, left[0]),
        )


@apache.needs_apache
@needs_compiler
@pytest.mark.slow
async def test_the_java_client(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, client_ports=READ_ONLY_PORTS) as running:
        left = await alone(running)
        async with program("ReadOnly", running.hosts(left, *[sid for sid in running.ports if sid != left])) as java:
            assert await java.hear() == "state CONNECTEDREADONLY"
            assert await java.hear() == "children [zookeeper]"
            assert await java.hear() == "refused NOTREADONLY"
            await others_back(running, left)
            await java.go_on()
            assert await java.rest() == ["created /a", "state CONNECTED", "closed"]
