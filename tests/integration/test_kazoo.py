"""kazoo, unmodified, against one server and against three, with the leader stopped in between."""

from __future__ import annotations

import gc
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from bench.ports import free_ports
from tests.integration.cluster import loopback
from tests.integration.processes import ROOT
from tests.integration.stores import stores
from zab.store.acl import OPEN
from zab.store.operations import CreateFlag, Op
from zab.wire.client.connect import ConnectRequest, encode_connect_request
from zab.wire.client.requests import encode_request

pytest.importorskip("kazoo", reason="kazoo is not installed")

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    InvalidACLError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
)
from kazoo.security import CREATOR_ALL_ACL, make_digest_acl

PATIENCE_S = 240
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def _sockets_that_kazoo_forgets() -> Iterator[None]:
    """It does not close every socket that it gives up, and whoever finds them later would be blamed."""
    yield
    gc.collect()


@contextmanager
def client(hosts: str, timeout: float = 20.0, **options: Any) -> Iterator[Any]:
    zk = KazooClient(hosts=hosts, timeout=timeout, **options)
    zk.start(PATIENCE_S)
    try:
        yield zk
    finally:
        zk.stop()
        zk.close()


async def in_thread(work: Callable[..., None], *arguments: object) -> None:
    await trio.to_thread.run_sync(partial(work, *arguments))


# -- one server ---------------------------------------------------------------------------------------------


def nodes(hosts: str) -> None:
    with client(hosts) as zk:
        assert zk.create("/a", b"one") == "/a"
        data, stat = zk.get("/a")
        assert (data, stat.version, stat.dataLength, stat.numChildren) == (b"one", 0, 3, 0)
        assert zk.set("/a", b"two", version=0).version == 1
        with pytest.raises(BadVersionError):
            zk.set("/a", b"three", version=0)
        with pytest.raises(NodeExistsError):
            zk.create("/a")
        with pytest.raises(NoNodeError):
            zk.get("/b")
        with pytest.raises(NoNodeError):
            zk.create("/b/c")
        assert zk.exists("/b") is None
        path, stat = zk.create("/a/e", b"", ephemeral=True, include_data=True)
        assert (path, stat.ephemeralOwner) == ("/a/e", zk.client_id[0])
        with pytest.raises(NoChildrenForEphemeralsError):
            zk.create("/a/e/f")
        names = [zk.create("/a/n-", sequence=True) for _ in range(3)]
        assert names == [f"/a/n-{number:010d}" for number in (1, 2, 3)]
        assert sorted(zk.get_children("/a")) == ["e", "n-0000000001", "n-0000000002", "n-0000000003"]
        children, stat = zk.get_children("/a", include_data=True)
        assert (len(children), stat.cversion) == (4, 4)
        with pytest.raises(NotEmptyError):
            zk.delete("/a")
        assert zk.sync("/a") == "/a"
        zk.delete("/a", recursive=True)
        assert zk.exists("/a") is None


def transactions(hosts: str) -> None:
    with client(hosts) as zk:
        good = zk.transaction()
        good.create("/t", b"1")
        good.set_data("/t", b"2")
        good.check("/t", 1)
        good.create("/t/c")
        good.delete("/t/c")
        created, stat, *others = good.commit()
        assert (created, stat.version, others) == ("/t", 1, [True, "/t/c", True])
        bad = zk.transaction()
        bad.create("/t/x")
        bad.check("/t", 7)
        bad.create("/t/y")
        rolled_back, wrong, after = bad.commit()
        assert isinstance(rolled_back, RolledBackError)
        assert isinstance(wrong, BadVersionError)
        assert isinstance(after, Exception)
        assert zk.get_children("/t") == []


def watches(hosts: str) -> None:
    with client(hosts) as watcher, client(hosts) as other:
        told: list[tuple[str, str]] = []
        rung = threading.Semaphore(0)

        def hear(event: Any) -> None:
            told.append((event.type, event.path))
            rung.release()

        assert watcher.exists("/w", watch=hear) is None
        other.create("/w", b"")
        assert rung.acquire(timeout=PATIENCE_S)
        watcher.get("/w", watch=hear)
        other.set("/w", b"1")
        assert rung.acquire(timeout=PATIENCE_S)
        watcher.get_children("/w", watch=hear)
        other.create("/w/c")
        assert rung.acquire(timeout=PATIENCE_S)
        watcher.get("/w/c", watch=hear)
        other.delete("/w/c")
        assert rung.acquire(timeout=PATIENCE_S)
        assert told == [("CREATED", "/w"), ("CHANGED", "/w"), ("CHILD", "/w"), ("DELETED", "/w/c")]


