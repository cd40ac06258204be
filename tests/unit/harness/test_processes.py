"""The world of processes, without a process: the machine under a server, logs, what it can do."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
import trio

import zab
from harness.faults import Crash, CrashIn, Script, Setting
from harness.history import Invoke, Reply, Request, Response, SessionEvent
from harness.quorums import in_words
from harness.worlds.processes import netns, verdict
from harness.worlds.processes.addresses import Loopback, member, name_of
from harness.worlds.processes.configuration import Pace, configuration
from harness.worlds.processes.logs import Entry, Left, committed, differences, left_behind
from harness.worlds.processes.machine import FAILURES, Behaviour, Disk, Lever
from harness.worlds.processes.run import World
from harness.worlds.processes.verdict import DURABLE, EQUAL, NO_TRACEBACK, outcome_of
from harness.worlds.processes.world import can
from zab.cli.zoo_cfg.plan import read_plan
from zab.core.zxid import NOTHING, Zxid

# -- the machine under a server ------------------------------------------------------------------------


@pytest.fixture
def lever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lever]:
    """Of this process, for as long as the test lasts."""
    for name in ("pwrite", "pread", "posix_fallocate", "fsync", "fdatasync", "unlink"):
        monkeypatch.setattr(os, name, getattr(os, name))
    lever = Lever(tmp_path / "lever")
    Disk(lever, tmp_path / "kept").install()
    yield lever
    lever.close()


@pytest.mark.parametrize(
    ("failure", "number"), [("write", errno.EIO), ("fsync", errno.EIO), ("full", errno.ENOSPC), ("read", errno.EIO)]
)
def test_the_nth_call_fails(lever: Lever, tmp_path: Path, failure: str, number: int) -> None:
    def call() -> None:
        os.pwrite(fd, b"x", 0)
        os.pread(fd, 1, 0)
        os.fdatasync(fd)

    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        lever.change(failure=FAILURES[failure], left=2)
        call()
        call()
        with pytest.raises(OSError, match=os.strerror(number)):
            call()
        lever.write(Behaviour())
        call()
    finally:
        os.close(fd)


def test_a_full_disk_stays_full_and_a_failed_call_is_one(lever: Lever, tmp_path: Path) -> None:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        lever.change(failure=FAILURES["full"])
        for _ in range(2):
            with pytest.raises(OSError, match="No space"):
                os.pwrite(fd, b"x", 0)
        lever.change(failure=FAILURES["write"])
        with pytest.raises(OSError, match="Input/output"):
            os.pwrite(fd, b"x", 0)
        os.pwrite(fd, b"x", 0)
    finally:
        os.close(fd)


def test_a_part_of_the_log_that_is_deleted_is_kept(lever: Lever, tmp_path: Path) -> None:
    (tmp_path / "log.100000001").write_bytes(b"history")
    (tmp_path / "snapshot.5").write_bytes(b"state")
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        os.unlink("log.100000001", dir_fd=folder)
        os.unlink("snapshot.5", dir_fd=folder)
    finally:
        os.close(folder)
    assert [path.read_bytes() for path in (tmp_path / "kept").glob("*/*")] == [b"history"]


def test_two_hands_on_one_lever(lever: Lever, tmp_path: Path) -> None:
    other = Lever(tmp_path / "lever")
    other.change(wall_ms=-60_000, slow_us=7)
    assert lever.read() == Behaviour(slow_us=7, wall_ms=-60_000)
    other.close()


# -- where servers live, and what they are told --------------------------------------------------------


def test_every_server_finds_the_others_at_addresses_of_its_own(tmp_path: Path) -> None:
    places, others = Loopback(), Loopback()
    try:
        names = [places.names(sid, range(1, 4)) for sid in (1, 2, 3)]
        addresses = [address for each in names for address in each.values()]
        assert len(set(addresses)) == len(addresses) == 9
        assert names[0][name_of(1)] == places.own(1)
        assert places.own(1) != others.own(1)
    finally:
        places.close()
        others.close()


@pytest.mark.skipif(netns.can_make() is not None, reason="network namespaces cannot be made here")
def test_packets_are_dropped_one_way_and_the_namespaces_go_with_the_run() -> None:
    spaces = netns.Namespaces(range(1, 3))
    try:
        fabric = netns.PacketFabric(Random(1), spaces)
        listening = [*spaces.command(2), sys.executable, "-c", LISTEN, spaces.own(2)]
        with subprocess.Popen(listening, stdout=subprocess.PIPE) as listener:
            try:
                assert listener.stdout is not None
                port = listener.stdout.readline().decode().strip()
                talking = [*spaces.command(1), sys.executable, "-c", TALK, spaces.own(2), port]
                fabric.block([(1, 2)])
                fabric.block([(1, 2)])
                fabric.unblock([(1, 2)])
                assert subprocess.run([*talking, "0.3"], check=False).returncode == 1
                fabric.heal()
                assert subprocess.run([*talking, "30"], check=False).returncode == 0
            finally:
                listener.kill()
    finally:
        spaces.close()
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert spaces.space(1) not in listed


LISTEN = """\
import socket, sys, time
made = socket.create_server((sys.argv[1], 0))
print(made.getsockname()[1], flush=True)
time.sleep(600)
"""
TALK = """\
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3]))
except TimeoutError:
    sys.exit(1)
