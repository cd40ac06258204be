"""The parts of the world of real servers, without a process: fault control, configuration, logs, verdict."""

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
from attrs import evolve

import zab
from harness.faults import Crash, CrashIn, Script, Setting
from harness.history import Invoke, Reply, Request, Response, SessionEvent, WatchFired
from harness.quorums import in_words
from harness.script.script import Knobs
from harness.worlds.processes import netns, verdict
from harness.worlds.processes.addresses import Loopback, member, name_of
from harness.worlds.processes.configuration import Pace, configuration
from harness.worlds.processes.launcher import FAILURES, Disk, FaultControl, FaultState
from harness.worlds.processes.logs import DirectoryContents, Entry, committed, differences, read_directory
from harness.worlds.processes.run import World
from harness.worlds.processes.verdict import DURABLE, EQUAL, NO_TRACEBACK, outcome_of, provable
from harness.worlds.processes.world import can
from harness.worlds.recorded import RecordedSession, Recorder
from zab.cli.zoo_cfg.plan import read_plan
from zab.core.zxid import NOTHING, Zxid
from zab.store import transactions
from zab.store.acl import OPEN
from zab.store.operations import Op
from zab.store.store import Store
from zab.wire.apache.proposals import NO_TAG, file_txn
from zab.wire.client.replies import encode_event
from zab.wire.disk_log import log_chunks
from zab.wire.disk_store import departure

# -- fault control -------------------------------------------------------------------------------------


@pytest.fixture
def fault_control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultControl]:
    """Patch the disk calls of this process for the duration of a test."""
    for name in ("pwrite", "pread", "posix_fallocate", "fsync", "fdatasync", "unlink"):
        monkeypatch.setattr(os, name, getattr(os, name))
    fault_control = FaultControl(tmp_path / "fault_control")
    Disk(fault_control, tmp_path / "kept").install()
    yield fault_control
    fault_control.close()


@pytest.mark.parametrize(
    ("failure", "number"), [("write", errno.EIO), ("fsync", errno.EIO), ("full", errno.ENOSPC), ("read", errno.EIO)]
)
def test_nth_call_fails(fault_control: FaultControl, tmp_path: Path, failure: str, number: int) -> None:
    def call() -> None:
        os.pwrite(fd, b"x", 0)
        os.pread(fd, 1, 0)
        os.fdatasync(fd)

    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        fault_control.change(failure=FAILURES[failure], left=2)
        call()
        call()
        with pytest.raises(OSError, match=os.strerror(number)):
            call()
        fault_control.write(FaultState())
        call()
    finally:
        os.close(fd)


def test_full_disk_stays_full_and_an_error_occurs_once(fault_control: FaultControl, tmp_path: Path) -> None:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        fault_control.change(failure=FAILURES["full"])
        for _ in range(2):
            with pytest.raises(OSError, match="No space"):
                os.pwrite(fd, b"x", 0)
        fault_control.change(failure=FAILURES["write"])
        with pytest.raises(OSError, match="Input/output"):
            os.pwrite(fd, b"x", 0)
        os.pwrite(fd, b"x", 0)
    finally:
        os.close(fd)


def test_deleted_log_file_is_kept(fault_control: FaultControl, tmp_path: Path) -> None:
    (tmp_path / "log.100000001").write_bytes(b"history")
    (tmp_path / "snapshot.5").write_bytes(b"state")
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        os.unlink("log.100000001", dir_fd=folder)
        os.unlink("snapshot.5", dir_fd=folder)
    finally:
        os.close(folder)
    assert [path.read_bytes() for path in (tmp_path / "kept").glob("*/*")] == [b"history"]


def test_two_processes_share_the_fault_control(fault_control: FaultControl, tmp_path: Path) -> None:
    other = FaultControl(tmp_path / "fault_control")
    other.change(wall_ms=-60_000, slow_us=7)
    assert fault_control.read() == FaultState(slow_us=7, wall_ms=-60_000)
    other.close()


# -- addresses and configuration -----------------------------------------------------------------------


def test_every_server_has_its_own_addresses_of_the_others(tmp_path: Path) -> None:
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
def test_packets_are_dropped_in_one_direction_and_namespaces_are_removed() -> None:
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


def test_configuration_file_has_the_settings_of_the_script(tmp_path: Path) -> None:
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


def test_configuration_file_has_groups_and_weights(tmp_path: Path) -> None:
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


def test_only_settings_of_configuration_files_are_supported() -> None:
    assert can(Crash(0))
    assert can(Setting(0, knob="tick_ms"))
    assert not can(Setting(0, knob="window_entries"))
    assert not can(CrashIn(0))


