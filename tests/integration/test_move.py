"""Moving in from a directory that Apache ZooKeeper wrote, and back out to one that it starts on."""

from __future__ import annotations

import json
import re
import shutil
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from bench.ports import free_port
from tests.integration import apache
from tests.integration.served import serve, three_configs
from zab.cli.root import zab

pytest.importorskip("kazoo", reason="kazoo is not installed")

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.security import make_digest_acl

pytestmark = [apache.needs_apache, pytest.mark.slow]
NODES: Final = 120


def run(*words: object) -> str:
    result = CliRunner().invoke(zab, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def connected(port: int) -> KazooClient:
    client = KazooClient(f"127.0.0.1:{port}", auth_data=[("digest", "u:p")], timeout=20)
    client.start(240)
    return client


def leave(client: KazooClient) -> None:
    client.stop()
    client.close()


def fill(client: KazooClient) -> None:
    client.create("/app", b"")
    for number in range(NODES):
        client.create(f"/app/node-{number}", bytes([number % 256]) * number)
    for number in range(0, NODES, 3):
        client.set(f"/app/node-{number}", b"changed")
    for number in range(1, NODES, 50):
        client.delete(f"/app/node-{number}")
    client.create("/app/queue", b"", makepath=True)
    for _ in range(5):
        client.create("/app/queue/item-", b"x", sequence=True)
    client.create("/secret", b"\x00\xff", acl=[make_digest_acl("u", "p", all=True)])
    client.create("/ephemeral", b"here", ephemeral=True)
    transaction = client.transaction()
    transaction.create("/multi", b"1")
    transaction.set_data("/multi", b"2")
    transaction.commit()


def tree(client: KazooClient, path: str = "/") -> dict[str, object]:
    """Return data, stat and list of each node. An imported ephemeral may go at any time, with its session."""
    found: dict[str, object] = {}
    try:
        data, stat = client.get(path)
    except NoNodeError:
        return found
    if path != "/zookeeper/config":
        acl = [(each.perms, each.id.scheme, each.id.id) for each in client.get_acls(path)[0]]
        found[path] = data, tuple(stat), acl
    for name in client.get_children(path):
        found |= tree(client, f"{path.rstrip('/')}/{name}")
    return found


Written = tuple[Path, dict[str, object], int]


@pytest.fixture(scope="module")
def written_by_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A copy of a running server's directory: an old snapshot, and a log after it whose file ends with zeros.

    Return the server's state at the copy, and the session of its ephemeral.
    """
    folder = tmp_path_factory.mktemp("theirs")
    with apache.running(folder, snapCount="100") as server:
        client = connected(server.port)
        fill(client)
        expected = tree(client)
        shutil.copytree(server.data, folder / "copy")
        session = client.client_id[0]
        leave(client)
    del expected["/ephemeral"]
    return folder / "copy", expected, session


def test_zookeeper_data_is_imported_and_exported(tmp_path: Path, written_by_zookeeper: Written) -> None:
    source, expected, session = written_by_zookeeper
    said = run("import", source, tmp_path / "ours")
    assert re.search(r" sessions?, as of ", said)
    assert run("snapshot", "verify", tmp_path / "ours").startswith(f"{tmp_path / 'ours'}: sound")

    port = free_port()
    config = tmp_path / "zoo.cfg"
    config.write_text(f"tickTime=1000\ndataDir={tmp_path / 'ours'}\nclientPort={port}\nclientPortAddress=127.0.0.1\n")
    with serve(config, "-D", "extendedTypesEnabled=true") as server:
        server.ready()
        client = connected(port)
        assert client.get("/ephemeral")[1].ephemeralOwner == session
        found = tree(client)
        found.pop("/ephemeral", None)
        assert found == expected
        while client.exists("/ephemeral"):  # nobody comes back to that session
            time.sleep(0.2)
        client.create("/ours", b"new")
        client.delete("/app/node-2")
        after = tree(client)
        leave(client)
        assert server.stop() == 0

    dumped = [json.loads(line) for line in run("log", "dump", tmp_path / "ours", "--json", "-d").splitlines()]
    assert ("create", "/ours", "new") in [(line["op"], line["path"], line["data"]) for line in dumped]
    (tmp_path / "back").mkdir()
    assert "nodes" in run("export", tmp_path / "ours", tmp_path / "back" / "data")
    with apache.running(tmp_path / "back") as real:
        client = connected(real.port)
        assert tree(client) == after
        client.create("/again", b"")
        leave(client)


def test_a_backup_in_their_format_starts_ours_and_theirs(tmp_path: Path) -> None:
    port = free_port()
    config = tmp_path / "zoo.cfg"
    config.write_text(f"dataDir={tmp_path / 'ours'}\nclientPort={port}\nclientPortAddress=127.0.0.1\n")
    with serve(config) as server:
        server.ready()
        client = connected(port)
        fill(client)
        leave(client)
        running = CliRunner().invoke(zab, ["snapshot", "take", str(tmp_path / "ours"), str(tmp_path / "backup")])
        assert running.exit_code == 2
        assert "a server uses this directory" in running.output
        assert server.stop() == 0
    run("snapshot", "take", tmp_path / "ours", tmp_path / "backup")
    (tmp_path / "backup").rename(tmp_path / "snapshot.today")
    run("import", tmp_path / "snapshot.today", tmp_path / "restored")
    before = run("snapshot", "dump", tmp_path / "ours", "--json", "-d")
    assert run("snapshot", "dump", tmp_path / "restored", "--json", "-d") == before
    assert run("snapshot", "dump", tmp_path / "snapshot.today", "--json", "-d") == before
    summary = run("snapshot", "dump", tmp_path / "ours", "--summary").splitlines()
    assert summary[0].split()[::2] == [str(len(before.splitlines())), "/"]


def test_ensemble_gives_an_import_to_empty_servers(tmp_path: Path, written_by_zookeeper: Written) -> None:
    source, expected, _ = written_by_zookeeper
    configs, ports = three_configs(tmp_path)
    for sid in (1, 2):
        run("import", source, tmp_path / f"data{sid}")
        assert (tmp_path / f"data{sid}" / "myid").read_text() == f"{sid}\n"
    configs[2].write_text(configs[2].read_text() + "db.autocreate=false\n")
    with ExitStack() as stack:
        servers = [stack.enter_context(serve(config, "-D", "maxSessionTimeout=60000")) for config in configs]
        for server in servers:
            server.ready()
        for port in ports:
            client = connected(port)
            client.sync("/")
            found = tree(client)
            assert {path: found.get(path) for path in expected} == expected
            leave(client)
        assert [server.stop() for server in servers] == [0, 0, 0]
    ends = {run("log", "verify", tmp_path / f"data{sid}").splitlines()[-1] for sid in (1, 2, 3)}
    assert len(ends) == 1
    digests = {run("snapshot", "verify", tmp_path / f"data{sid}").rpartition("digest ")[2] for sid in (1, 2, 3)}
    assert len(digests) == 1