"""


def test_the_configuration_means_what_the_script_says(tmp_path: Path) -> None:
    script = Script(1)
    places = Loopback()
    try:
        members = [member(places, sid) for sid in (1, 2, 3)]
        data = tmp_path / "data"
        data.mkdir()
        (data / "myid").write_text("2\n")
        config = tmp_path / "zoo.cfg"
        pace = Pace.of(script, 1.0)
        config.write_text(configuration(data, places, 2, members, script, pace, founds=True))
        plan = read_plan(config)
        (warning,) = plan.warnings
        assert "servers speak without TLS" in warning
        assert plan.ensemble is not None
        assert plan.ensemble.servers == tuple(members)
        assert (plan.server_id, plan.settings.tick_ms) == (2, pace.tick_ms)
        assert plan.limits.snap_entries == script.knobs.snapshot_every
    finally:
        places.close()


def test_servers_are_told_of_groups_and_weights(tmp_path: Path) -> None:
    script = Script(1, voters=3, groups=((1, 3), (2,)), weights=(2, 1, 0))
    places = Loopback()
    try:
        (tmp_path / "myid").write_text("1\n")
        config = tmp_path / "zoo.cfg"
        members = [member(places, sid) for sid in (1, 2, 3)]
        config.write_text(configuration(tmp_path, places, 1, members, script, Pace.of(script, 1.0), founds=True))
        ensemble = read_plan(config).ensemble
        assert ensemble is not None
        assert in_words(ensemble) == "the groups 1x2 3x0 | 2"
    finally:
        places.close()


def test_supported_faults_depend_on_configuration_file() -> None:
    assert can(Crash(0))
    assert can(Setting(0, knob="tick_ms"))
    assert not can(Setting(0, knob="window_entries"))
    assert not can(CrashIn(0))


# -- logs ----------------------------------------------------------------------------------------------

A, B, C, D = (Zxid(1 << 32 | 1), Zxid(1 << 32 | 2), Zxid(2 << 32 | 1), Zxid(2 << 32 | 2))


def entry(word: bytes) -> Entry:
    return Entry(word, False)


def left(*zxids: Zxid, digest: int | None = 1, before: Zxid = NOTHING) -> Left:
    found = Left(last=zxids[-1], digest=digest)
    for zxid in zxids:
        found.entries[zxid] = entry(b"%d" % zxid)
        found.before[zxid] = before
        before = zxid
    return found


def test_the_history_is_followed_back_over_epochs_and_servers() -> None:
    """B was logged by one server and never committed: no later record has it before itself."""
    canon = committed([left(A, B), left(A, C, D), left(D, before=C)], [], D)
    assert [zxid for zxid, _ in canon.entries] == [A, C, D]
    assert canon.whole


def test_a_history_whose_beginning_is_nowhere_says_so() -> None:
    canon = committed([left(C, D, before=A)], [], D)
    assert [zxid for zxid, _ in canon.entries] == [C, D]
    assert not canon.whole


@pytest.mark.parametrize(
    ("one", "other", "complaint"),
    [
        (left(A, C, D), left(A, C, D), None),
        (left(A, C, D), left(A, C), "server 2 ends at 2/1, the others at 2/2"),
        (left(A, C, D), left(A, B, C, D), "server 2 has another transaction at 1/2 than was committed"),
        (left(A, C, D), left(A, C, D, digest=2), "servers 1 and 2 have different trees at 2/2"),
        (left(A, C, D), Left(damage=("log.1: damaged",)), "server 2: log.1: damaged"),
    ],
)
def test_differences_between_servers(one: Left, other: Left, complaint: str | None) -> None:
    canon = committed([one], [], D)
    assert list(differences({1: one, 2: other}, canon)) == ([] if complaint is None else [complaint])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a server that has ended."""

    async def write() -> None:
        async with zab.open_store(path) as store, store.session() as session:
            await session.create("/a", b"one")
            await session.set("/a", b"two")

    path = tmp_path_factory.mktemp("written") / "data"
    trio.run(write)
    return path


