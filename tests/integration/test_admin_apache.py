"""The commands beside those of Apache ZooKeeper: the same names, the same keys, at one server and at three.

Its admin server wants Jetty, which is not among the jars. So a small class of that name, in front of the jars,
serves ZooKeeper's own commands in ZooKeeper's own JSON through the HTTP server that Java has.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from kazoo.client import KazooClient

from tests.integration import apache
from tests.integration.http_client import ask, get
from tests.integration.stores import stores
from zab.admin.admin_settings import AdminSettings
from zab.runtime.admin.commands import ALIASES, CHANGING

SOURCES = Path(__file__).parent / "java" / "admin"
SERVED = {"admin.enableServer": "true"}
ADMIN = (AdminSettings(port=0),)

pytestmark = [
    apache.needs_apache,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("javac") is None, reason="no javac to compile an admin server with"),
]

OURS_ALONE = {"snapshot", "restore", "give_up_history"}
"""More than an answer: they have tests of their own."""


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    apache.compile_java(folder, list(SOURCES.rglob("*.java")))
    return folder


@contextmanager
def one(folder: Path, classes: Path) -> Iterator[tuple[int, int]]:
    """Its client port and its admin port."""
    with apache.running(folder, (), classes, **SERVED) as server:
        yield server.port, int((folder / "admin.port").read_text())


@contextmanager
def three(folder: Path, classes: Path) -> Iterator[list[tuple[int, int]]]:
    folder.mkdir()
    with apache.ensemble(folder, classes, **SERVED) as ports:
        yield [(port, int((folder / f"theirs-{sid}" / "admin.port").read_text())) for sid, port in enumerate(ports, 1)]


@contextmanager
def client(port: int) -> Iterator[None]:
    """One that has a session, an ephemeral and watches."""
    zookeeper = KazooClient(f"127.0.0.1:{port}")
    zookeeper.start(240)
    try:
        zookeeper.create("/here", b"", ephemeral=True)
        zookeeper.get("/here", watch=print)
        yield
    finally:
        zookeeper.stop()
        zookeeper.close()


NAMED_BY_DATA = {"session_id_to_ephemeral_paths", "session_id_to_watched_paths", "path_to_session_ids"}
NAMED_BY_DATA |= {"expiry_time_to_session_ids", "current_config"}


def keys(value: Any, name: str = "") -> Any:
    """What a program that reads it relies on: the names, and how they are nested."""
    if isinstance(value, dict):
        if name in NAMED_BY_DATA:
            return {kind for each in value.values() if (kind := str(keys(each)) if isinstance(each, dict) else "")}
        return {key: keys(each, key) for key, each in sorted(value.items())}
    if isinstance(value, list):
        return [keys(each) for each in value][:1]
    return "a value"


def answers(port: int, method: Callable[[str], str] = lambda name: "GET") -> dict[str, Any]:
    return {name: ask(port, f"/commands/{name}", method(name)).json for name in sorted(set(ALIASES) - OURS_ALONE)}


def our_method(name: str) -> str:
    return "POST" if name in CHANGING else "GET"


def compare(theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    for name in theirs:
        if name in ("monitor", "system_properties"):
            continue
        assert keys(ours[name]) == keys(theirs[name]), name
        assert (ours[name]["command"], ours[name]["error"]) == (theirs[name]["command"], theirs[name]["error"])
    properties = set(ours["system_properties"])
    assert properties - set(theirs["system_properties"]) <= {"line.separator"}
    unknown = set(ours["monitor"]) - set(theirs["monitor"])
    assert {name for name in unknown if "zab_" not in name} == set()
    assert len(set(ours["monitor"]) & set(theirs["monitor"])) > 50


async def test_at_one_server(tmp_path: Path, classes: Path) -> None:
    with one(tmp_path / "theirs", classes) as (port, admin_port), client(port):
        theirs = answers(admin_port)
    async with stores(tmp_path / "ours", admin=ADMIN) as made:
        port, our_port = made.ports[1], made.servers[1].ports.admin
        assert our_port is not None
        ours = await trio.to_thread.run_sync(with_client, port, our_port)
        compare(theirs, ours)
        assert (await get(our_port, "/commands/nonsense")).json == {
            "command": "nonsense",
            "error": "Unknown command: nonsense",
        }


def with_client(port: int, admin_port: int) -> dict[str, Any]:
    with client(port):
        return answers(admin_port, our_method)


async def test_at_three_servers_leader_and_follower(tmp_path: Path, classes: Path) -> None:
    theirs = {}
    with three(tmp_path / "theirs", classes) as servers:
        for port, admin_port in servers:
            found = with_client(port, admin_port)
            theirs[bool(found["leader"]["is_leader"])] = found
    async with stores(tmp_path / "ours", 3, admin=ADMIN) as made:
        ours = {}
        for sid, server in made.servers.items():
            assert server.ports.admin is not None
            found = await trio.to_thread.run_sync(with_client, made.ports[sid], server.ports.admin)
            ours[bool(found["leader"]["is_leader"])] = found
    for leads in (True, False):
        compare(theirs[leads], ours[leads])


async def test_every_other_name_of_a_command_leads_to_it(tmp_path: Path, classes: Path) -> None:
    async with stores(tmp_path / "ours", admin=ADMIN) as made:
        for name, others in ALIASES.items():
            for other in others if name not in OURS_ALONE else ():
                answer = await get(made.servers[1].ports.admin, f"/commands/{other}", our_method(other))
                assert answer.json["command"] == name
    with one(tmp_path / "theirs", classes) as (_, admin_port):
        for name, others in ALIASES.items():
            for other in (name, *others) if name not in OURS_ALONE else ():
                assert ask(admin_port, f"/commands/{other}").json["command"] == name
