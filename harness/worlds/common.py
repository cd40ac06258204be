"""The base of both simulators: the heap of events, the judge, the budget, and the starts and crashes of servers.

Servers, the nemesis, workloads and the liveness check refer to a simulator as `Common` or as one of its subclasses.
`Common` names none of their types, so that no module imports one above it.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from heapq import heappush
from typing import Any, ClassVar, Final

from attrs import evolve, fields_dict

from harness.availability import Availability
from harness.checkers import ALL, Checker, Judge, OracleState, Violation
from harness.checkers.disturbances import DropsHaveACause, VotesBeginWithTheCandidate
from harness.checkers.service import NoCrash
from harness.exceptions import described, first_of
from harness.faults import JOINING, Knobs, Reconfigure, Script
from harness.history import History
from harness.members import member, with_server
from harness.oracle import Oracle, timeline
from harness.outcome import Outcome
from harness.probes.observer import Probes, probes_hit
from harness.recoveries import Acknowledged, Hit, overlaps, recoveries
from harness.script.checks import grouped
from harness.trace import Trace
from harness.worlds.disks import Crashed
from zab.core.ensemble import Ensemble, Role
from zab.core.errors import RemoteProtocolError, StorageError
from zab.core.messages import State
from zab.core.ready import Note, Settings, with_zookeeper_peers
from zab.core.zxid import Millis, ServerId

CHECK_EVERY: Final = 50_000
STUCK_US: Final = 20_000
"""A run that advances has far fewer than `CHECK_EVERY` events in this time: about a thousand in a millisecond."""


class BudgetExceeded(Exception):
    """The run exceeded its event budget."""


class Budget:
    """The event budget of a run. Many events without progress of time are a violation; a long run is only given up."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._checked_at = 0
        self.until = min(CHECK_EVERY, most)
        """The number of events at which `check` is due."""

    def check(self, events: int, now: int) -> None:
        if events >= CHECK_EVERY and now - self._checked_at < STUCK_US:
            took_ms = (now - self._checked_at) / 1_000
            raise Violation(
                NoCrash.invariant, f"the run does not advance: {CHECK_EVERY} events took {took_ms:g} ms of virtual time"
            )
        if events >= self._most:
            raise BudgetExceeded(f"the run reached its budget of {self._most} events after {now // 1_000} ms")
        self._checked_at = now
        self.until = min(events + CHECK_EVERY, self._most)


SETTINGS: Final = Settings()
"""The settings that `Knobs` does not have."""


WITHOUT_VERSIONS: Final = 3
"""The least value of `zookeeper_peers` with which the membership has no version."""


def shared(values: Knobs | Settings) -> dict[str, Any]:
    """Return the values that `Knobs` and `Settings` both have."""
    return {name: getattr(values, name) for name in fields_dict(Knobs) if name in fields_dict(Settings)}


def settings_of(knobs: Knobs) -> Settings:
    settings = evolve(
        SETTINGS,
        **shared(knobs),
        observer_delay_ms_max=knobs.notification_ms_min,
        veto_retry_ms=knobs.init_limit * knobs.tick_ms,
    )
    if not knobs.zookeeper_peers:
        return settings
    return with_zookeeper_peers(settings, reconfig_enabled=knobs.zookeeper_peers < WITHOUT_VERSIONS)


def violation_of(error: BaseException) -> Violation:
    """Return the violation to report for an exception, of the product or of the harness, that ended a run."""
    error = first_of(error)
    return error if isinstance(error, Violation) else Violation(NoCrash.invariant, described(error))


def founders_of(script: Script) -> Ensemble:
    """Return the membership that a run begins with."""
    sids = range(1, script.servers + 1)
    roles = [Role.PARTICIPANT if sid <= script.voters else Role.OBSERVER for sid in sids]
    groups, weights = grouped(script)
    members = tuple(member(ServerId(sid), role) for sid, role in zip(sids, roles, strict=True))
    return Ensemble(members, groups=groups, weights=weights)


