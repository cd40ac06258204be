"""The configuration node and the operation that changes it, through the port and by clients that we did not write."""

from __future__ import annotations

import gc
import queue
import socket
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from attrs import evolve

from bench.ports import free_ports
from harness import apache_zookeeper
from tests.integration import apache
from tests.integration.stores import PORTS, Stores, stores
from tests.integration.test_client_port import Client, create, get, raw
from tests.integration.test_java_clients import needs_compiler, program
from zab.core.ensemble import Ensemble, Role, Server
from zab.core.zxid import NOTHING
from zab.runtime.store_server.open_store import open_store
from zab.session.session_errors import StoreError
from zab.store.acl import digest_id
from zab.store.error_codes import ErrorCode
from zab.store.operations import CreateFlag, Op
from zab.store.paths import CONFIG
from zab.wire.client.client_frames import Reply
from zab.wire.client.replies import EVENT_XID, decode_body, decode_event
from zab.wire.client.requests import AUTH_XID, encode_request

DOORS_OPEN = evolve(PORTS, reconfig_enabled=True, super_digest=digest_id(b"super:test"))
AS_SUPER = encode_request(Op.AUTH, AUTH_XID, (0, "digest", b"super:test"))
PATIENCE_S = 240


@pytest.fixture(autouse=True)
def _sockets_that_kazoo_forgets() -> Iterator[None]:
    yield
    gc.collect()


def reconfig(
    xid: int, joining: str | None = None, leaving: str | None = None, members: str | None = None, version: int = -1
) -> bytes:
    return encode_request(Op.RECONFIG, xid, (joining, leaving, members, version))


async def as_super(client: Client) -> None:
    assert await client.connect() is not None
    ((_, _, error, _),) = await client.ask(AS_SUPER)
    assert error == 0


async def configuration(client: Client, xid: int, watch: bool = False) -> tuple[Ensemble, int]:
    """And the zxid of the change that made it."""
    await client.stream.send_all(encode_request(Op.GET_DATA, xid, (CONFIG, watch)))
    _, _, error, body = await client.hear_of(xid)
    assert error == 0
    data, stat = decode_body(Op.GET_DATA, body)
    assert stat[4] == -1, "its version, as ever"
    return Ensemble.parse(data.decode()), stat[1]


def members_of(reply: Reply) -> Ensemble:
    _, _, error, body = reply
    assert error == 0, ErrorCode(error).name
    data, _ = decode_body(Op.RECONFIG, body)
    return Ensemble.parse(data.decode())


async def joined(running: Stores, client: Client, xid: int) -> Server:
    """A new server, running and admitted."""
    spare = running.spare()
    current, _ = await configuration(client, xid)
    observing = current.changed([evolve(spare, role=Role.OBSERVER)])
    await running.start(spare.id, evolve(observing, version=NOTHING))
    await running.servers[spare.id].member.wait_serving()
    (reply,) = await client.ask(reconfig(xid + 1, joining=spare.text()))
    assert spare in members_of(reply).servers
    return spare


async def test_a_server_joins_and_serves_and_the_leader_leaves(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, client_ports=DOORS_OPEN, admit_non_members=True) as running:
        leader = await running.leader()
        asked, other = (sid for sid in running.servers if sid != leader)
        with trio.fail_after(PATIENCE_S):
            async with raw(running, asked) as client, raw(running, other) as watcher:
                await as_super(client)
                await watcher.connect()
                first, zxid = await configuration(watcher, 1, watch=True)
                assert (first.voters, zxid) == ((1, 2, 3), first.version)
                assert [each.client_port for each in first.servers] == [running.ports[sid] for sid in (1, 2, 3)]

                spare = await joined(running, client, 1)
                (event,) = await watcher.hear(1)
                assert event[0] == EVENT_XID
                assert decode_event(event[3])[2] == CONFIG
                second, zxid = await configuration(watcher, 2, watch=True)
                assert second.voters == (1, 2, 3, 4)
                assert zxid == second.version == event[1] > first.version

                (reply,) = await client.ask(reconfig(3, leaving=str(leader), version=second.version))
                third = members_of(reply)
                assert leader not in third.by_id
                await running.stop(leader)
                assert (await watcher.hear(1))[0][1] == third.version
                async with raw(running, spare.id) as late:
                    await late.connect()
                    assert (await configuration(late, 1))[0] == third
                    assert (await late.ask(create(2, "/served")))[0][2] == 0