def permissions(hosts: str) -> None:
    with client(hosts) as owner, client(hosts) as stranger:
        owner.add_auth("digest", "owner:secret")
        owner.create("/mine", b"x", acl=[make_digest_acl("owner", "secret", all=True)])
        assert owner.get("/mine")[0] == b"x"
        with pytest.raises(NoAuthError):
            stranger.get("/mine")
        with pytest.raises(NoAuthError):
            stranger.set("/mine", b"y")
        with pytest.raises(InvalidACLError):
            stranger.create("/theirs", acl=[make_digest_acl("", "", all=True)._replace(id=owner_of_nothing())])
        owner.create("/mine/too", acl=CREATOR_ALL_ACL)
        assert owner.get_acls("/mine/too")[0] == owner.get_acls("/mine")[0]
        acls, stat = owner.get_acls("/mine")
        assert (acls[0].id.scheme, stat.aversion) == ("digest", 0)
        owner.set_acls("/mine", [make_digest_acl("owner", "secret", read=True)])
        with pytest.raises(NoAuthError):
            owner.set("/mine", b"z")
        with pytest.raises(AuthFailedError):
            stranger.add_auth("no-such-scheme", "whatever")


def owner_of_nothing() -> Any:
    from kazoo.security import Id

    return Id("no-such-scheme", "x")


def recipes(hosts: str) -> None:
    with client(hosts) as one, client(hosts) as two:
        lock = two.Lock("/lock", "two")
        with one.Lock("/lock", "one"):
            assert not lock.acquire(blocking=False)
            assert two.Lock("/lock").contenders() == ["one"]
        assert lock.acquire(timeout=PATIENCE_S)
        lock.release()
        counter = one.Counter("/counter")
        counter += 3
        assert two.Counter("/counter").value == 3
        queue = one.Queue("/queue")
        queue.put(b"first")
        queue.put(b"second")
        assert [two.Queue("/queue").get(), two.Queue("/queue").get()] == [b"first", b"second"]
        led = threading.Event()
        running = threading.Thread(target=one.Election("/election").run, args=(led.set,))
        running.start()
        assert led.wait(PATIENCE_S)
        running.join()  # it still has to give up what it leads, and the session must not end under it


def many_at_once(hosts: str) -> None:
    """Written and read without waiting: each read sees the write in front of it, and none behind."""
    with client(hosts) as zk:
        zk.create("/many", b"")
        asked = []
        for number in range(500):
            zk.set_async("/many", b"%d" % number)
            asked.append(zk.get_async("/many"))
        assert [read.get(timeout=PATIENCE_S)[0] for read in asked] == [b"%d" % number for number in range(500)]


def words(hosts: str) -> None:
    with client(hosts, timeout=20.0) as zk:  # so that it does not say anything of its own for a while
        assert zk.command(b"ruok") == "imok"
        assert zk.command(b"isro") == "rw"
        assert "Mode: standalone" in zk.command(b"srvr")
        assert zk.server_version() == (3, 9, 5)
        statistics = dict(line.split("\t") for line in zk.command(b"mntr").splitlines())
        assert statistics["zk_num_alive_connections"] == "1", "who only asks is no client"
        assert int(statistics["zk_znode_count"]) >= 4
        assert "queued=0" in zk.command(b"stat")
        session = f"{zk.client_id[0]:#x}"
        zk.create("/e", b"", ephemeral=True)
        zk.get("/e", watch=print)
        assert zk.command(b"wchs") == "1 connections watching 1 paths\nTotal watches:1\n"
        assert zk.command(b"wchc") == f"{session}\n\t/e\n"
        assert zk.command(b"wchp") == f"/e\n\t{session}\n"
        assert f"{session}:\n\t/e\n" in zk.command(b"dump")
        assert f"sid={session},lop=NA" in zk.command(b"cons")
        assert "tickTime=200" in zk.command(b"conf")
        before = received(zk.command(b"srvr"))
        assert before
        assert zk.command(b"crst") == "Connection stats reset.\n"
        assert zk.command(b"srst") == "Server stats reset.\n"
        assert received(zk.command(b"srvr")) < before
        assert int(zk.command(b"dirs").split()[1]) > 0


