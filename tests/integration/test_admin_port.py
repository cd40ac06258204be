"""The admin port over real sockets: its pages, its refusals, and that no client can block it."""

from __future__ import annotations

import logging
import socket
from contextlib import AsyncExitStack, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve
from prometheus_client.parser import text_string_to_metric_families

import zab
from tests.integration import apache
from tests.integration.cluster import FAST
from tests.integration.http_client import get
from tests.integration.stores import PORTS, stores
from zab.admin.admin_port import AdminPort
from zab.admin.admin_query import http_get
from zab.admin.admin_settings import AdminSettings
from zab.admin.http import AdminReply, AdminRequest
from zab.core.failed_logins import FailedLoginSettings
from zab.core.zxid import Epoch, ServerId
from zab.host.logs import Log
from zab.runtime.admin.commands import NAMES
from zab.runtime.admin.metrics_table import METRICS
from zab.runtime.store_server.open_store import open_store
from zab.runtime.store_server.security_settings import SecuritySettings
from zab.store.acl import Acl, digest_id
from zab.store.store import Store
from zab.wire.disk_snapshot import SnapshotReader
from zab.wire.disk_store import arrival

ROOT_AUTH = "digest root:secret"
SUPER_PORTS = evolve(PORTS, super_digest=digest_id(b"root:secret"))
ADMIN = (AdminSettings(port=0, snapshot_ms=0),)


async def test_open_store_with_an_admin_port(tmp_path: Path) -> None:
    async with zab.open_store(tmp_path, admin_port=0) as store:
        await store.readable()
        assert (await get(store.admin_port, "/commands/ruok")).json == {"command": "ruok", "error": None}
        listed = await get(store.admin_port, "/commands")
        assert all(f'"/commands/{name}"' in listed.text for name in NAMES)
        head = await get(store.admin_port, "/commands/ruok", "HEAD")
        assert (head.status, head.body) == (200, b"")
        assert head.headers["content-length"] != "0"


async def test_paths_and_parts_are_a_matter_of_settings(tmp_path: Path) -> None:
    admin = AdminSettings(port=0, parts=frozenset({"metrics"}), metrics_path="/numbers")
    async with open_store(tmp_path, admin=admin) as store:
        await store.readable()
        assert (await get(store.admin_port, "/numbers")).status == 200
        for path in ("/metrics", "/commands/ruok", "/", "/status.json"):
            missing = await get(store.admin_port, path)
            assert missing.status == 404
            assert "/numbers" in missing.text


async def test_page_links_to_the_paths_that_are_served(tmp_path: Path) -> None:
    admin = AdminSettings(port=0, parts=frozenset({"page", "commands"}), commands_path="/orders")
    async with open_store(tmp_path, admin=admin) as store:
        await store.readable()
        page = (await get(store.admin_port, "/")).text
        assert '<a href="/orders">commands</a>' in page
        assert ">metrics</a>" not in page