class Common(ABC):
    servers: list[Any]
    """The servers, indexed by id. Index 0 is a placeholder: no server has id 0."""
    nemesis: Any
    workload: Any
    liveness: Any
    server_type: ClassVar[Any]
    nemesis_type: ClassVar[Any]
    workload_type: ClassVar[Any]
    liveness_type: ClassVar[Any]
    has_quiet_stage: ClassVar[bool] = False
    """True if the world may heal only a quorum at first when the faults end: see `harness.worlds.cores.quiet_stage`."""

    def __init__(self, script: Script, *, trace: bool = False, checkers: Sequence[type[Checker]] = ALL) -> None:
        joining = [op.server for op in script.ops if isinstance(op, Reconfigure) and op.change in JOINING]
        count = max([script.servers, *joining])
        self.script = script
        self.trace = Trace() if trace else None
        self.settings = settings_of(script.knobs)
        self.over = False
        self.events = 0
        self.messages = 0
        self.counts: dict[str, int] = {}
        self.founders = founders_of(script)
        self.ghost = OracleState(self.founders, count)
        self.availability = Availability(self.ghost, lambda: self.now)
        self._probes = Probes(self.ghost)
        self._oracle = Oracle(self.ghost, timeline(script), lambda: self.now)
        self._acknowledged = Acknowledged(self.ghost, lambda: self.now)
        observers = [
            lambda _: self._oracle,
            lambda _: self._probes,
            lambda _: self._acknowledged,
            lambda ghost: DropsHaveACause(ghost, lambda: self.now_ms),
            VotesBeginWithTheCandidate,
        ]
        self.judge = Judge(self.ghost, [*checkers, *observers], self.availability.update)
        self.violation: Violation | None = None
        self.unknown = ""
        """The reason why the run was given up; empty if it was not."""
        self.heap: list[tuple[int, int, Callable[[Any, Any], None], Any, Any]] = []
        self.serial = itertools.count(1).__next__
        self.servers = [
            self.server_type(self, ServerId(sid), self.founders, str(script.seed)) for sid in range(count + 1)
        ]
        for server in self.servers[1 : script.servers + 1]:
            server.founded = True
        self._open_network()
        self.nemesis = self.nemesis_type(self)
        self.workload = self.workload_type(self)
        self.liveness = self.liveness_type(self)

    @abstractmethod
    def _open_network(self) -> None:
        """Make the network between the servers."""

    # -- time ------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def now(self) -> int:
        """Return the virtual time in microseconds."""

    @property
    def now_ms(self) -> Millis:
        return self.now // 1_000

    def push(self, at: int, act: Callable[[Any, Any], None], one: Any, other: Any) -> None:
        heappush(self.heap, (at, self.serial(), act, one, other))

    def push_fault_end(self, at: int, act: Callable[[Any, Any], None], one: Any, other: Any) -> None:
        """Schedule the end of a fault, unless all faults end before."""
        self.push(at, self._end_fault, act, (one, other))

    def _end_fault(self, act: Callable[[Any, Any], None], what: tuple[Any, Any]) -> None:
        if not self.liveness.began:
            act(*what)

    def push_script(self) -> None:
        """Schedule all items of the script, and the end of all faults."""
        script = self.script
        for op in script.ops:
            self.push(op.at * 1_000, self.workload.perform, op, None)
        for fault in script.faults:
            self.push(fault.at * 1_000, self.nemesis.inject, fault, None)
        self.push(script.length_ms * 1_000, self._heal, None, None)

    def _heal(self, _: object, __: object) -> None:
        self.liveness.begin()

    # -- the end ---------------------------------------------------------------------------------------

    def stop(self) -> None:
        self.over = True

    def violated(self, violation: Violation) -> None:
        """End the run at its first violation."""
        if self.violation is None and not self.over:
            self.violation = violation
            self.record(0, "violation", 0, str(violation))
        self.stop()

    def give_up(self, spent: BudgetExceeded) -> None:
        """End a run that exceeds its budget. Its verdict is unknown."""
        if self.violation is None and not self.over:
            self.unknown = str(spent)
            self.record(0, "gives up", 0, self.unknown)
        self.stop()

    def history(self) -> History | None:
        """Return the history of the clients of the store, if there are any."""
        return None

    def outcome(self) -> Outcome:
        quiet = self.availability.quiet()
        broken = self.violation or self._oracle.unserved(quiet, self.liveness.bound_ms)
        history = self.history()
        counts = self.counts | probes_hit(self._probes, self.counts, history)
        return Outcome(
            script=self.script,
            invariant=None if broken is None else broken.invariant,
            what=self.unknown if broken is None else broken.what,
            unknown=broken is None and bool(self.unknown),
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
            overlaps=overlaps([*self._hits(), *(Hit(*hit) for hit in self.availability.broker_hits)]),
            recoveries=recoveries(self._hits(), quiet, self._acknowledged.times, history),
            trace=self.trace,
            history=history,
        )

    def _hits(self) -> list[Hit]:
        """Return all injected faults, sorted by their ends, which are not later than the healing."""
        healed = self.liveness.began or self.now
        hits = [Hit(kind, begin, min(end, healed)) for kind, begin, end in self.availability.hits]
        return sorted(hits, key=lambda hit: hit.end)

    # -- servers ---------------------------------------------------------------------------------------

    def running(self) -> list[Any]:
        return [server for server in self.servers if server.up]

    def leader(self, among: Sequence[Any] | None = None) -> Any:
        """Return the leader. If several servers lead, prefer one that serves, and then the newest epoch."""
        running = self.running() if among is None else among
        leading = [server for server in running if server.node.state is State.LEADING]
        return max(leading, key=lambda server: (server.node.serving, server.node.epoch), default=None)

    # -- processes -------------------------------------------------------------------------------------

    @abstractmethod
    def start(self, server: Any, life: int) -> None:
        """Start a server, unless it runs or has started since its process number `life`."""

    def join(self, sid: ServerId, ensemble: Ensemble) -> None:
        """Start a new server. Its configuration has the current members, and the server itself as an observer."""
        server = self.servers[sid]
        if not server.founded:
            ensemble_of_file = with_server(ensemble, member(sid, Role.OBSERVER))
            assert ensemble_of_file is not None, "an observer takes no server's vote"
            server.ensemble = ensemble_of_file
            server.founded = True
            self.start(server, server.life)

    def revive(self, server: Any) -> None:
        self.push(self.now + 1 + int(server.random.random() * 2_000), self.start, server, server.life)

    def crash(self, server: Any, loss: str, down_ms: int) -> None:
        if server.up:
            self.counted("crash")
            server.crash(loss)
            self.push(self.now + down_ms * 1_000, self.start, server, server.life)

    def crashed(self, crash: Crashed, _: None = None) -> None:
        """Crash the server, or all servers, whose turn a fault has ended."""
        if crash.all_servers:
            self.crash_all(crash.loss, crash.down_ms)
        else:
            self.crash(crash.server, crash.loss, crash.down_ms)

    def crash_all(self, loss: str, down_ms: int) -> None:
        for server in self.servers[1:]:
            # The downtimes are random, so that the order of the restarts varies.
            self.crash(server, loss, down_ms + int(server.random.random() * 50))

    def disk_failed(self, server: Any, error: StorageError) -> None:
        """Stop a running server whose disk failed."""
        if not self.nemesis.excuses(server):
            self.report_failure(server, "uses its disk", error)
        self.record(server.id, "stops", 0, str(error))
        self.counted("disk failed")
        self.nemesis.disk_failed(server)

    def report_failure(self, server: Any, doing: str, error: Exception) -> None:
        if isinstance(error, Crashed | Violation):
            raise error
        self.judge.failed(server.id, doing, error)

    # -- observation -----------------------------------------------------------------------------------

    def noted(self, server: Any, note: Note) -> None:
        if self.trace is not None:
            self.record(server.id, "notes", 0, note)
        self.counted(note.event)
        fields = dict(note.fields)
        match note.event:
            case "synchronize":
                self.counted(f"sync {fields['form']}")
            case "diverged":
                self.judge.contradicted(
                    server.id,
                    f"reports that its learner, server {fields['peer']}, has another history than it,"
                    f" although both have {fields['at']}",
                )
            case "vetoes":
                what = f"vetoes its leader, but no majority lost its disks: {fields['why']}"
                self.judge.contradicted(server.id, what)
            case "history_distrusted" | "history_given_up":
                self.judge.contradicted(server.id, f"reports a history that is not its leader's: {fields['why']}")
            case "protocol_error":
                offence = RemoteProtocolError(str(fields["error"]))
                self.judge.failed(server.id, f"received {fields['message']} from server {fields['source']}", offence)
            case _:
                pass

    def counted(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def spent(self) -> dict[str, int]:
        """Return the counters that have a budget."""
        return dict(self.counts)

    def record(self, server: int, verb: str, other: int, what: object) -> None:
        if self.trace is not None and not self.over:
            self.trace.acts.append((self.now, server, verb, other, what))