def test_a_directory_is_read_as_it_was_written(written: Path) -> None:
    found = left_behind(written)
    assert found.damage == ()
    canon = committed([found], [], found.last)
    assert canon.whole
    changes = [change for change in canon.changes() if change.path == "/a"]
    assert [(change.kind, change.data) for change in changes] == [("create", b"one"), ("set", b"two")]


# -- the verdict ---------------------------------------------------------------------------------------


@pytest.fixture
def ran(tmp_path: Path, written: Path) -> Iterator[World]:
    """A run whose one server has ended."""
    places = Loopback()
    world = World(Script(1, voters=1), tmp_path, places)
    world.servers[1].founded = True
    shutil.copytree(written, world.servers[1].data)
    yield world
    places.close()


def told(world: World, zxid: int) -> None:
    """A client was told that it has written."""
    request = Request("create", "/a", b"one")
    world.recorder.add(SessionEvent(0, 1, 5, "connected", 1, 1_000))
    world.recorder.add(Invoke(1, 1, 5, 1, 1, request))
    world.recorder.add(Response(2, 1, 5, 1, Reply(zxid=zxid, path="/a")))


def test_an_acknowledged_write_that_no_server_has_is_noticed(ran: World) -> None:
    told(ran, left_behind(ran.servers[1].data).last + 1)
    outcome = outcome_of(ran)
    assert outcome.invariant == DURABLE
    assert "no server has it" in outcome.what
    assert outcome.committed > 0


def test_a_traceback_in_a_log_is_noticed(ran: World) -> None:
    ran.servers[1].tracebacks.append("Traceback (most recent call last):")
    assert outcome_of(ran).invariant == NO_TRACEBACK


def test_damage_that_has_not_healed_is_noticed(ran: World) -> None:
    log = next(path for path in ran.servers[1].files() if path.name.startswith("log."))
    data = bytearray(log.read_bytes())
    data[8] ^= 1
    log.write_bytes(data)
    assert outcome_of(ran).invariant == EQUAL


def test_healthy_run_has_no_violation(ran: World) -> None:
    assert outcome_of(ran).valid


@pytest.mark.parametrize(("there", "length"), [((1, 3), 3), ((1, 2), 1), ((2, 3), 1)])
def test_transaction_on_quorum_of_groups_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: tuple[int, ...], length: int
) -> None:
    """It takes server 3, which is a group by itself, and server 1, which outweighs the other one of its group."""
    places = Loopback()
    world = World(Script(1, voters=3, groups=((1, 2), (3,)), weights=(2, 1, 1)), tmp_path, places)
    held = {server.data: left(A, C, D) if sid in there else left(A) for sid, server in world.servers.items()}
    monkeypatch.setattr(verdict, "left_behind", held.__getitem__)
    try:
        for server in world.servers.values():
            server.founded = True
        assert outcome_of(world).committed == length
    finally:
        places.close()