async def test_leaders_own_client_can_remove_it(tmp_path: Path) -> None:
    """The leader hands over, follows without a vote, and answers its client, which keeps its session."""
    async with stores(tmp_path, 3, client_ports=DOORS_OPEN) as running:
        leader = await running.leader()
        with trio.fail_after(PATIENCE_S):
            async with raw(running, leader) as client:
                await as_super(client)
                replies = await client.ask(
                    create(1, "/mine", CreateFlag.EPHEMERAL),
                    reconfig(2, leaving=str(leader)),
                    create(3, "/after"),
                    get(4, "/after"),
                )
                assert [(xid, error) for xid, _, error, _ in replies] == [(1, 0), (2, 0), (3, 0), (4, 0)]
                assert leader not in members_of(replies[1]).by_id
                assert running.servers[leader].member.status().role.leader != leader


async def test_refusals_with_reasons(tmp_path: Path) -> None:
    """The order is the original's: the permission is checked last."""
    async with stores(tmp_path, 3, client_ports=DOORS_OPEN) as running, raw(running) as client:
        await client.connect()
        nowhere = "server.9=127.0.0.1:1:2;3"
        assert running.ensemble is not None
        version = (await configuration(client, 1))[0].version

        async def code(*arguments: Any) -> int:
            ((_, _, error, _),) = await client.ask(reconfig(2, *arguments))
            return error

        assert await code(nowhere, None, None, version + 1) == ErrorCode.BAD_VERSION
        assert await code("server.9=127.0.0.1:1:2", None, None, version) == ErrorCode.BAD_ARGUMENTS
        assert await code(None, "2,3", None, -1) == ErrorCode.BAD_ARGUMENTS
        assert await code(None, "two", None, -1) == ErrorCode.MARSHALLING_ERROR
        absent = f"{running.ensemble.servers[0].text()},server.8=127.0.0.1:1:2;3,{nowhere.replace(':1:2', ':4:5')}"
        assert await code(None, None, absent, -1) == ErrorCode.NEW_CONFIG_NO_QUORUM
        assert await code(nowhere, None, None, -1) == ErrorCode.NO_AUTH
        ((_, _, error, _),) = await client.ask(AS_SUPER)
        assert error == 0
        assert (await configuration(client, 3))[0].version == version, "nothing has happened so far"
        assert await code(nowhere, None, None, -1) == 0


async def test_its_place_among_the_requests(tmp_path: Path) -> None:
    """A reconfiguration comes after earlier requests and before later ones, regardless of its result."""
    async with stores(tmp_path, 3, client_ports=DOORS_OPEN) as running:
        leader = await running.leader()
        async with raw(running, next(sid for sid in running.servers if sid != leader)) as client:
            await as_super(client)
            replies = await client.ask(
                create(1, "/a"),
                reconfig(2, joining="server.9=127.0.0.1:1:2:observer;3"),
                encode_request(Op.GET_DATA, 3, (CONFIG, False)),
                reconfig(4, leaving="9"),
                reconfig(5, leaving="x"),
                encode_request(Op.SET_DATA, 6, (CONFIG, b"", -1)),
                encode_request(Op.GET_DATA, 7, (CONFIG, False)),
            )
            assert [xid for xid, *_ in replies] == list(range(1, 8))
            assert [error for _, _, error, _ in replies][:5] == [0, 0, 0, 0, ErrorCode.MARSHALLING_ERROR]
            zxids = [zxid for _, zxid, _, _ in replies]
            assert zxids == sorted(zxids)
            assert 9 in Ensemble.parse(decode_body(Op.GET_DATA, replies[2][3])[0].decode()).by_id
            assert members_of(replies[3]).voters == (1, 2, 3)


async def test_switched_off_and_alone(tmp_path: Path) -> None:
    async with stores(tmp_path, 1, client_ports=DOORS_OPEN) as running, raw(running) as client:
        await as_super(client)
        replies = await client.ask(reconfig(1, leaving="1"), encode_request(Op.GET_DATA, 2, (CONFIG, False)))
        assert replies[0][2] == ErrorCode.UNIMPLEMENTED
        assert decode_body(Op.GET_DATA, replies[1][3])[0] == b"", "an embedded server has no address to tell"
    async with stores(tmp_path / "off", 1) as running, raw(running) as client:
        await client.connect()
        ((_, _, error, _),) = await client.ask(reconfig(1, leaving="1"))
        assert error == ErrorCode.RECONFIG_DISABLED


async def test_a_restart_shows_the_last_one(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, client_ports=DOORS_OPEN) as running:
        async with raw(running, 1) as client:
            await as_super(client)
            (reply,) = await client.ask(reconfig(1, joining="server.9=127.0.0.1:1:2:observer;3"))
            changed = members_of(reply)
        for sid in (1, 2, 3):
            await running.stop(sid)
        for sid in (1, 2, 3):
            await running.start(sid)
        await running.leader()
        for sid in (1, 2, 3):
            async with raw(running, sid) as client:
                await client.connect()
                assert await configuration(client, 1) == (changed, changed.version)


