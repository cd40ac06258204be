"""What the worlds of simulated servers share, whatever turns the servers in them: a heap, a judge, and who is there.

The nemesis, the workload and the oracle of liveness ask little of a world, and all that they ask has its name here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from heapq import heappush
from itertools import count
from random import Random
from typing import Any, Final, Generic, Protocol, TypeVar

from harness.availability import Availability
from harness.checkers import Checker, Ghost, Judge, Violation
from harness.checkers.service import NoCrash
from harness.exceptions import described
from harness.faults import Script
from harness.history import History
from harness.oracle import Oracle, timeline
from harness.outcome import Outcome
from harness.probes.observer import Probes, came_to
from harness.recoveries import Acknowledged, Hit, overlaps, recoveries
from harness.script.checks import grouped
from harness.trace import Trace
from harness.worlds.cores.crashed import Crashed
from harness.worlds.cores.liveness import Liveness
from harness.worlds.cores.nemesis import Nemesis
from harness.worlds.cores.workload import Workload, member
from harness.worlds.settings import settings_of
from zab.core.ensemble import Ensemble, Role
from zab.core.errors import RemoteProtocolError, StorageError
from zab.core.messages import State
from zab.core.node import Node
from zab.core.ready import Note
from zab.core.zxid import Millis, ServerId

LOOK_EVERY: Final = 50_000
STUCK_US: Final = 20_000
"""Within this time no run that goes on has so many events: it is some thousand for each millisecond."""


_TELLING: Final = frozenset(
    {"synchronize", "diverged", "history_distrusted", "history_given_up", "vetoes", "protocol_error"}
)
"""What servers note that says more than that it happened."""


class TooLong(Exception):
    """A run needs more than it may have; says what it has had."""


class Budget:
    """Of events. A loop in which no time goes on is a server's mistake; to take long is nobody's."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._looked_at = 0
        self.until = min(LOOK_EVERY, most)
        """So many events may go by before somebody looks again."""

    def look(self, events: int, now: int) -> None:
        if events >= LOOK_EVERY and now - self._looked_at < STUCK_US:
            took_ms = (now - self._looked_at) / 1_000
            raise Violation(NoCrash.promise, f"{LOOK_EVERY} events within {took_ms:g} ms, and no end")
        if events >= self._most:
            raise TooLong(f"{events} events in {now // 1_000} ms of virtual time are as many as a run may have")
        self._looked_at = now
        self.until = min(events + LOOK_EVERY, self._most)


class Process(Protocol):
    """A server, as far as a world must know it to start it and to take it away."""

    id: ServerId
    up: bool
    life: int
    random: Random

    @property
    def node(self) -> Node: ...
    def crash(self, loss: str) -> None: ...


S = TypeVar("S", bound=Process)