def received(srvr: str) -> int:
    return int(srvr.partition("Received: ")[2].partition("\n")[0])


@pytest.mark.parametrize(
    "story", [nodes, transactions, watches, permissions, recipes, many_at_once, words], ids=lambda story: story.__name__
)
async def test_one_server(story: Callable[[str], None], tmp_path: Path) -> None:
    async with stores(tmp_path) as running:
        await in_thread(story, running.hosts())


# -- sessions -----------------------------------------------------------------------------------------------


async def test_a_session_survives_a_restart_of_its_server(tmp_path: Path) -> None:
    async with stores(tmp_path) as running:

        def begin(zk: Any) -> None:
            zk.start(PATIENCE_S)
            zk.create("/e", b"", ephemeral=True)

        zk = KazooClient(hosts=running.hosts(), timeout=20.0)
        await in_thread(begin, zk)
        session = zk.client_id
        await running.stop(1)
        await running.start(1)

        def resume() -> None:
            assert zk.retry(zk.exists, "/e") is not None
            assert zk.client_id == session
            zk.stop()
            zk.close()

        await in_thread(resume)
        (server,) = running.servers.values()
        assert not server.machine.sessions.table
        assert "/e" not in server.machine.tree.nodes


async def test_silent_client_loses_its_session_and_ephemerals(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as running:
        leader = await running.leader()
        follower = next(sid for sid in running.servers if sid != leader)

        asked = encode_connect_request(ConnectRequest(0, 3_000))
        asked += encode_request(Op.CREATE, 1, ("/e", b"", OPEN, CreateFlag.EPHEMERAL))
        async with await trio.open_tcp_stream("127.0.0.1", running.ports[follower]) as stream:
            await stream.send_all(asked)
            while "/e" not in running.servers[leader].machine.tree.nodes:
                await trio.sleep(0.01)
        server = running.servers[leader]
        assert server.machine.sessions.table
        while server.machine.sessions.table:
            await trio.sleep(0.02)
        assert "/e" not in server.machine.tree.nodes


async def test_pings_keep_a_session(tmp_path: Path) -> None:
    """Through a learner: what it hears reaches the leader."""
    async with stores(tmp_path, 3) as running:
        leader = await running.leader()
        follower = next(sid for sid in running.servers if sid != leader)

        def idle() -> None:
            lost = threading.Event()
            with client(running.hosts(follower), timeout=8.0) as zk:
                zk.add_listener(lambda state: lost.set() if state == KazooState.LOST else None)
                assert not lost.wait(11)
                assert zk.client_id[0] in running.servers[leader].machine.sessions.table

        await in_thread(idle)


# -- three servers ------------------------------------------------------------------------------------------


async def test_write_at_one_server_is_read_at_another(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as running:

        def story() -> None:
            with client(running.hosts(1)) as one, client(running.hosts(2)) as two, client(running.hosts(3)) as three:
                one.create("/a", b"1")
                two.sync("/a")
                assert two.get("/a")[0] == b"1"
                told = threading.Event()
                two.get("/a", watch=lambda event: told.set())
                three.sync("/a")
                three.set("/a", b"3")
                assert told.wait(PATIENCE_S)
                assert two.get("/a")[0] == b"3"

        await in_thread(story)


async def test_death_of_the_leader_is_only_a_pause(tmp_path: Path) -> None:
    """Clients of the others keep their connection; the leader's own move, with their session and their nodes."""
    async with stores(tmp_path, 3) as running:
        leader = await running.leader()
        follower = next(sid for sid in running.servers if sid != leader)
        others = [sid for sid in running.servers if sid != leader]
        stayed: list[str] = []
        moved = KazooClient(hosts=running.hosts(leader, *others), timeout=20.0, randomize_hosts=False)
        stays = KazooClient(hosts=running.hosts(follower), timeout=20.0)
        stays.add_listener(stayed.append)

        def begin() -> None:
            for zk in (moved, stays):
                zk.start(PATIENCE_S)
            moved.create("/moved", b"", ephemeral=True)
            stays.create("/counter", b"0", ephemeral=True)

        await in_thread(begin)
        session = moved.client_id
        written: list[Any] = []
        stop = threading.Event()

        def write() -> None:
            while not stop.is_set():
                written.append(stays.set("/counter", b"%d" % len(written)).version)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(in_thread, write)
            while len(written) < 20:
                await trio.sleep(0.01)
            await running.stop(leader)
            before = len(written)
            while len(written) < before + 20:
                await trio.sleep(0.01)
            stop.set()
        assert written == list(range(1, len(written) + 1)), "each was made once, and in order"
        assert stayed == [KazooState.CONNECTED]

        def end() -> None:
            assert moved.retry(moved.exists, "/moved") is not None
            assert moved.client_id == session
            moved.retry(moved.set, "/counter", b"mine")
            stays.sync("/counter")
            assert stays.get("/counter")[0] == b"mine"
            for zk in (moved, stays):
                zk.stop()
                zk.close()

        await in_thread(end)
        await running.start(leader)
        while not all(
            server.machine.zxid == running.servers[follower].machine.zxid for server in running.servers.values()
        ):
            await trio.sleep(0.01)
        for server in running.servers.values():
            assert sorted(server.machine.tree.nodes) == ["/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"]
            assert not server.machine.mismatches


# -- processes ----------------------------------------------------------------------------------------------


def mode_of(port: int) -> str:
    """What `srvr` says, or nothing."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(b"srvr")
            said = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
    except OSError:
        return ""
    return said.partition("Mode: ")[2].partition("\n")[0]


@pytest.mark.slow
def test_a_leader_that_is_killed_takes_nothing_with_it(tmp_path: Path) -> None:
    """`kill -9`, again and again, of whoever leads; each is started again before the next."""
    ports = dict(enumerate(free_ports(3), start=1))
    servers = ",".join(server.text() for server in loopback(3))
    running: dict[int, subprocess.Popen[bytes]] = {}

    def start(sid: int) -> None:
        command = [sys.executable, "-m", "tests.integration.store_process", str(sid), servers]
        with (tmp_path / f"{sid}.log").open("ab") as log:
            running[sid] = subprocess.Popen(
                [*command, str(tmp_path / str(sid)), str(ports[sid])], cwd=ROOT, stdout=log, stderr=log
            )

    def leader() -> int:
        patience = time.monotonic() + PATIENCE_S
        while time.monotonic() < patience:
            for sid, port in ports.items():
                if mode_of(port) == "leader":
                    return sid
            time.sleep(0.05)
        raise AssertionError("nobody leads")

    for sid in ports:
        start(sid)
    try:
        leader()
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports.values())
        retry = {"max_tries": -1, "delay": 0.05, "max_delay": 0.2}
        with client(hosts, connection_retry=retry, command_retry=retry) as zk:
            zk.create("/mine", b"", ephemeral=True)
            zk.create("/log", b"")
            session = zk.client_id
            done: list[str] = []
            for _ in range(3):
                # A create whose answer is lost may have been made, and then there is one more. None may be missing.
                done += [zk.retry(zk.create, "/log/n-", b"", sequence=True) for _ in range(30)]
                dead = leader()
                running[dead].kill()
                running.pop(dead).wait()
                done += [zk.retry(zk.create, "/log/n-", b"", sequence=True) for _ in range(30)]
                start(dead)
            zk.retry(zk.sync, "/log")
            names = {f"/log/{name}" for name in zk.retry(zk.get_children, "/log")}
            assert len(set(done)) == len(done) == 180
            assert done == sorted(done), "one client's creates are numbered in their order"
            assert names >= set(done)
            assert zk.client_id == session
            assert zk.retry(zk.exists, "/mine").ephemeralOwner == session[0]
    finally:
        for process in running.values():
            process.kill()
            process.wait()
