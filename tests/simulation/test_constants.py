"""Each constant that scripts draw changes something, is changed everywhere, and has its usual value after the run."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import evolve

import harness
from harness.draw import script_from_seed
from harness.faults import (
    LEADER,
    MACHINES,
    Ask,
    CommitPositions,
    Connect,
    Fault,
    Isolate,
    Op,
    Pause,
    Script,
    Step,
    Transact,
    Vanish,
)
from harness.script.checks import ScriptError
from harness.script.constants import CONSTANTS, Drawn, in_force
from harness.script.reading import script as read
from harness.script.writing import describe
from harness.scripts import dumps, loads
from harness.shrink.shrink import shrink
from harness.shrink.trials import Moment
from harness.worlds import recorded
from harness.worlds.common import founders_of
from harness.worlds.cores.partitions import consumer_sessions, simulator
from harness.worlds.cores.store import server
from harness.worlds.cores.world import simulator_of
from harness.worlds.recorded import IgnoringWatcher
from kraft_controller.core.controller_events import PartitionStateChanged
from kraft_controller.core.event_queue import EventQueue
from kraft_controller.core.names import BrokerId, TopicPartition, Version
from kraft_controller.core.store_requests import Failed, RepliesLost, Why
from kraft_controller.wire.epoch_fence import Fence
from replica.core.fetching.fetch_session_cache import FetchSessionCache, FetchSessionLimits
from replica.core.partitions.remote_replica import RemoteReplica
from replica.core.replica_manager import ReplicaManager
from replica.core.replication_quota import ReplicationQuotaManager
from zab.client.session_setup import SessionSetup
from zab.core.errors import NotLeader, Overloaded, ZabError
from zab.core.sync_progress import SyncProgress
from zab.core.zxid import Epoch, ServerId, make
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.service.config_node import ConfigNode
from zab.service.forwarding.membership_changes import MembershipChanges
from zab.service.forwarding.pending_submissions import PendingSubmissions
from zab.session.watch_manager import WatchManager
from zab.store import acl
from zab.store.operations import Op as StoreOp
from zab.store.store import Store
from zab.wire.relay_messages import ReconfigureRequest

ROOT: Final = Path(harness.__file__).parents[1]


def test_every_importer_of_a_constant_is_in_the_table() -> None:
    imported: dict[tuple[str, str], set[str]] = {}
    names = {constant.where.partition(":")[2].partition(".")[0] for constant in CONSTANTS.values()}
    for package in ("zab", "kraft_controller", "replica", "harness"):
        for file in (ROOT / package).rglob("*.py"):
            module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
            text = file.read_text()
            if not any(name in text for name in names):
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ImportFrom) and node.module is not None:
                    for alias in node.names:
                        imported.setdefault((node.module, alias.name), set()).add(module)
    for name, constant in CONSTANTS.items():
        module, _, path = constant.where.partition(":")
        importers = imported.get((module, path.partition(".")[0]), set())
        assert {each for each in importers if used_by_cores(each)} <= set(constant.also), name


def used_by_cores(module: str) -> bool:
    elsewhere = ("harness.worlds.stack.", "harness.worlds.processes.", "harness.program.")
    return not module.startswith(elsewhere) and ".runtime." not in module


@pytest.mark.parametrize("name", CONSTANTS)
def test_constant_is_changed_in_the_block_and_restored_after_it(name: str) -> None:
    before, value = values_of(name), CONSTANTS[name].values[-1]
    with pytest.raises(ZeroDivisionError), in_force([Drawn(name, value)]):
        assert values_of(name) == [value] * len(before)
        raise ZeroDivisionError
    assert values_of(name) == before
    assert not set(CONSTANTS[name].values) & set(before), "a usual value changes nothing"


def values_of(name: str) -> list[int]:
    module, _, path = CONSTANTS[name].where.partition(":")
    top, _, setting = path.partition(".")
    found = [getattr(import_module(place), top) for place in (module, *CONSTANTS[name].also)]
    return [getattr(each, setting) for each in found] if setting else found


@pytest.mark.parametrize("machine", MACHINES)
def test_a_third_of_scripts_draws_constants_of_its_machine(machine: str) -> None:
    scripts = [script_from_seed(seed, machine=machine) for seed in range(300)]
    assert 50 < sum(bool(script.constants) for script in scripts) < 130
    drawn = {each.name for script in scripts for each in script.constants}
    assert drawn == {name for name, constant in CONSTANTS.items() if machine in constant.machines}
    for name in ("init_limit", "sync_limit", "finalize_wait_ms", "notification_ms_min", "dial_retry_ms"):
        assert len({getattr(script.knobs, name) for script in scripts}) > 2, name


# -- scripts with constants ------------------------------------------------------------------------------


def test_constants_are_shown_stored_and_read_again() -> None:
    script = Script(1, constants=(Drawn("window_bytes", 200), Drawn("dial_attempts", 1)))
    text = describe(script)
    assert "constants window_bytes 200 dial_attempts 1" in text
    assert read(text) == loads(dumps(script)) == script
    assert "constants" not in dumps(Script(1)), "scripts without constants keep their form"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("constants dial_attempt 1", "did you mean 'dial_attempts'?"),
        ("constants dial_attempts 1 dial_attempts 2", "given twice"),
        ("constants dial_attempts -1", "-1 is not from 0 to"),
    ],
)
def test_wrong_constants_are_refused(text: str, what: str) -> None:
    with pytest.raises(ScriptError, match=re.escape(what)):
        read(f"seed 1\n{text}")


def test_shrinking_removes_the_constants_that_do_not_matter() -> None:
    needed = Drawn("checkpoint_every", 1)
    script = Script(1, constants=(Drawn("dial_attempts", 1), needed, Drawn("xid_max", 2)))
    shrunk = shrink(script, lambda it: Moment(1) if needed in it.constants else None)
    assert shrunk.script.constants == (needed,)
    assert not shrink(script, lambda it: Moment(1)).script.constants


# -- the effects: of most on a run, of some on an object ---------------------------------------------------


def footprint(script: Script) -> object:
    """Return what a run does: its trace, the calls to its disks, and the sizes of what its servers remember."""
    made = simulator_of(script)
    with in_force(script.constants):
        world: Any = made(script, trace=True)
        outcome = world.run()
    assert outcome.invariant is None, outcome.what
    digests = [server.machine.store.digest for server in world.servers[1:]] if script.machine != "list" else []
    disks = [server.disk for server in world.servers[1:]]
    if script.machine == "partitions":
        disks += [broker.disk.files for broker in world.brokers.values()]
        logs = [log for broker in world.brokers.values() for log in broker.disk.logs.logs.values()]
        producers = [str(log.producers.active()) for log in logs]
    else:
        producers = []
    return (
        str(outcome.trace and outcome.trace.acts),
        outcome.counts,
        producers,
        [sorted(disk.counts.items()) for disk in disks],
        [(len(each.changed), len(each._known), list(each.history)) for each in digests],
    )


def asked(at: int, *steps: Step) -> Ask:
    return Ask(at, 1, steps)


def containers() -> Iterator[Op]:
    for at in (400, 410, 420):
        path = f"/c{at}"
        yield asked(at, Step("create", path, mode="container"))
        yield asked(at + 40, Step("create", f"{path}/x"))
        yield asked(at + 80, Step("delete", f"{path}/x"))


def of_store(ops: Iterable[Op], *faults: Fault, timeout_ms: int = 2_000) -> Script:
    ops = (Connect(100, 1, 1, timeout_ms), *sorted(ops, key=lambda op: op.at))
    return Script(1, machine="store", length_ms=2_500, ops=ops, faults=faults)


EMPTIED: Final = of_store(containers())
ISOLATED: Final = of_store((), Isolate(600, 800, 1))
SUSPENDED: Final = of_store((Vanish(600, 1_500, 1),), Pause(700, 300, LEADER), timeout_ms=400)


def generated(machine: str, kind: type | None = None, count: int = 4) -> list[Script]:
    """Return scripts of the first seeds, or of the first whose scripts have an operation of this kind."""
    found: list[Script] = []
    for seed in range(100):
        made = script_from_seed(seed, machine=machine, **({} if kind else SMALL))
        if kind is None or any(isinstance(op, kind) for op in made.ops):
            found.append(evolve(made, constants=()))
        if len(found) == count:
            break
    return found


SMALL: Final[Mapping[str, Any]] = {"length_ms": 1_500, "ops": 60, "faults": 12}
CHECKED: Final = Drawn("checkpoint_every", 1)
FORGOTTEN: Final = Drawn("offsets_check_ms", 20), Drawn("offsets_retention_ms", 100)
EXPIRED: Final = Drawn("id_expiry_check_ms", 20), Drawn("id_expiration_ms", 200)
NEEDED: Final[Mapping[str, tuple[Drawn, ...]]] = {
    "checkpoints_kept": (CHECKED,),
    "reaper_part_ms": (Drawn("containers_per_minute_max", 120),),
    "offsets_check_ms": FORGOTTEN[1:],
    "offsets_retention_ms": FORGOTTEN[:1],
    "tombstones_per_batch": FORGOTTEN,
    "id_expiry_check_ms": EXPIRED[1:],
    "id_expiration_ms": EXPIRED[:1],
}
"""The constants without which one has no effect."""
IN_SCRIPTS: Final[Mapping[str, Script]] = {
    "reaper_part_ms": EMPTIED,
    "containers_per_minute_max": EMPTIED,
    "containers_ms": EMPTIED,
    "cut_off_ticks": ISOLATED,
    "slept_checks": SUSPENDED,
}
WITH: Final[Mapping[str, type]] = {
    **dict.fromkeys((
        "rebalance_delay_ms", "member_join_ms", "load_bytes", "offsets_check_ms", "offsets_retention_ms",
        "tombstones_per_batch",
    ), CommitPositions),
    **dict.fromkeys((
        "greatest_epoch", "id_expiration_ms", "id_expiry_check_ms", "markers_max",
    ), Transact),
}  # fmt: skip
"""The kind of operation without which a constant has no effect."""


SHOWN_BY: Final[Mapping[str, tuple[int, int]]] = {
    "chunk_bytes_min": (1, 0),
    "chunk_nodes": (1, 0),
    "containers_ms": (0, 2),
    "deletions_max": (3, 0),
    "dial_attempts": (2, 0),
    "fetch_backoff_ms": (0, 1),
    "fetch_wait_ms": (0, 1),
    "file_delete_delay_ms": (3, 1),
    "offsets_retention_ms": (2, 0),
    "partitions_created_max": (3, 0),
    "partitions_deleted_max": (3, 0),
    "requests_max": (1, 0),
    "requests_total_max": (1, 0),
    "slept_checks": (0, 2),
    "snapshot_gather_bytes": (1, 1),
    "snapshot_sync_bytes": (1, 0),
    "tombstones_per_batch": (2, 0),
    "window_bytes": (2, 0),
}
"""The script and the value that show the effect, if not the first ones. They are tried first. If they show nothing
after a change of the product, the test only takes longer."""


@cache
def usual(script: Script) -> object:
    return footprint(script)


def differs(name: str) -> bool:
    constant, needed = CONSTANTS[name], NEEDED.get(name, ())
    scripts = [IN_SCRIPTS[name]] if name in IN_SCRIPTS else generated(constant.machines[0], WITH.get(name))
    pairs = list(product(range(len(scripts)), range(len(constant.values))))
    for place, value in sorted(pairs, key=lambda pair: pair != SHOWN_BY.get(name, (0, 0))):
        script = scripts[place]
        changed = evolve(script, constants=(*needed, Drawn(name, constant.values[value])))
        if footprint(changed) != usual(evolve(script, constants=needed)):
            return True
    return False


def compiled() -> object:
    entries = ((31, "world", f"{number}") for number in range(2))
    made = tuple(entries)
    acl._compile(made, 1)
    return acl._COMPILED.pop(id(made), None) is not None


def merged() -> object:
    queue = EventQueue(lambda: 0.0)
    for partition in range(3):
        queue.note(PartitionStateChanged(TopicPartition("a", partition)))
    first = queue.take()
    assert first is not None
    return first.event


def cancelled() -> object:
    pending = PendingSubmissions(bytes(8), 10, 1_000)
    for _ in range(10):
        pending.cancel(pending.submit(b"x", lambda result, error: None))
    return len(pending._unsent)


def resent() -> object:
    pending = PendingSubmissions(bytes(8), 10, 1_000, server.LIMITS.leaders_lost_max)
    pending.submit(b"x", lambda result, error: None)
    sent = 0
    for epoch in range(1, 20):
        pending.begin(Epoch(epoch))
        pending.on_catch_up_point(make(epoch, 0))
        pending.reached(make(epoch, 0))
        sent += len(pending.take(10, 1_000)[1])
    return sent


def changes() -> object:
    pending = MembershipChanges()
    try:
        for _ in range(10):
            pending.add(ReconfigureRequest(0, (), (), "", None), lambda outcome: None)
    except Overloaded:
        pass
    return len(pending.waiting)


def attempts() -> object:
    ensemble = founders_of(Script(1))
    steps = ConfigNode(ServerId(1), Store(), ClientPortSettings()).change((None, "3", None, -1), lambda: ensemble)
    count = 0
    try:
        while True:
            next(steps)
            steps.throw(NotLeader("x"))
            count += 1
    except ZabError:
        return count


def rewatched() -> object:
    watches = WatchManager()
    for path in ("/a", "/b", "/" + "c" * 40):
        watches.answered(StoreOp.GET_DATA, (path, True), 0, IgnoringWatcher())
    owner: Any = None
    return len(list(SessionSetup(owner, watches, recorded.SETTINGS.watch_bytes_max).frames(1)))


def begun() -> object:
    cache = FetchSessionCache(lambda: 1, FetchSessionLimits())
    parts = {TopicPartition("a", 0): (0,)}
    epoch = 1
    assert cache.begin("me", parts, 0)
    for _ in range(200):
        epoch = cache.go_on(1, epoch, "me", {}, (), 0).epoch
    return epoch


def kept() -> object:
    """Return the sizes of a cache of sessions while clients begin others."""
    idents = iter(range(1, 100))
    cache = FetchSessionCache(lambda: next(idents), consumer_sessions.LIMITS)
    sizes = []
    for now in range(0, 3_000, 100):
        parts = {TopicPartition("a", number): (0,) for number in range(1 + now // 1_000)}
        sizes.append((cache.begin("me", parts, now) is None, cache.partitions))
    return sizes


def tried() -> object:
    work = Fence(Version(0)).delete_tree("/a")
    next(work)
    tries = 1
    try:
        while True:
            work.send([Failed(Why.UNKNOWN)])
            tries += 1
    except RepliesLost:
        return tries


def paused() -> object:
    quota = ReplicationQuotaManager()
    quota.configure((), 0)
    return quota.open_at(0)


def stuck() -> object:
    replica = RemoteReplica(BrokerId(1), repeats=2)
    return replica.is_stuck


def read_again() -> object:
    disk: Any = None
    manager = ReplicaManager(BrokerId(1), disk, simulator.REPLICAS).alter_partition
    manager.unread(TopicPartition("a", 0), 0)
    return manager._reads_due


PURE: Final[Mapping[str, Callable[[], object]]] = {
    "progress_log_ms": lambda: SyncProgress(0).fields(10, 5_000),
    "acl_scanned_max": compiled,
    "merged_max": merged,
    "pending_slack": cancelled,
    "leaders_lost_max": resent,
    "changes_pending_max": changes,
    "change_attempts_max": attempts,
    "watch_bytes_max": rewatched,
    "store_tries_max": tried,
    "session_epoch_max": begun,
    "session_slots_max": kept,
    "session_keep_ms": kept,
    "sessions_partitions_max": kept,
    "throttle_pause_ms": paused,
    "stuck_repeats": stuck,
    "isr_backoff_ms": read_again,
}


@pytest.mark.parametrize("name", PURE)
def test_constant_changes_an_object(name: str) -> None:
    before = PURE[name]()
    for value in CONSTANTS[name].values[:1]:
        with in_force([Drawn(name, value)]):
            assert PURE[name]() != before


@pytest.mark.parametrize("name", [name for name in CONSTANTS if name not in PURE])
def test_constant_changes_a_run(name: str) -> None:
    assert differs(name)