async def test_client_port_follows_the_membership(tmp_path: Path) -> None:
    """A server's own line with another port: existing connections stay, and new ones use the new port."""
    async with stores(tmp_path, 3, client_ports=DOORS_OPEN) as running, raw(running, 1) as client:
        await as_super(client)
        assert running.ensemble is not None
        (mine, *_) = running.ensemble.servers
        old, (new, taken) = running.ports[1], free_ports(2)
        for port in (taken, new):
            with socket.socket() as other:
                if port == taken:
                    other.bind(("127.0.0.1", taken))
                    other.listen()
                (reply,) = await client.ask(reconfig(port, joining=evolve(mine, client_port=port).text()))
                assert members_of(reply).by_id[mine.id].client_port == port
                with trio.fail_after(PATIENCE_S):
                    while port == new and running.servers[1].ports.client != new:
                        await trio.sleep(0.01)
        running.ports[1] = new
        async with raw(running, 1) as late:
            await late.connect()
            assert (await late.ask(create(1, "/a")))[0][2] == 0
        running.ports[1] = old
        with pytest.raises(OSError, match="connect"):
            async with raw(running, 1):
                pass
        assert (await client.ask(encode_request(Op.EXISTS, 9, ("/a", False))))[0][2] in (0, ErrorCode.NO_NODE)


