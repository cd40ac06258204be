"""The heap of virtual time, and everything that lives on it.

A run takes events off the heap in the order of time, equal times in the order in which they were put there.
Nothing else decides an order: no set is iterated, no hash or address is looked at, and every chance comes
from generators that are seeded by the script, one for each server and purpose.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final

from harness import worlds
from harness.availability import Availability
from harness.checkers import ALL, Checker, Ghost, Judge, Violation
from harness.checkers.service import NoCrash
from harness.faults import Ask, Connect, Leave, Reconfigure, Script, Vanish
from harness.outcome import Outcome
from harness.trace import Trace
from harness.watchdog import RunAway
from harness.worlds.cores.crashed import Crashed
from harness.worlds.cores.liveness import Liveness
from harness.worlds.cores.nemesis import Nemesis
from harness.worlds.cores.network import Network
from harness.worlds.cores.server import Server
from harness.worlds.cores.workload import Workload, member
from zab.core.ensemble import Ensemble, Role
from zab.core.errors import StorageError
from zab.core.messages import State
from zab.core.ready import Note, Settings
from zab.core.zxid import Millis, ServerId, Zxid

EVENTS_MAX = 300_000
"""A run that needs more is stuck in a loop without time going on."""


def settings_of(script: Script) -> Settings:
    knobs = script.knobs
    return Settings(
        tick_ms=knobs.tick_ms,
        init_limit=knobs.init_limit,
        sync_limit=knobs.sync_limit,
        finalize_wait_ms=knobs.finalize_wait_ms,
        notification_ms_min=knobs.notification_ms_min,
        notification_ms_max=knobs.notification_ms_max,
        observer_delay_ms_max=knobs.notification_ms_min,
        dial_retry_ms=knobs.dial_retry_ms,
        outstanding_max=knobs.outstanding_max,
        window_entries=knobs.window_entries,
        log_sync_entries_max=knobs.log_sync_entries_max,
        counter_max=knobs.counter_max,
    )


class World:
    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        self.script = script
        self.trace = Trace() if trace else None
        self.now = 0
        self._heap: list[tuple[int, int, Callable[[Any, Any], None], Any, Any]] = []
        self._serial = count(1)
        self._running = True
        self.events = 0
        self.counts: dict[str, int] = {}
        knobs, timing = script.knobs, script.timing
        self.settings = settings_of(script)
        self.fsync_min = timing.fsync_us_min
        self.fsync_span = max(1, timing.fsync_us_max - timing.fsync_us_min)
        self.turn_max = timing.turn_us_max
        self._chunk_bytes = knobs.chunk_bytes
        self.snapshot_every = knobs.snapshot_every
        founders = [
            member(ServerId(sid), Role.PARTICIPANT if sid <= script.voters else Role.OBSERVER)
            for sid in range(1, script.servers + 1)
        ]
        ensemble = Ensemble(tuple(founders))
        joining = [op.server for op in script.ops if isinstance(op, Reconfigure) and op.change == "add"]
        total = max([script.servers, *joining])
        seed = str(script.seed)
        self.ghost = Ghost(ensemble, total)
        self.availability = Availability(self.ghost, lambda: self.now)
        self.judge = Judge(self.ghost, checkers, self.availability.looked)
        self.servers = [Server(self, ServerId(sid), ensemble, seed) for sid in range(total + 1)]
        """By id; nobody has id 0."""
        for server in self.servers[1 : script.servers + 1]:
            server.founded = True
        self.network = Network(self, timing, self.servers, seed)
        self.nemesis = Nemesis(self)
        self.workload = Workload(self)
        self.liveness = Liveness(self)
        self.act = self.nemesis.act
        self.excuses = self.nemesis.excuses
        self.acknowledged = self.workload.told

    @property
    def now_ms(self) -> Millis:
        return self.now // 1_000

    # -- time ------------------------------------------------------------------------------------------

    def push(self, at: int, act: Callable[[Any, Any], None], one: Any, other: Any) -> None:
        heappush(self._heap, (at, next(self._serial), act, one, other))

    def push_fault_end(self, at: int, act: Callable[[Any, Any], None], one: Any, other: Any) -> None:
        """The end of a fault. When everything is healed before, it does not come any more."""
        self.push(at, self._end_fault, act, (one, other))

    def _end_fault(self, act: Callable[[Any, Any], None], what: tuple[Any, Any]) -> None:
        if not self.liveness.began:
            act(*what)

    def run(self) -> Outcome:
        """To the end, or to the first broken promise. The cyclic collector sleeps: a run makes few cycles."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            self._prepare()
            return self._loop()
        except Exception as error:  # a mistake of the harness itself: it must be possible to see it again
            error.add_note(f"seed {self.script.seed}, {self.script.voters} voters, at {self.now_ms} ms")
            raise
        finally:
            if collecting:
                gc.enable()

    def _prepare(self) -> None:
        script = self.script
        for server in self.servers[1:]:
            if server.founded:
                self.push(int(server.random.random() * 5_000), self._start, server, server.life)
        for op in script.ops:
            self.push(op.at * 1_000, self.workload.perform, op, None)
        for fault in script.faults:
            self.push(fault.at * 1_000, self.nemesis.strike, fault, None)
        self.push(script.length_ms * 1_000, self._heal, None, None)
        self.push(self.settings.sync_ms * 1_000, self._observe, None, None)

    def _heal(self, _: object, __: object) -> None:
        self.liveness.begin()

    def _loop(self) -> Outcome:
        heap, pop = self._heap, heappop
        promise, what = None, ""
        events = 0
        try:
            while self._running:
                try:
                    while self._running:
                        self.now, _, act, one, other = pop(heap)
                        events += 1
                        act(one, other)
                        if events > EVENTS_MAX:
                            raise Violation(NoCrash.promise, f"{events} events, and no end")
                except Crashed as crash:
                    if crash.everybody:
                        self.crash_all(crash.loss, crash.down_ms)
                    else:
                        self.crash(crash.server, crash.loss, crash.down_ms)
        except RunAway as away:
            promise, what = NoCrash.promise, str(away)
        except Violation as violation:
            promise, what = violation.promise, violation.what
            self.record(0, "violation", 0, str(violation))
        self.events = events
        return Outcome(
            script=self.script,
            promise=promise,
            what=what,
            at_ms=self.now_ms,
            events=events,
            simulated_ms=self.now_ms,
            committed=len(self.ghost.canon) - 1,
            acknowledged=self.workload.acknowledged,
            elections=len(self.ghost.ruler),
            recovered_ms=self.liveness.took_ms,
            counts=tuple(sorted(self.counts.items())),
            messages=self.network.messages,
            strikes=self.availability.strikes(),
            outages=self.availability.outages(),
            trace=self.trace,
        )

    def stop(self) -> None:
        self._running = False

    # -- who is there ----------------------------------------------------------------------------------

    def running(self) -> list[Server]:
        return [server for server in self.servers if server.up]

    def leader(self) -> Server | None:
        """Who leads, of several that believe so the one of the newest epoch, and rather one that serves."""
        best: Server | None = None
        for server in self.servers:
            if server.up and server.node.state is State.LEADING:
                rank = (server.node.serving, server.node.epoch)
                if best is None or rank > (best.node.serving, best.node.epoch):
                    best = server
        return best

    def join(self, sid: ServerId, ensemble: Ensemble) -> None:
        """A new server is started, to which its operator gave the members and itself as an observer."""
        server = self.servers[sid]
        if server.founded:
            return
        server.ensemble = ensemble.changed(joining=(member(sid, Role.OBSERVER),), version=Zxid(0))
        server.founded = True
        self._start(server, server.life)

    # -- processes -------------------------------------------------------------------------------------

    def _start(self, server: Server, life: int) -> None:
        if server.up or server.life != life:
            return
        if not server.start():
            self.push(self.now + 50_000, self._start, server, server.life)

    def revive(self, server: Server) -> None:
        self.push(self.now + 1 + int(server.random.random() * 2_000), self._start, server, server.life)

    def crash(self, server: Server, loss: str, down_ms: int) -> None:
        if not server.up:
            return
        self.counted("crash")
        server.crash(loss)
        self.push(self.now + down_ms * 1_000, self._start, server, server.life)

    def crash_all(self, loss: str, down_ms: int) -> None:
        for server in self.servers[1:]:
            # Not all at one moment again: who comes back first is chance.
            self.crash(server, loss, down_ms + int(server.random.random() * 50))

    def disk_failed(self, server: Server, error: StorageError) -> None:
        """The disk of a running server failed. It stops; that is all it may do."""
        if not self.excuses(server):
            self.fell(server, "uses its disk", error)
        self.record(server.id, "stops", 0, str(error))
        self.counted("disk failed")
        self.nemesis.disk_failed(server)

    def fell(self, server: Server, doing: str, error: Exception) -> None:
        if isinstance(error, Crashed | Violation):
            raise error
        self.judge.failed(server.id, doing, error)

    def chunks(self, state: bytes) -> list[bytes]:
        size = self._chunk_bytes
        return [state[at : at + size] for at in range(0, len(state), size)] or [b""]

    # -- looking on ------------------------------------------------------------------------------------

    def _observe(self, _: object, __: object) -> None:
        """Now and then: whom has a serving leader not heard for longer than it may lead without hearing anybody?"""
        settings = self.settings
        limit = (settings.init_ms + 2 * settings.sync_ms + 4 * settings.tick_ms) * 1_000
        for server in self.servers[1:]:
            if server.up and not server.paused and server.node.state is State.LEADING:
                since = max(server.resumed_at, 0)
                silent = [
                    sid
                    for sid in server.node.ensemble.voters
                    if sid != server.id and self.now - max(server.heard_at.get(sid, 0), since) > limit
                ]
                self.judge.observed(server.id, silent)
        self.push(self.now + settings.sync_ms * 1_000, self._observe, None, None)

    def noted(self, server: Server, note: Note) -> None:
        if self.trace is not None:
            self.record(server.id, "notes", 0, note)
        self.counted(note.event)
        if note.event == "synchronize":
            self.counted(f"sync {dict(note.fields)['form']}")
        elif note.event in ("protocol_error", "diverged", "history_distrusted"):
            self.judge.failed(server.id, note.event, AssertionError(dict(note.fields)))

    def activated(self, server: Server, ensemble: Ensemble) -> None:
        self.counted("activated")

    def counted(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def record(self, server: int, verb: str, other: int, what: object) -> None:
        if self.trace is not None:
            self.trace.acts.append((self.now, server, verb, other, what))


def run(script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> Outcome:
    """What this world cannot do is left out of the script: see `World.playable`."""
    return World(WORLD.playable(script).script, trace=trace, checkers=checkers).run()


CANNOT: Final = (Connect, Ask, Leave, Vanish)
"""There is no store in it, and so there are no clients of one."""

WORLD: Final = worlds.World(
    "cores", "the consensus cores alone, turned by hand", lambda item: not isinstance(item, CANNOT), run
)
