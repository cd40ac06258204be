"""The outcome of a run with real servers: checks of the invariants in the clients' history and on the disks."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from harness.checkers.broken import Broken
from harness.history import Event, History, Invoke, Request, Response, SessionEvent
from harness.outcome import Outcome
from harness.worlds.processes.cluster import Cluster
from harness.worlds.processes.logs import CommittedHistory, DirectoryContents, committed, differences, read_directory
from zab.core.zxid import NOTHING, Zxid, show

NO_TRACEBACK: Final = "no traceback in a log"
EQUAL: Final = "servers agree"
WITHOUT_BEGINNING: Final = "history without its beginning"
DURABLE: Final = "no acknowledged record disappears"
CHANGES: Final = ("create", "set", "delete")


def outcome_of(world: Cluster, *, clients: bool = True) -> Outcome:
    """Judge a run whose servers have ended. `clients`: the history has all clients that used the store."""
    directories = {sid: read_directory(server.data) for sid, server in world.servers.items() if server.founded}
    canon = _committed_history(world, directories)
    events = tuple(provable(world, event) for event in world.recorder.events)
    history = History(events, tuple(canon.changes()))
    for server in world.processes():
        for line in server.tracebacks[:1]:
            world.violated(NO_TRACEBACK, f"{server}: {line}")
    if world.invariant is None:
        _judge(world, directories, canon, history, clients=clients)
    if not canon.whole:
        world.counted(WITHOUT_BEGINNING)
    if world.recorder.without_session:
        world.counts["operation without a session"] = world.recorder.without_session
    script = world.script
    return Outcome(
        script=script,
        invariant=world.invariant,
        what=world.what,
        at_ms=world.broken_at_ms if world.invariant is not None else world.now_ms_at_end,
        events=len(events) + sum(world.counts.values()),
        simulated_ms=world.now_ms_at_end,
        committed=len(canon.entries),
        acknowledged=world.recorder.acknowledged,
        elections=len(world.epochs),
        recovered_ms=world.recovered_ms,
        counts=tuple(sorted(world.counts.items())),
        strikes=world.uptime.strikes(),
        outages=world.uptime.outages(),
        recoveries=world.uptime.recoveries(events, _writes(history)),
        trace=world.trace,
        history=history,
    )


def provable(world: Cluster, event: Event) -> Event:
    """Return the event, or a weaker one if it proves less.

    A leader of ZooKeeper reports a session as expired before a quorum has agreed, also if it was deposed meanwhile.
    """
    if isinstance(event, SessionEvent) and event.state == "expired" and not world.servers[event.server].ours:
        return evolve(event, state="disconnected")
    return event


def _committed_history(world: Cluster, directories: dict[int, DirectoryContents]) -> CommittedHistory:
    """Return the history up to the last record that a quorum has: it is committed or can no longer be lost."""
    ends = {sid: directories[sid].last for sid in world.voters if sid in directories}
    held = [zxid for zxid in ends.values() if world.is_quorum([sid for sid, end in ends.items() if end >= zxid])]
    last = max(held, default=NOTHING)
    kept = [path for server in world.servers.values() for path in (server.folder / "kept").glob("*")]
    return committed(directories.values(), kept, Zxid(last))


def _judge(
    world: Cluster,
    directories: dict[int, DirectoryContents],
    canon: CommittedHistory,
    history: History,
    *,
    clients: bool,
) -> None:
    for difference in differences({f"{world.servers[sid]}": directories[sid] for sid in world.expected}, canon):
        world.violated(EQUAL, difference)
        return
    first = canon.entries[0][0] if canon.entries else NOTHING
    zxids = canon.zxids
    for invoke, response in _acknowledged(history):
        if response.reply.zxid >= first and response.reply.zxid not in zxids:
            what = f"{invoke.request.op} {invoke.request.path} of client {response.client} was acknowledged"
            world.violated(DURABLE, f"{what} at {show(Zxid(response.reply.zxid))}, but no server has it")
            return
    if canon.whole and clients:
        from harness.checkers.store import ended_early, quotas
        from harness.checkers.store.case import Case
        from harness.checkers.store.judge import check_invariants

        case = Case.of(history)
        verdict = check_invariants(case)
        if not verdict.valid:
            world.violated(str(verdict.invariant), verdict.what + _place(world, history, verdict.broken[0]))
        for wrong in quotas.check(case):
            world.violated(wrong.invariant, wrong.what)
        for early in ended_early(history, world.scale):
            world.violated(early.invariant, early.what)


def _place(world: Cluster, history: History, broken: Broken) -> str:
    """Return where the session of a violation was, in an ensemble with servers of several kinds."""
    if not world.mixed:
        return ""
    mine = [
        event.server
        for event in history.events
        if isinstance(event, SessionEvent | Invoke) and event.session == broken.session and event.at <= broken.at
    ]
    kinds = ", ".join(map(str, world.servers.values()))
    return f" (servers: {kinds}; the session was at server {mine[-1]})" if mine else f" (servers: {kinds})"


def _acknowledged(history: History) -> list[tuple[Invoke, Response]]:
    asked = {event.call: event for event in history.events if isinstance(event, Invoke)}
    return [
        (asked[event.call], event)
        for event in history.events
        if isinstance(event, Response) and not event.reply.error and _changes(asked[event.call].request)
    ]


def _writes(history: History) -> frozenset[int]:
    return frozenset(event.call for event in history.events if isinstance(event, Invoke) and _changes(event.request))


def _changes(request: Request) -> bool:
    return request.op in CHANGES or any(part.op in CHANGES for part in request.parts)