def unexpected(error: BaseException) -> Violation:
    """Return the violation of a run that an exception ended, of the product or of the harness."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, Violation) else Violation(NoCrash.promise, described(error))


def founders_of(script: Script) -> Ensemble:
    """The membership that a run begins with."""
    sids = range(1, script.servers + 1)
    roles = [Role.PARTICIPANT if sid <= script.voters else Role.OBSERVER for sid in sids]
    groups, weights = grouped(script)
    members = tuple(member(ServerId(sid), role) for sid, role in zip(sids, roles, strict=True))
    return Ensemble(members, groups=groups, weights=weights)


class Common(ABC, Generic[S]):
    """A world has its time, its network and its servers, and makes its nemesis, workload and liveness in the end."""

    servers: list[S]
    """By id; nobody has id 0."""
    nemesis: Nemesis
    workload: Workload
    liveness: Liveness

    def __init__(self, script: Script, servers: int, *, trace: bool, checkers: Sequence[type[Checker]]) -> None:
        self.script = script
        self.trace = Trace() if trace else None
        self.settings = settings_of(script.knobs)
        self.over = False
        self.events = 0
        self.messages = 0
        self.counts: dict[str, int] = {}
        self.founders = founders_of(script)
        self.ghost = Ghost(self.founders, servers)
        self.availability = Availability(self.ghost, lambda: self.now)
        self._probes = Probes(self.ghost)
        self._oracle = Oracle(self.ghost, timeline(script), lambda: self.now)
        self._acknowledged = Acknowledged(self.ghost, lambda: self.now)
        onlookers = [lambda _: self._oracle, lambda _: self._probes, lambda _: self._acknowledged]
        self.judge = Judge(self.ghost, [*checkers, *onlookers], self.availability.looked)
        self.violation: Violation | None = None
        self.undecided = ""
        """Why nobody knows, if the run was given up."""
        self.heap: list[tuple[int, int, Callable[[Any, Any], None], Any, Any]] = []
        self.serial = count(1).__next__

    # -- time ------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def now(self) -> int:
        """Microseconds of virtual time."""

    @property
    def now_ms(self) -> Millis:
        return self.now // 1_000

    def push(self, at: int, act: Callable[[Any, Any], None], one: Any, other: Any) -> None:
        heappush(self.heap, (at, self.serial(), act, one, other))

    def push_fault_end(self, at: int, act: Callable[[Any, Any], None], one: Any, other: Any) -> None:
        """The end of a fault. When everything is healed before, it does not come any more."""
        self.push(at, self._end_fault, act, (one, other))

    def _end_fault(self, act: Callable[[Any, Any], None], what: tuple[Any, Any]) -> None:
        if not self.liveness.began:
            act(*what)

    def push_script(self) -> None:
        """All that the script says, and the end of all faults."""
        script = self.script
        for op in script.ops:
            self.push(op.at * 1_000, self.workload.perform, op, None)
        for fault in script.faults:
            self.push(fault.at * 1_000, self.nemesis.strike, fault, None)
        self.push(script.length_ms * 1_000, self._heal, None, None)

    def _heal(self, _: object, __: object) -> None:
        self.liveness.begin()

    # -- the end ---------------------------------------------------------------------------------------

    def stop(self) -> None:
        self.over = True

    def violated(self, violation: Violation) -> None:
        """A promise is broken. The first one counts, and the run is over."""
        if self.violation is None and not self.over:
            self.violation = violation
            self.record(0, "violation", 0, str(violation))
        self.stop()

    def gave_up(self, spent: TooLong) -> None:
        """It took more than a run may take. That breaks no promise, and keeps none."""
        if self.violation is None and not self.over:
            self.undecided = str(spent)
            self.record(0, "gives up", 0, self.undecided)
        self.stop()

    def history(self) -> History | None:
        """What the clients of the store saw."""
        return None

    def outcome(self) -> Outcome:
        quiet = self.availability.quiet()
        broken = self.violation or self._oracle.unserved(quiet, self.liveness.bound_ms)
        history = self.history()
        counts = self.counts | came_to(self._probes, self.counts, history)
        return Outcome(
            script=self.script,
            promise=None if broken is None else broken.promise,
            what=self.undecided if broken is None else broken.what,
            undecided=broken is None and bool(self.undecided),
            at_ms=self.now_ms,
            events=self.events,
            simulated_ms=self.now_ms,
            committed=len(self.ghost.canon) - 1,
            acknowledged=self.workload.acknowledged,
            elections=len(self.ghost.ruler),
            recovered_ms=self.liveness.took_ms,
            counts=tuple(sorted(counts.items())),
            messages=self.messages,
            strikes=self.availability.strikes(),
            outages=self.availability.outages(),
            overlaps=overlaps([*self._hits(), *(Hit(*hit) for hit in self.availability.beside)]),
            recoveries=recoveries(self._hits(), quiet, self._acknowledged.times, history),
            trace=self.trace,
            history=history,
        )

    def _hits(self) -> list[Hit]:
        """All that struck, in the order in which they were over: at the latest, when everything was healed."""
        healed = self.liveness.began or self.now
        hits = [Hit(kind, begin, min(end, healed)) for kind, begin, end in self.availability.hits]
        return sorted(hits, key=lambda hit: hit.end)

    # -- who is there ----------------------------------------------------------------------------------

    def running(self) -> list[S]:
        return [server for server in self.servers if server.up]

    def leader(self) -> S | None:
        """Who leads, of several that believe so the one of the newest epoch, and rather one that serves."""
        best: S | None = None
        for server in self.servers:
            if server.up and server.node.state is State.LEADING:
                rank = (server.node.serving, server.node.epoch)
                if best is None or rank > (best.node.serving, best.node.epoch):
                    best = server
        return best

    # -- processes -------------------------------------------------------------------------------------

    @abstractmethod
    def start(self, server: S, life: int) -> None:
        """Unless it runs, or has run meanwhile."""

    def revive(self, server: S) -> None:
        self.push(self.now + 1 + int(server.random.random() * 2_000), self.start, server, server.life)

    def crash(self, server: S, loss: str, down_ms: int) -> None:
        if server.up:
            self.counted("crash")
            server.crash(loss)
            self.push(self.now + down_ms * 1_000, self.start, server, server.life)

    def crash_all(self, loss: str, down_ms: int) -> None:
        for server in self.servers[1:]:
            # Not all at one moment again: who comes back first is chance.
            self.crash(server, loss, down_ms + int(server.random.random() * 50))

    def disk_failed(self, server: S, error: StorageError) -> None:
        """The disk of a running server failed. It stops; that is all it may do."""
        same: Any = server
        if not self.nemesis.excuses(same):
            self.fell(server, "uses its disk", error)
        self.record(server.id, "stops", 0, str(error))
        self.counted("disk failed")
        self.nemesis.disk_failed(same)

    def fell(self, server: S, doing: str, error: Exception) -> None:
        if isinstance(error, Crashed | Violation):
            raise error
        self.judge.failed(server.id, doing, error)

    # -- looking on ------------------------------------------------------------------------------------

    def noted(self, server: S, note: Note) -> None:
        if self.trace is not None:
            self.record(server.id, "notes", 0, note)
        self.counted(note.event)
        if note.event not in _TELLING:
            return
        fields = dict(note.fields)
        if note.event == "synchronize":
            self.counted(f"sync {fields['form']}")
        elif note.event == "diverged":
            self.judge.contradicted(
                server.id,
                f"finds that server {fields['peer']}, which is to follow it, has another history than it,"
                f" although both of them have {fields['at']}",
            )
        elif note.event == "vetoes":
            self.judge.contradicted(server.id, f"vetoes its leader, though no majority lost its disks: {fields['why']}")
        elif note.event in ("history_distrusted", "history_given_up"):
            self.judge.contradicted(server.id, f"finds that its history is not that of its leader: {fields['why']}")
        else:
            offence = RemoteProtocolError(str(fields["error"]))
            self.judge.failed(server.id, f"heard {fields['message']} from {fields['source']}", offence)

    def counted(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def spent(self) -> dict[str, int]:
        """Return the counters that have a budget."""
        return dict(self.counts)

    def record(self, server: int, verb: str, other: int, what: object) -> None:
        if self.trace is not None and not self.over:
            self.trace.acts.append((self.now, server, verb, other, what))
