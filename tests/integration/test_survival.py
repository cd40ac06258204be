"""A guarantee beyond ZooKeeper's: clients of a surviving server do not notice the loss of the leader.

Connection, session and watches survive; requests wait, and are answered in order.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.integration import apache
from tests.integration.stores import Stores, stores
from tests.integration.test_client_port import Client, create, get, raw
from tests.integration.test_java_clients import needs_compiler, program
from zab.store.error_codes import ErrorCode
from zab.store.operations import CreateFlag, Op
from zab.wire.client.client_frames import Reply
from zab.wire.client.connect import ConnectRequest
from zab.wire.client.replies import EVENT_XID, decode_body, decode_event
from zab.wire.client.requests import PING, PING_XID, encode_request

PATIENCE_S = 240


def others(running: Stores, leader: int) -> list[int]:
    return [sid for sid in running.servers if sid != leader]


async def test_a_whole_stream_of_requests_across_the_loss_of_the_leader(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as running:
        leader = await running.leader()
        one, two = others(running, leader)
        with trio.fail_after(PATIENCE_S):
            async with raw(running, one) as client, raw(running, two) as watcher:
                await client.connect()
                await watcher.connect()
                await client.ask(create(1, "/a"), create(2, "/mine", CreateFlag.EPHEMERAL))
                await watcher.ask(encode_request(Op.SYNC, 1, ("/",)))
                await watcher.ask(get(2, "/a", watch=True), encode_request(Op.ADD_WATCH, 3, ("/mine", 1)))
                replies: list[Reply] = []

                async def hear(until: int) -> None:
                    while not replies or replies[-1][0] != until:
                        replies.extend(reply for reply in await client.hear(1) if reply[0] != PING_XID)

                async def talk(first: int, last: int) -> None:
                    for xid in range(first, last, 3):
                        changes = encode_request(Op.SET_DATA, xid, ("/mine", b"%d" % xid, -1)), get(xid + 1, "/mine")
                        await client.stream.send_all(b"".join(changes) + encode_request(Op.SYNC, xid + 2, ("/",)))
                        await trio.lowlevel.checkpoint()

                await talk(3, 300)
                await running.stop(leader)
                await talk(300, 600)
                await hear(599)
                assert [xid for xid, *_ in replies] == list(range(3, 600))
                assert {error for _, _, error, _ in replies} == {0}
                zxids = [zxid for _, zxid, _, _ in replies]
                assert zxids == sorted(zxids)
                seen = [decode_body(Op.GET_DATA, body)[0] for xid, _, _, body in replies if xid % 3 == 1]
                assert seen == [b"%d" % xid for xid in range(3, 600, 3)], "each was made once, and is seen at once"

                await client.ask(encode_request(Op.SET_DATA, 600, ("/a", b"x", -1)))
                events = [decode_event(body) for xid, _, _, body in await watcher.hear(200) if xid == EVENT_XID]
                assert events == [(3, 3, "/mine")] * 199 + [(3, 3, "/a")], "none is missing, and none comes twice"
                _, stat = decode_body(Op.GET_DATA, (await watcher.ask(get(4, "/mine")))[0][3])
                assert stat[7] == client.session


async def test_pings_are_answered_and_requests_wait_without_a_leader(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as running:
        leader = await running.leader()
        one, two = others(running, leader)
        with trio.fail_after(PATIENCE_S):
            async with raw(running, one) as client:
                await client.connect(ConnectRequest(0, 20_000))
                await running.stop(leader)
                await running.stop(two)
                while running.servers[one].clients.ready:
                    await trio.sleep(0.01)
                requests = [create(1, "/a"), get(2, "/a"), encode_request(Op.SYNC, 3, ("/a",)), get(4, "/b")]
                assert [xid for xid, *_ in await client.ask(PING)] == [PING_XID]
                await client.stream.send_all(b"".join(requests))
                assert [xid for xid, *_ in await client.ask(PING)] == [PING_XID], "and of the others none"
                await running.start(two)
                replies = await client.hear(4)
                answers = [(xid, error) for xid, _, error, _ in replies]
                assert answers == [(1, 0), (2, 0), (3, 0), (4, ErrorCode.NO_NODE)]


@apache.needs_apache
@needs_compiler
@pytest.mark.slow
async def test_the_java_client(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as running:
        leader = await running.leader()
        stays, _ = others(running, leader)
        async with program("Stays", running.hosts(stays)) as java:
            assert await java.hear() == "ready"
            await running.stop(leader)
            await java.go_on()
            assert await java.rest() == [
                "event NodeDataChanged /e",
                "in order true",
                "still mine true",
                "states [SyncConnected]",
            ]


# -- whose session it is -----------------------------------------------------------------------------------


async def comes_in(running: Stores, session: int, password: bytes) -> bool:
    async with raw(running) as thief:
        response = await thief.connect(ConnectRequest(0, 10_000, session, password))
        assert response is not None
        return response.timeout_ms > 0


async def test_no_password_but_this_one(tmp_path: Path) -> None:
    """Neither one that is wrong in a single bit, nor that of another session, nor parts of it."""
    async with stores(tmp_path) as running, raw(running) as owner, raw(running) as neighbour:
        await owner.connect()
        await neighbour.connect()
        password = owner.password or b""
        assert len(password) == 16
        assert password != neighbour.password
        for bit in range(128):
            wrong = bytearray(password)
            wrong[bit // 8] ^= 1 << bit % 8
            assert not await comes_in(running, owner.session, bytes(wrong))
        for wrong_one in (b"", password[:15], password + b"\0", neighbour.password or b"", bytes(16)):
            assert not await comes_in(running, owner.session, wrong_one)
        for other in (neighbour.session, owner.session + 1, owner.session ^ (1 << 40), -owner.session):
            assert not await comes_in(running, other, password)
        assert (await owner.ask(get(1, "/")))[0][2] == 0, "and nobody was disturbed"
        await comes_in(running, owner.session, password)


async def test_it_is_not_a_function_of_the_id_alone(tmp_path: Path) -> None:
    """The same id has another password in another ensemble."""
    async with (
        stores(tmp_path / "a") as here,
        stores(tmp_path / "b") as there,
        raw(here) as client,
        raw(there) as other,
    ):
        for each in (client, other):
            assert isinstance(each, Client)
            await each.connect()
        passwords = {running.servers[1].machine.sessions.password(client.session) for running in (here, there)}
        assert len(passwords) == 2