# -- recorded sessions ---------------------------------------------------------------------------------


class Owner:
    id, server = 1, 1

    def __init__(self) -> None:
        self.recorder = Recorder(lambda: 0)


async def test_client_that_gave_up_its_close_sees_no_event_that_arrives_later() -> None:
    owner = Owner()
    session = RecordedSession(owner, "127.0.0.1:1", 1_000)
    event = encode_event(zab.Event.CREATED, "/a", 7)
    session.protocol.receive(event)
    session.protocol.ended("disconnected")
    session.protocol.receive(event)
    assert [type(each) for each in owner.recorder.events] == [WatchFired, SessionEvent]


# -- logs ----------------------------------------------------------------------------------------------

A, B, C, D = (Zxid(1 << 32 | 1), Zxid(1 << 32 | 2), Zxid(2 << 32 | 1), Zxid(2 << 32 | 2))


def entry(zxid: Zxid, number: int = 0) -> Entry:
    return Entry(NO_TAG + transactions.error(1, number, zxid, -101), False)


def left(*zxids: Zxid, node: str = "/a", before: Zxid = NOTHING) -> DirectoryContents:
    store = Store()
    store.apply(A, transactions.create(Op.CREATE, 1, 1, 1, node, b"", OPEN, 0, 1))
    found = DirectoryContents(last=zxids[-1], store=store)
    for zxid in zxids:
        found.entries[zxid] = entry(zxid)
        found.before[zxid] = before
        before = zxid
    return found


def test_history_is_followed_back_across_epochs_and_servers() -> None:
    """B was logged by one server and never committed: no later record has it before itself."""
    canon = committed([left(A, B), left(A, C, D), left(D, before=C)], [], D)
    assert [zxid for zxid, _ in canon.entries] == [A, C, D]
    assert canon.whole


def test_history_without_its_beginning_is_not_whole() -> None:
    canon = committed([left(C, D, before=A)], [], D)
    assert [zxid for zxid, _ in canon.entries] == [C, D]
    assert not canon.whole


