"""`zab status` as a person and a probe use it: a program, its output and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio
from attrs import evolve

import zab
from bench.ports import free_port
from tests import forkserver
from tests.integration import apache
from tests.integration.http_client import get
from tests.integration.stores import ALL_WORDS, PORTS, stores
from zab.admin.admin_settings import AdminSettings
from zab.cli.status.server_queries import membership

ADMIN = (AdminSettings(port=0),)


async def status(*arguments: str) -> tuple[int, str]:
    done = await forkserver.run_in_thread(["-m", "zab", "status", *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


async def test_one_admin_port_reports_all_servers_and_client_ports_one_each(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, admin=ADMIN) as made:
        leader = await made.leader()
        admin = f"127.0.0.1:{made.servers[leader].ports.admin}"
        while (found := await status("--server", admin))[0] != 0:
            await trio.sleep(0.1)  # the others have not said yet how they are
        assert f"server {leader} leads" in found[1]
        for servers in (admin, made.hosts()):
            code, text = await status("--json", "--server", servers)
            told = json.loads(text)
            assert (code, told["health"], told["problems"]) == (0, "healthy", [])
            assert {row["id"]: row["mode"] for row in told["servers"]} == {
                sid: "leader" if sid == leader else "follower" for sid in (1, 2, 3)
            }
            assert {row["lag"] for row in told["servers"]} == {0}
        await made.stop(leader)
        other = await made.leader()
        for servers in (made.hosts(), f"127.0.0.1:{made.servers[other].ports.admin}"):
            code, text = await status("--server", servers)
            assert code == 1
            assert "degraded" in text
            assert f"server {other} leads" in text


@pytest.mark.parametrize("allowed", [ALL_WORDS, frozenset({"srvr"})])
async def test_client_port_of_the_leader_alone_reports_a_stopped_follower(
    tmp_path: Path, allowed: frozenset[str]
) -> None:
    """The membership names no client ports, so no other server is asked."""
    async with stores(tmp_path, 3, has_client_addresses=False, client_ports=evolve(PORTS, words=allowed)) as made:
        leader = await made.leader()
        if allowed is ALL_WORDS:
            while (await status(made.hosts(leader)))[0] != 0:
                await trio.sleep(0.1)  # the last follower is not synchronized yet
        await made.stop(next(sid for sid in made.servers if sid != leader))
        assert (await status(made.hosts(leader), "--wait", "healthy", "--within-s", "0.5"))[0] == 1
        code, text = await status(made.hosts(leader))
        assert (code, "degraded" in text) == (1, True)
        wanted = "1 of 3 servers does not follow" if allowed is ALL_WORDS else "how many of 3 servers follow"
        assert wanted in text


async def test_ensemble_without_serving_server_is_down(tmp_path: Path) -> None:
    async with stores(tmp_path, 3, admin=ADMIN) as made:
        await made.leader()
        for sid in (1, 2):
            await made.stop(sid)
        while made.servers[3].clients.ready:
            await trio.sleep(0.01)
        for server in (made.hosts(3), f"127.0.0.1:{made.servers[3].ports.admin}"):
            code, text = await status("--server", server)
            assert (code, "down" in text) == (2, True)
    nobody = free_port()
    code, text = await status("--server", f"127.0.0.1:{nobody}")
    assert (code, "unreachable" in text) == (2, True)


async def test_unresponsive_server_is_not_waited_for(tmp_path: Path) -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    async with listeners[0]:
        code, text = await status("--server", f"127.0.0.1:{port}", "--timeout-s", "0.1")
    assert (code, "no answer in 0.1 s" in text) == (2, True)


@pytest.mark.parametrize("wrong", ["here", "127.0.0.1", "127.0.0.1:x", ":2181", "127.0.0.1:70000"])
async def test_invalid_address_is_reported(wrong: str) -> None:
    code, text = await status("--server", wrong)
    assert (code, "is not HOST:PORT" in text) == (2, True)


async def test_server_named_at_its_client_port_and_admin_port_is_one_server(tmp_path: Path) -> None:
    """As of ZooKeeper, the admin port reports no other servers."""
    async with stores(tmp_path, 1, admin=(AdminSettings(port=0, parts=frozenset({"commands"})),)) as made:
        await made.leader()
        code, text = await status("--json", made.hosts(), f"127.0.0.1:{made.servers[1].ports.admin}")
        found = json.loads(text)
        assert (code, found["problems"], [row["where"] for row in found["servers"]]) == (0, [], [made.hosts()])


@apache.needs_apache
@pytest.mark.slow
async def test_beside_zookeeper(tmp_path: Path) -> None:
    with apache.running(tmp_path) as server:
        code, text = await status("--json", "--server", f"127.0.0.1:{server.port}")
        (row,) = json.loads(text)["servers"]
        assert (code, row["mode"], row["version"][:5]) == (0, "standalone", "3.9.5")


async def test_waiting_ends_when_the_ensemble_is_as_wanted_or_the_time_is_over(tmp_path: Path) -> None:
    async with stores(tmp_path, 3) as made:
        await made.leader()
        await made.stop(3)
        code, text = await status(made.hosts(), "--wait", "healthy", "--within-s", "0.5")
        assert (code, "degraded" in text) == (1, True)
        assert (await status(made.hosts(), "--wait", "degraded"))[0] == 1

        async def restart() -> None:
            await trio.sleep(0.5)
            await made.start(3)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(restart)
            assert (await status(made.hosts(), "--wait", "healthy"))[0] == 0


async def test_page_shows_no_false_warning_after_a_start(tmp_path: Path) -> None:
    """Each page is asked from the first moment at which its server serves."""
    async with stores(tmp_path, 3, admin=ADMIN) as made:
        seen: set[str] = set()
        while "healthy" not in seen:
            for server in made.servers.values():
                told = (await get(server.ports.admin, "/status.json")).json
                assert told["warnings"] == [] or told["health"] == "down"
                seen.add(told["health"])
                assert "degraded" not in seen


async def test_membership_is_read_at_an_ipv6_address(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    text = f"server.1=[::1]:{ports[0]}:{ports[1]};[::1]:{free_port()}"
    async with zab.open_store(
        tmp_path, server_id=1, ensemble=zab.Ensemble.parse(text), client_host="::1", client_port=0
    ) as store:
        assert store.client_port is not None
        found = await membership("::1", store.client_port, 20)
    assert found is not None
    assert (len(found.addresses), found.voters) == (1, 1)
    assert found.addresses[0].startswith("[::1]:")