@pytest.mark.parametrize(
    "wrong",
    [{"parts": frozenset({"jmx"})}, {"port": -1}, {"port": 70_000}, {"commands_path": "commands"}, {"host": 5}],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(zab.ConfigError, match=next(iter(wrong))):
        AdminSettings(**wrong)


async def test_taken_port_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(zab.PortTaken, match=str(port)):
            async with open_store(tmp_path, admin_port=port):
                pass


# -- callers --------------------------------------------------------------------------------------------


async def said(port: int | None, data: bytes) -> bytes:
    """Return everything received until the connection ends."""
    assert port is not None
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        await stream.send_all(data)
        return b"".join([piece async for piece in stream])


async def test_several_requests_on_one_connection(tmp_path: Path) -> None:
    async with open_store(tmp_path, admin_port=0) as store:
        await store.readable()

        def converse() -> list[int]:
            connection = HTTPConnection("127.0.0.1", store.admin_port or 0)
            found = []
            for path in ("/commands/ruok", "/nothing", "/metrics"):
                connection.request("GET", path)
                response = connection.getresponse()
                response.read()
                found.append(response.status)
            connection.close()
            return found

        assert await trio.to_thread.run_sync(converse) == [200, 404, 200]
        first = b"GET /commands/ruok HTTP/1.1\r\nHost: localhost\r\n\r\n"
        both = first + b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        answers = await said(store.admin_port, both)
        assert answers.count(b"HTTP/1.1 ") == 2
        assert answers.index(b"200 OK") < answers.index(b"404 Not Found")


@pytest.mark.parametrize(
    ("noise", "status"),
    [
        (b"\x00" * 100, b"400"),
        (b"ruok\r\n", b"400"),
        (b"GET /" + b"x" * 100_000, b"431"),
        (
            b"POST /commands/restore HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\n" + b"x" * 300_000,
            b"501",
        ),
        (b"BREW /coffee HTTP/1.1\r\nHost: localhost\r\n\r\n", b"501"),
    ],
)
async def test_noise_gets_a_reply_and_ends_only_its_connection(tmp_path: Path, noise: bytes, status: bytes) -> None:
    async with open_store(tmp_path, admin_port=0) as store:
        await store.readable()
        assert (await said(store.admin_port, noise)).split(b" ")[1] == status
        assert (await get(store.admin_port, "/commands/ruok")).status == 200


async def test_slow_and_idle_connections_are_closed(tmp_path: Path) -> None:
    async with open_store(tmp_path, admin=AdminSettings(port=0, request_ms=50, idle_ms=100)) as store:
        await store.readable()
        assert b" 408 " in await said(store.admin_port, b"GET /commands/ruok HTTP/1.1\r\nA: ")
        assert await said(store.admin_port, b"") == b""


async def test_silent_connections_block_no_other_client(tmp_path: Path) -> None:
    """Half a request, from as many as may be connected; and they come again."""
    async with open_store(tmp_path, admin=AdminSettings(port=0, connections_max=5)) as store, AsyncExitStack() as stack:
        assert store.admin_port is not None
        silent = []
        for _ in range(3):
            for _ in range(5):
                stream = await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", store.admin_port))
                await stream.send_all(b"GET /metrics HT")
                silent.append(stream)
            assert (await get(store.admin_port, "/commands/ruok")).status == 200
        with trio.fail_after(120):
            for stream in silent[:10]:
                with suppress(trio.BrokenResourceError):
                    assert await stream.receive_some() == b""


async def test_there_is_a_bound_to_how_many_may_be_answered(tmp_path: Path) -> None:
    begun, going = trio.Event(), trio.Event()

    async def answer(request: AdminRequest, host: str) -> AdminReply:
        begun.set()
        await going.wait()
        return AdminReply(b"said")

    async with trio.open_nursery() as nursery:
        admin = AdminPort(AdminSettings(port=0, connections_max=1), answer, Log(ServerId(1), lambda: Epoch(1)))
        port = await nursery.start(admin.run)
        first = await trio.open_tcp_stream("127.0.0.1", port)
        async with first:
            await first.send_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await begun.wait()
            with suppress(trio.BrokenResourceError):
                assert await said(port, b"") == b""
            going.set()
            assert b"200 OK" in await first.receive_some()
        nursery.cancel_scope.cancel()


# -- browsers --------------------------------------------------------------------------------------------

ADDRESS_OF_ALL_PARTS = ("/", "/status.json", "/metrics", "/commands", "/commands/ruok", "/nothing")


async def test_no_part_answers_to_a_name_that_is_not_this_servers(tmp_path: Path) -> None:
    admin = AdminSettings(port=0, hosts=frozenset({"known.example"}))
    async with open_store(tmp_path, admin=admin) as store:
        await store.readable()
        for path in ADDRESS_OF_ALL_PARTS:
            refused = await get(store.admin_port, path, Host=f"evil.example:{store.admin_port}")
            assert refused.status == 421
            assert "admin.allowedHosts" in refused.text
            for host in ("known.example", "localhost:1", "10.0.0.1"):
                assert (await get(store.admin_port, path, Host=host)).status in (200, 404)


async def test_our_queries_name_an_ipv6_address_as_the_host(tmp_path: Path) -> None:
    async with open_store(tmp_path, admin=AdminSettings(host="::1", port=0)) as store:
        await store.readable()
        assert store.admin_port is not None
        assert (await http_get("::1", store.admin_port, "/commands/ruok"))[0] == 200


async def test_a_server_answers_to_its_name_in_the_membership(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, admin=ADMIN) as made:
        server = made.servers[1]
        me = server.member.status().ensemble.by_id[ServerId(1)]
        assert (await get(server.ports.admin, "/metrics", Host=f"{me.host}:1")).status == 200


@pytest.mark.parametrize("name", ["stat_reset", "srst", "connection_stat_reset", "set_trace_mask", "stmk"])
async def test_state_changes_by_post_alone(tmp_path: Path, name: str) -> None:
    async with (
        open_store(tmp_path, client_port=0, admin_port=0) as store,
        zab.connect(f"127.0.0.1:{store.client_port}") as session,
    ):
        await session.exists("/")
        (connection,) = store._server.clients.connections
        connection.received = 1_000_000

        def changed() -> bool:
            return (
                store._server.clients.totals.latency is not latency
                or connection.received < 1_000_000
                or store._server.trace_mask == 7
            )

        latency, path = store._server.clients.totals.latency, f"/commands/{name}?traceMask=7"
        for method in ("GET", "HEAD"):
            refused = await get(store.admin_port, path, method)
            assert (refused.status, refused.headers["allow"]) == (405, "POST")
        for origin in ("http://evil.example", "null"):
            assert (await get(store.admin_port, path, "POST", Origin=origin)).status == 403
        assert not changed()
        done = await get(store.admin_port, path, "POST", Origin=f"http://127.0.0.1:{store.admin_port}")
        assert (done.status, done.json["error"], changed()) == (200, None, True)


async def test_nothing_else_takes_a_post(tmp_path: Path) -> None:
    async with open_store(tmp_path, admin_port=0) as store:
        await store.readable()
        for path in ("/commands/ruok", "/commands/snapshot", "/metrics", "/"):
            refused = await get(store.admin_port, path, "POST")
            assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")


# -- bounds ----------------------------------------------------------------------------------------------

LISTING = ("connections", "dump", "stats", "watches", "watches_by_path")
LISTING_WORDS = ("cons", "dump", "stat", "wchc", "wchp")
OF_STATE = (*LISTING, "monitor", "server_stats", "watch_summary")


async def sizes(tmp_path: Path, count: int, listed_max: int = 20) -> dict[str, int]:
    """Return the lengths of all answers of a server with `count` items of each kind that can be listed."""
    client_ports = evolve(PORTS, listed_max=listed_max, connections_per_host_max=0)
    async with open_store(tmp_path, client_port=0, admin_port=0, settings=FAST, client_ports=client_ports) as store:
        where = f"127.0.0.1:{store.client_port}"
        async with AsyncExitStack() as stack:
            session = await stack.enter_async_context(zab.connect(where))
            watch = await stack.enter_async_context(session.watcher())
            for number in range(count):
                await session.create(f"/{number:04}", ephemeral=True)
                await session.exists(f"/{number:04}", watch=watch)
            for _ in range(count):
                await stack.enter_async_context(zab.connect(where))
            found = {}
            for name in OF_STATE:
                answer = await get(store.admin_port, f"/commands/{name}")
                assert ("truncated" in answer.json) == (name in LISTING and count > listed_max)
                found[name] = len(answer.body)
            assert store.client_port is not None
            for word in LISTING_WORDS:
                text = (await trio.to_thread.run_sync(apache.ask, store.client_port, word)).encode()
                assert (b"maxListedRows" in text) == (count > listed_max)
                found[f"word {word}"] = len(text)
            return found


async def test_reply_size_does_not_grow_with_clients_state(tmp_path: Path) -> None:
    few, many = await sizes(tmp_path / "few", 30), await sizes(tmp_path / "many", 120)
    for name, size in many.items():
        assert size < 1.1 * few[name] + 100, name
    whole = await sizes(tmp_path / "whole", 120, 1_000)
    for name in LISTING:
        assert whole[name] > 2 * many[name], name


# -- metrics --------------------------------------------------------------------------------------------


async def test_prometheus_reads_the_metrics(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, admin=ADMIN) as made:
        leader = made.servers[await made.leader()]
        async with leader.session() as session:
            await session.create("/a", b"data")
            answer = await get(leader.ports.admin, "/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        families = {family.name: family for family in text_string_to_metric_families(answer.text)}
        assert set(families) <= {metric.name for metric in METRICS}
        assert {metric.name for metric in METRICS} - set(families) == {"zab_snapshot_age_seconds"}
        assert families["znode_count"].samples[0].value == 5
        assert families["synced_followers"].samples[0].value == 2
        assert families["fsynctime"].type == "summary"
        assert {sample.name for sample in families["fsynctime"].samples} == {
            "fsynctime",
            "fsynctime_count",
            "fsynctime_sum",
        }
        assert {sample.labels["server"] for sample in families["zab_link_queued_bytes"].samples} == {
            str(sid) for sid in made.servers if sid != leader.me
        }


# -- snapshots ------------------------------------------------------------------------------------------


async def test_a_snapshot_can_be_read_by_zookeepers_tools_and_by_us(tmp_path: Path) -> None:
    locked: Acl = ((31, "digest", digest_id(b"a:b")),)
    async with stores(tmp_path, admin=ADMIN, client_ports=SUPER_PORTS) as made:
        store = made.servers[1]
        async with store.session() as session:
            for number in range(2000):
                await session.create(f"/{number:04}", b"x" * 200, ephemeral=number % 2 == 1)
            await session.create("/locked", b"", acl=locked)
            answer = await get(store.ports.admin, "/commands/snapshot?streaming=true", Authorization=ROOT_AUTH)
            assert answer.status == 200
            zxid = store.machine.zxid
            assert answer.headers["last_zxid"] == f"{zxid:#x}"
            assert int(answer.headers["snapshot_size"]) == len(answer.body)
            reader = SnapshotReader([answer.body])
            read = Store()
            read.restore(arrival(reader, zxid))
            assert reader.last_zxid == zxid
            assert dict(read.tree.nodes) == dict(store.machine.tree.nodes)
            assert read.digest.value == store.machine.digest.value
            assert list(read.sessions.table) == list(store.machine.sessions.table)


@apache.needs_apache
@pytest.mark.slow
async def test_zookeeper_starts_from_a_snapshot(tmp_path: Path) -> None:
    async with stores(tmp_path / "ours", admin=ADMIN, client_ports=SUPER_PORTS) as made:
        store = made.servers[1]
        async with store.session() as session:
            await session.create("/kept", b"for ever")
        answer = await get(store.ports.admin, "/commands/snapshot?streaming=true", Authorization=ROOT_AUTH)
    files = tmp_path / "theirs" / "data" / "version-2"
    files.mkdir(parents=True)
    (files / f"snapshot.{int(answer.headers['last_zxid'], 16):x}").write_bytes(answer.body)
    with apache.running(tmp_path / "theirs", **{"snapshot.trust.empty": "true"}) as server:
        assert "Node count: 6" in apache.ask(server.port, "srvr")


async def test_snapshot_needs_permission_and_is_rate_limited(tmp_path: Path) -> None:
    admin = AdminSettings(port=0, snapshot_ms=3_600_000)
    async with open_store(tmp_path, admin=admin, settings=FAST, client_ports=PORTS) as store:
        async with store.session() as session:
            await session.set_acl("/", ((31, "digest", digest_id(b"root:secret")), (1, "world", "anyone")))
        path = "/commands/snapshot"
        for headers, status, error in (
            ({}, 401, "Auth info is missing for the command"),
            ({"Authorization": "Basic abc"}, 401, "Not authenticated"),
            ({"Authorization": ROOT_AUTH}, 200, None),
            ({"Authorization": ROOT_AUTH}, 429, "Snapshot request was rate limited: one in 3600 s"),
        ):
            answer = await get(store.admin_port, path, "GET", None, **headers)
            said = answer.json["error"]
            assert (answer.status, said and said.partition(" (")[0]) == (status, error)
        snapshot = store.member.disk_status().snapshot
        assert (snapshot.taken, snapshot.zxid) == (1, store._server.machine.zxid)
        last = (await get(store.admin_port, "/commands/last_snapshot")).json
        assert last["zxid"] == f"{snapshot.zxid:x}"


ROOT, OTHER = ("digest", digest_id(b"root:secret")), ("digest", digest_id(b"other:secret"))
WORLD = ("world", "anyone")


@pytest.mark.parametrize(
    ("acl", "status"),
    [
        (((31, *ROOT),), 200),
        (((7, *ROOT), (24, *ROOT), (31, *OTHER)), 200),
        (((31, *ROOT), (1, *WORLD)), 200),
        (((31, *WORLD),), 403),
        (((31, *ROOT), (31, *WORLD)), 200),
        (((31, *OTHER), (31, *WORLD)), 403),
        (((31, *OTHER), (1, *ROOT)), 403),
        (((15, *ROOT), (16, *WORLD)), 403),
        *((((31 & ~bit, *ROOT), (31, *OTHER)), 403) for bit in (1, 2, 4, 8, 16)),
    ],
)
async def test_a_snapshot_needs_all_permissions_at_the_root_by_name(tmp_path: Path, acl: Acl, status: int) -> None:
    async with open_store(tmp_path, admin=ADMIN[0], settings=FAST) as store:
        async with store.session() as session:
            await session.set_acl("/", acl)
        for auth, expected in (("digest nobody:nothing", 403), ("ip anything", 403), (ROOT_AUTH, status)):
            answer = await get(store.admin_port, "/commands/snapshot?streaming=true", Authorization=auth)
            assert answer.status == expected
            assert expected == 200 or "superDigest" in answer.json["error"]


async def test_super_user_gets_a_snapshot_regardless_of_acls(tmp_path: Path) -> None:
    async with open_store(tmp_path, admin=ADMIN[0], settings=FAST, client_ports=SUPER_PORTS) as store:
        await store.readable()
        assert (await get(store.admin_port, "/commands/snap", Authorization=ROOT_AUTH)).status == 200


async def test_guesses_at_credentials_for_a_snapshot_wait_and_are_few(tmp_path: Path) -> None:
    """No more are checked than there are places, and the right ones are not checked meanwhile either."""
    waits = FailedLoginSettings(pause_ms=3_600_000, pause_ms_max=3_600_000, waiting_max=2)
    client_ports = evolve(SUPER_PORTS, failed_logins=waits)
    async with open_store(tmp_path, admin_port=0, settings=FAST, client_ports=client_ports) as store:
        await store.readable()
        assert store.admin_port is not None
        async with AsyncExitStack() as stack:
            for guess in ("digest root:guess", "nothing such"):
                stream = await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", store.admin_port))
                await stream.send_all(
                    f"GET /commands/snap HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {guess}\r\n\r\n".encode()
                )
            while store._server.clients.counts.auth_failed < 2:
                await trio.sleep(0.01)
        for auth in ("digest root:guess", ROOT_AUTH):
            answer = await get(store.admin_port, "/commands/snap", Authorization=auth)
            assert (answer.status, store._server.clients.counts.auth_failed) == (429, 2)


@pytest.mark.parametrize(
    ("security", "status"),
    [({"digest": False}, 401), ({"sasl_users": {"ann": "secret"}, "required": frozenset({"sasl"})}, 403)],
)
async def test_a_snapshot_is_refused_to_schemes_that_the_client_port_refuses(
    tmp_path: Path, security: dict[str, Any], status: int
) -> None:
    client_ports = evolve(PORTS, security=SecuritySettings(**security))
    async with open_store(tmp_path, admin=ADMIN[0], settings=FAST, client_ports=client_ports) as store:
        async with store.session() as session:
            await session.set_acl("/", ((31, "ip", "127.0.0.1"),))
        assert (await get(store.admin_port, "/commands/snap", Authorization=ROOT_AUTH)).status == status


async def test_snapshots_can_be_forbidden_and_a_restore_always_is(tmp_path: Path) -> None:
    admin = AdminSettings(port=0, snapshot_enabled=False)
    async with open_store(tmp_path, admin=admin, client_ports=SUPER_PORTS) as store:
        await store.readable()
        refused = await get(store.admin_port, "/commands/snapshot", Authorization=ROOT_AUTH)
        assert (refused.status, refused.json["error"]) == (503, "Snapshot command is disabled")
        restore = await get(store.admin_port, "/commands/restore", "POST", b"ZKSN", Authorization=ROOT_AUTH)
        assert restore.status == 501
        assert "zab import" in restore.json["error"]


# -- everybody knows of everybody ------------------------------------------------------------------------


async def everybody(port: int | None, wanted: Any) -> dict[str, Any]:
    while True:
        told: dict[str, Any] = (await get(port, "/status.json")).json
        if wanted(told):
            return told
        await trio.sleep(0.05)


async def test_every_server_shows_all_members_and_missing_ones(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, admin=ADMIN) as made:
        leader = await made.leader()
        for server in made.servers.values():
            told = await everybody(server.ports.admin, lambda told: told["health"] == "healthy")
            assert [each["id"] for each in told["members"]] == [1, 2, 3]
            assert {each["mode"] for each in told["members"]} == {"leader", "follower"}
            assert told["leader"] == leader
            assert told["elections"][0]["leader"] == leader
        await made.stop(leader)
        other = next(iter(made.servers.values()))
        told = await everybody(
            other.ports.admin,
            lambda told: (
                told["leader"] not in (None, leader)
                and [each["id"] for each in told["members"] if not each["connected"]] == [leader]
                and {each["server"] for each in told["warnings"]} == {leader}
            ),
        )
        assert told["health"] == "degraded"
        assert len(told["elections"]) == 2


async def test_admin_port_answers_without_a_quorum(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, admin=ADMIN) as made:
        await made.leader()
        for sid in (1, 2):
            await made.stop(sid)
        told = await everybody(made.servers[3].ports.admin, lambda told: told["health"] == "down")
        assert "no leader" in told["warnings"][0]["text"]
        port = made.servers[3].ports.admin
        assert (await get(port, "/commands/leader")).json["error"].startswith("This ZooKeeper instance is not")
        assert (await get(port, "/commands/monitor")).json["server_state"] == "looking"
        assert b"zab_serving 0.0\n" in (await get(port, "/metrics")).body
        assert b"Not serving" in (await get(port, "/")).body


def rotten(folder: Path) -> Path:
    """The newest snapshot, damaged."""
    newest = max(folder.glob("snapshot.*"), key=lambda path: int(path.suffix[1:], 16))
    newest.write_bytes(newest.read_bytes()[:-1] + b"?")
    return newest


async def test_a_rotten_snapshot_that_is_not_needed_is_a_warning_everywhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_store(tmp_path) as store:
        for name in ("/a", "/b"):
            async with store.session() as session:
                await session.create(name)
            await store.member.take_snapshot()
    newest = rotten(tmp_path)
    with caplog.at_level(logging.WARNING, "zab"):
        async with open_store(tmp_path, admin_port=0) as store:
            await store.readable()
            told = await everybody(store.admin_port, lambda told: told["warnings"])
            [warning] = told["warnings"]
            assert warning["text"].startswith(f"the disk is failing: {newest.name}")
            assert "zab_rotten_files 1.0\n" in (await get(store.admin_port, "/metrics")).text
    assert newest.name in caplog.text