@pytest.mark.parametrize(
    ("one", "other", "complaint"),
    [
        (left(A, C, D), left(A, C, D), None),
        (left(A, C, D), left(A, C), "the log of server 2 ends at 2/1, the committed history at 2/2"),
        (left(A, C, D), left(A, B, C, D), "server 2 has a transaction at 1/2 that was not committed"),
        (left(A, C, D), left(A, C, D, node="/b"), "server 2 has another tree at 2/2 than server 1, server 3"),
        (left(A, C, D), DirectoryContents(damage=("log.1: damaged",)), "server 2: log.1: damaged"),
    ],
)
def test_differences_between_servers_are_reported(
    one: DirectoryContents, other: DirectoryContents, complaint: str | None
) -> None:
    canon = committed([one], [], D)
    found = differences({"server 1": one, "server 2": other, "server 3": one}, canon)
    assert list(found) == ([] if complaint is None else [complaint])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data directory of a server that has ended."""

    async def write() -> None:
        async with zab.open_store(path) as store, store.session() as session:
            await session.create("/a", b"one")
            await session.set("/a", b"two")

    path = tmp_path_factory.mktemp("written") / "data"
    trio.run(write)
    return path


def test_data_directory_of_a_store_is_read(written: Path) -> None:
    found = read_directory(written)
    assert found.damage == ()
    canon = committed([found], [], found.last)
    assert canon.whole
    changes = [change for change in canon.changes() if change.path == "/a"]
    assert [(change.kind, change.data) for change in changes] == [("create", b"one"), ("set", b"two")]


def test_directory_of_a_server_that_wrote_nothing_is_empty(tmp_path: Path) -> None:
    """A server that joins may end before its first write, at the end of a script for example."""
    (tmp_path / "myid").write_text("5\n")
    found = read_directory(tmp_path)
    assert (found.last, found.entries, found.damage) == (NOTHING, {}, ())


def test_log_without_epochs_is_damaged(tmp_path: Path, written: Path) -> None:
    shutil.copytree(written, tmp_path / "data")
    (tmp_path / "data" / "epochs").unlink()
    (damage,) = read_directory(tmp_path / "data").damage
    assert "epochs" in damage


# -- logs of ZooKeeper ---------------------------------------------------------------------------------


def zookeeper(folder: Path, logs: dict[Zxid, list[Zxid]], *snapshots: Zxid) -> DirectoryContents:
    """Write a data directory of ZooKeeper with empty trees, and read it."""
    files = folder / "version-2"
    files.mkdir(parents=True)
    for first, zxids in logs.items():
        txns = (file_txn(zxid, entry(zxid).payload[len(NO_TAG) :]) for zxid in zxids)
        (files / f"log.{first:x}").write_bytes(b"".join(log_chunks(txns)))
    for zxid in (NOTHING, *snapshots):
        store = Store()
        store.zxid = zxid
        (files / f"snapshot.{zxid:x}").write_bytes(b"".join(departure(store)))
    return read_directory(folder)


def test_directory_of_zookeeper_has_the_records_of_ours(tmp_path: Path) -> None:
    found = zookeeper(tmp_path, {A: [A, B], C: [C, D]})
    assert (found.last, found.damage, found.replaced) == (D, (), NOTHING)
    assert found.entries == {zxid: entry(zxid) for zxid in (A, B, C, D)}
    assert found.before == {A: NOTHING, B: A, C: B, D: C}


def test_snapshot_fills_a_gap_between_logs_of_zookeeper(tmp_path: Path) -> None:
    """The server has received B in a snapshot."""
    found = zookeeper(tmp_path, {A: [A], C: [C]}, B)
    assert found.before[C] == B
    ours = left(B, before=A)
    assert committed([found, ours], [], C).whole


def test_records_that_a_snapshot_has_replaced_do_not_count(tmp_path: Path) -> None:
    """B was never committed. The server has received C in a snapshot, and keeps B in its log."""
    theirs, ours = zookeeper(tmp_path, {A: [A, B], D: [D]}, C), left(A, C, D)
    canon = committed([theirs, ours], [], D)
    assert [zxid for zxid, _ in canon.entries] == [A, C, D]


# -- the verdict ---------------------------------------------------------------------------------------


@pytest.fixture
def ran(tmp_path: Path, written: Path) -> Iterator[World]:
    """Return a run whose only server has ended."""
    places = Loopback()
    world = World(Script(1, voters=1), tmp_path, places)
    world.servers[1].founded = True
    shutil.copytree(written, world.servers[1].data)
    yield world
    places.close()


def acknowledge(world: World, zxid: int) -> None:
    """Record an acknowledged write of a client at this zxid."""
    request = Request("create", "/a", b"one")
    world.recorder.add(SessionEvent(0, 1, 5, "connected", 1, 1_000))
    world.recorder.add(Invoke(1, 1, 5, 1, 1, request))
    world.recorder.add(Response(2, 1, 5, 1, Reply(zxid=zxid, path="/a")))


def test_lost_acknowledged_write_is_detected(ran: World) -> None:
    acknowledge(ran, read_directory(ran.servers[1].data).last + 1)
    outcome = outcome_of(ran)
    assert outcome.invariant == DURABLE
    assert "no server has it" in outcome.what
    assert outcome.committed > 0


def test_expiry_that_a_server_of_zookeeper_reports_is_no_proof_of_the_end(tmp_path: Path) -> None:
    places = Loopback()
    world = World(Script(1, machine="store", knobs=Knobs(zookeeper_servers=1)), tmp_path, places)
    places.close()
    for sid, server in world.servers.items():
        ended = SessionEvent(0, 1, 5, "expired", sid, 1_000)
        assert provable(world, ended) == (ended if server.ours else evolve(ended, state="disconnected"))


def test_traceback_in_a_log_is_detected(ran: World) -> None:
    ran.servers[1].tracebacks.append("Traceback (most recent call last):")
    assert outcome_of(ran).invariant == NO_TRACEBACK


def test_remaining_damage_is_detected(ran: World) -> None:
    log = next(path for path in ran.servers[1].files() if path.name.startswith("log."))
    data = bytearray(log.read_bytes())
    data[8] ^= 1
    log.write_bytes(data)
    assert outcome_of(ran).invariant == EQUAL


def test_undamaged_run_is_valid(ran: World) -> None:
    assert outcome_of(ran).valid


@pytest.mark.parametrize(("there", "length"), [((1, 3), 3), ((1, 2), 1), ((2, 3), 1)])
def test_records_on_a_quorum_of_groups_are_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: tuple[int, ...], length: int
) -> None:
    """A quorum needs server 3, which is a group by itself, and server 1, which outweighs server 2 in their group."""
    places = Loopback()
    world = World(Script(1, voters=3, groups=((1, 2), (3,)), weights=(2, 1, 1)), tmp_path, places)
    held = {server.data: left(A, C, D) if sid in there else left(A) for sid, server in world.servers.items()}
    monkeypatch.setattr(verdict, "read_directory", held.__getitem__)
    try:
        for server in world.servers.values():
            server.founded = True
        assert outcome_of(world).committed == length
    finally:
        places.close()