async def test_the_same_port_at_another_address(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An equivalent address changes nothing. One address conflicts with all addresses on the same port."""
    quorum, election, port = free_ports(3)
    made = Ensemble.parse(f"server.1=127.0.0.1:{quorum}:{election};127.0.0.1:{port}")
    caplog.set_level("INFO", "zab")

    def said() -> list[str]:
        events = [record.message.partition(" ")[0] for record in caplog.records]
        return [event for event in events if event in ("client_port_moved", "client_port_not_moved")]

    async with open_store(
        tmp_path, client_host="127.0.0.1", client_port=port, server_id=1, ensemble=made, client_ports=DOORS_OPEN
    ) as server:

        async def serve_at(host: str | None, does: str) -> None:
            (mine,) = server.member.status().ensemble.servers
            expected = [*said(), *does.split()]
            await server.member.reconfigure(
                members=evolve(
                    made, servers=(evolve(mine, client_host=host),), version=server.member.status().ensemble.version
                )
            )
            with trio.fail_after(PATIENCE_S):
                while len(said()) < len(expected):
                    await trio.sleep(0.01)
                await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
            assert said() == expected

        with socket.socket() as other:
            other.bind(("127.0.0.2", port))
            other.listen()
            await serve_at("0.0.0.0", "client_port_not_moved")
            assert f"stays=127.0.0.1:{port}" in caplog.text
        await serve_at("127.0.0.1", "")
        await serve_at("0.0.0.0", "client_port_moved")
        await serve_at("127.0.0.1", "client_port_moved")
        await serve_at("127.1", "")
        await trio.testing.wait_all_tasks_blocked(0.05)
    assert said() == ["client_port_not_moved", "client_port_moved", "client_port_moved"]


async def test_two_at_once_and_neither_is_lost(tmp_path: Path) -> None:
    """Without a version both changes apply, one after the other; with one, the second fails."""
    async with stores(tmp_path, 3, client_ports=DOORS_OPEN) as running, raw(running, 1) as one, raw(running, 2) as two:
        for each in (one, two):
            await as_super(each)
        version = (await configuration(one, 1))[0].version

        async def ask(client: Client, *arguments: Any) -> int:
            ((_, _, error, _),) = await client.ask(reconfig(2, *arguments))
            errors.append(error)
            return error

        errors: list[int] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, one, "server.8=127.0.0.1:1:2:observer;3")
            nursery.start_soon(ask, two, "server.9=127.0.0.1:4:5:observer;6")
        assert set(errors) <= {0, ErrorCode.RECONFIG_IN_PROGRESS}
        assert 0 in errors
        await one.ask(encode_request(Op.SYNC, 3, ("/",)))
        members, now = await configuration(one, 4)
        assert len(members.observers) == errors.count(0)
        assert now > version
        errors.clear()
        async with trio.open_nursery() as nursery:
            for client in (one, two):
                nursery.start_soon(ask, client, None, "8,9", None, now)
        late = {ErrorCode.BAD_VERSION, ErrorCode.RECONFIG_IN_PROGRESS}
        assert sorted(errors)[-1] == 0
        assert sorted(errors)[0] in late


async def test_in_this_process(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, client_ports=DOORS_OPEN) as running, running.servers[1].session() as session:
        with pytest.raises(StoreError) as refused:
            await session.reconfigure(joining="server.9=127.0.0.1:1:2:observer;3")
        assert refused.value.code == ErrorCode.NO_AUTH
        await session.add_auth("digest", b"super:test")
        data, stat = await session.reconfigure(joining="server.9=127.0.0.1:1:2:observer;3")
        assert data is not None
        assert 9 in Ensemble.parse(data.decode()).by_id
        assert (data, stat) == await session.get(CONFIG)


# -- clients that we did not write -------------------------------------------------------------------------


def kazoo_changes_it(hosts: str, joining: str) -> None:
    kazoo = pytest.importorskip("kazoo", reason="kazoo is not installed")
    from kazoo import exceptions
    from kazoo.client import KazooClient

    assert kazoo
    zk = KazooClient(hosts=hosts, auth_data=[("digest", "super:test")])
    zk.start(PATIENCE_S)
    try:
        seen: queue.Queue[str] = queue.Queue()  # kazoo calls back in a thread of its own
        zk.get(CONFIG, watch=lambda event: seen.put(event.path))
        data, stat = zk.reconfig(joining=joining, leaving=None, new_members=None)
        assert joining.encode() in data
        version = int(data.split(b"version=")[1], 16)
        assert stat.mzxid == version
        assert seen.get(timeout=PATIENCE_S) == CONFIG
        with pytest.raises(exceptions.BadVersionError):
            zk.reconfig(joining=None, leaving="9", new_members=None, from_config=version - 1)
        with pytest.raises(exceptions.BadArgumentsError):
            zk.reconfig(joining="server.9=nonsense", leaving=None, new_members=None)
        with pytest.raises(exceptions.NewConfigNoQuorumError):
            absent = "server.7=127.0.0.1:11:12;13,server.8=127.0.0.1:21:22;23"
            zk.reconfig(joining=None, leaving=None, new_members=absent)
        data, _ = zk.reconfig(joining=None, leaving="9", new_members=None, from_config=version)
        assert joining.encode() not in data
    finally:
        zk.stop()
        zk.close()


async def test_kazoo(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, client_ports=DOORS_OPEN) as running:
        joining = "server.9=127.0.0.1:1:2:observer;127.0.0.1:3"
        await trio.to_thread.run_sync(kazoo_changes_it, running.hosts(), joining)


TYPED = """\
addauth digest super:test
config
reconfig -add server.9=127.0.0.1:1:2:observer;127.0.0.1:3
config -c
reconfig -remove 9
reconfig -remove 2,3
quit
"""


@apache.needs_apache
@pytest.mark.slow
async def test_zkcli(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, client_ports=DOORS_OPEN) as running:
        command = apache_zookeeper.java(
            "org.apache.zookeeper.ZooKeeperMain", "-server", running.hosts(), properties=("log4j2.level=ERROR",)
        )
        with trio.fail_after(PATIENCE_S):
            run = partial(trio.run_process, command, stdin=TYPED.encode(), capture_stdout=True, check=False)
            done = await run(stderr=subprocess.STDOUT)
        said = done.stdout.decode()
        assert running.ensemble is not None
        shown = [
            *[each.text() for each in running.ensemble.servers],
            "version=",
            "Committed new configuration:",
            "server.9=127.0.0.1:1:2:observer;127.0.0.1:3",
            running.hosts(1),
            "Committed new configuration:",
            "Arguments are not valid",
        ]
        position = 0
        for line in shown:
            found = said.find(line, position)
            assert found >= 0, f"{line!r} does not come where it should:\n{said}"
            position = found + len(line)


@apache.needs_apache
@needs_compiler
@pytest.mark.slow
@pytest.mark.skipif(
    apache_zookeeper.why_not() is None
    and not list((apache_zookeeper.jars() or Path()).glob("curator-framework-*.jar")),
    reason="no jars of Curator",
)
async def test_curator_follows_the_ensemble(tmp_path: Path) -> None:
    """Curator gets one server, finds the others, and follows changes."""
    async with stores(tmp_path, 3, client_ports=DOORS_OPEN) as running:
        joining = "server.9=127.0.0.1:1:2:observer;127.0.0.1:3"
        async with program("Tracker", running.hosts(2), joining) as java:
            assert await java.hear() == f"knows {sorted(running.hosts().split(','))}".replace("'", "")
            assert await java.hear() == "joined true"
            assert await java.hear() == f"knows {sorted([*running.hosts().split(','), '127.0.0.1:3'])}".replace("'", "")
            assert await java.hear() == "left true"
            assert await java.hear() == f"knows {sorted(running.hosts().split(','))}".replace("'", "")
            assert await java.rest() == ["admin BADVERSION", "closed"]
