"""The world stack with a program of the user: store servers as shipped, and nodes of the program as their clients."""

from __future__ import annotations

import linecache
import signal
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeAlias

import trio
from attrs import evolve, frozen

from harness.checkers import Violation
from harness.exceptions import described, first_of
from harness.faults import Fault, Knobs, NodeFault, Op, Script, StrikeNode
from harness.outcome import Outcome
from harness.program import culprit
from harness.program.fleet import Fleet, NodeAct
from harness.program.forbidden import ForbiddenCall, guarded
from harness.program.history import explain
from harness.program.nemesis import ProgramNemesis
from harness.program.node import Node
from harness.program.process import NOTE, NodeLife, NodeProcess, reraise_control
from harness.script.checks import ScriptError
from harness.script.names import ACTIVE
from harness.watchdog import RunAway
from harness.worlds import World as WorldOfCommands
from harness.worlds.common import SETTINGS, shared
from harness.worlds.cores.workload import Workload
from harness.worlds.recorded import Recorder
from harness.worlds.stack.members import World
from harness.worlds.stack.scheduler import OWNER, ready_tasks
from harness.worlds.stack.server import Server
from harness.worlds.stack.store.server import CLIENT_PORT, StoreLife, host_of
from harness.worlds.stack.world import WORLD

Main: TypeAlias = Callable[[Node], Awaitable[object]]
Invariant: TypeAlias = Callable[[Fleet], object]

NO_ERROR: Final = "main ends without an error"
REPEATABLE: Final = "a run depends on its seed only"
ENDS: Final = "the program lets time pass"
SETTLES: Final = "the program settles after the faults"
SETTLE_MS: Final = 60_000
CHECK_US: Final = 1_000_000
"""The interval of checks of the invariants, which are also checked at each act and at each fault."""
SETTLED_US: Final = 100_000
BUSY_S: Final = 30.0
"""The processor time of a run after which its program is busy without end. A usual run takes a second."""
STILL_S: Final = 20.0
"""The processor time at one virtual time after which the program is busy without end."""
START_US: Final = 500_000
"""The time within which all nodes are started at the beginning of a run."""

KNOBS: Final = Knobs(**shared(SETTINGS), snapshot_every=1_000, segment_bytes=1 << 20, chunk_bytes=1 << 16)
"""The servers have their usual settings, whatever the script says: the timeouts of programs suit these."""


@frozen
class Program:
    """A program, and what the user says about it."""

    name: str
    """`module:main`, as scripts store it."""
    main: Main
    invariants: tuple[Invariant, ...] = ()
    settled: Callable[[Fleet], object] | None = None
    expected: tuple[type[BaseException], ...] = ()
    """The errors by which `main` may end: the node is started again then."""
    settle_ms: int = SETTLE_MS


TURNS_MAX: Final = 50_000
"""The turns at one virtual time, in each of which every ready task takes a step. A usual program needs a dozen."""


class TurnCounter(trio.abc.Instrument):
    """Calls a function once if Trio's loop takes too many turns at one virtual time: a task never sleeps or waits.

    The limit is counted, so it is the same on any machine.
    """

    def __init__(self, exceeded: Callable[[], None]) -> None:
        self._exceeded = exceeded
        self._turns = 0
        self.at = -1.0
        """The virtual time of the last turn, in seconds."""

    def before_io_wait(self, timeout: float) -> None:
        at = trio.current_time()
        if at != self.at:
            self.at = at
            self._turns = 0
        self._turns += 1
        if self._turns == TURNS_MAX:
            self._exceeded()


class ProgramLiveness:
    """Ends all faults, and then the run: at once, or when the program has settled."""

    def __init__(self, world: ProgramWorld) -> None:
        self._world = world
        settings = world.settings
        self.bound_ms = 4 * (settings.init_ms + settings.sync_ms) + 20 * settings.tick_ms
        self.began = self.took_ms = 0
        self._until = 0

    def begin(self) -> None:
        world = self._world
        self.began = world.now
        self._until = world.now + world.program.settle_ms * 1_000
        world.record(0, "heals", 0, None)
        world.nemesis.rest()
        for server in world.servers[1:]:
            if not server.up:
                world.revive(server)
        for process in world.processes[1:]:
            process.heal()
        world.fleet.healed = True
        world.check()
        self._check(None, None)

    def _check(self, _: object, __: object) -> None:
        world = self._world
        settled = world.program.settled
        if world.over:
            return
        if settled is None or world.ask(settled) is None:
            self.took_ms = (world.now - self.began) // 1_000
            world.check()
            world.stop()
        elif world.now >= self._until:
            why = world.ask(settled)
            seconds = f"{world.program.settle_ms / 1_000:g} s"
            world.violated(Violation(SETTLES, f"{seconds} after the last fault, {named(settled)} {why}"))
        else:
            world.push(world.now + SETTLED_US, self._check, None, None)


class ProgramWorld(World):
    nemesis: ProgramNemesis
    nemesis_type = ProgramNemesis
    workload_type = Workload
    liveness_type = ProgramLiveness
    processes: list[NodeProcess]
    """The nodes, indexed by number. Index 0 is a placeholder."""

    def __init__(self, script: Script, program: Program, *, trace: bool = False) -> None:
        if not script.nodes:
            raise ScriptError(
                f"script.nodes: {program.name} is a program, which needs nodes; `application` generates such"
            )
        self.program = program
        self._given = script
        self.fleet = Fleet(
            lambda: self.now / 1e6,
            lambda: [each.now.node for each in self.processes[1:] if each.now is not None],
            self._tree,
        )
        self._prepared: dict[int, int] = {}
        self._last_us = 0
        self._turns = TurnCounter(self._spins)
        super().__init__(evolve(script, knobs=KNOBS, machine="store"), trace=trace, checkers=())
        self.call_recorder = Recorder(lambda: self.now, lambda event: self.record(0, NOTE, event.client, event))
        self.processes = [NodeProcess(self, number) for number in range(script.nodes + 1)]

    def life(self, server: Server) -> StoreLife:
        return StoreLife(server, self._prepared)

    # -- for nodes -------------------------------------------------------------------------------------

    @property
    def hosts(self) -> str:
        return ",".join(f"{host_of(server.id)}:{CLIENT_PORT}" for server in self.servers[1:])

    def acted(self, act: NodeAct) -> None:
        self.fleet.acts.append(act)
        self.workload.acknowledged += 1
        self.record(0, NOTE, act.node, f"acts: {act}")
        self.check()

    def node_failed(self, node: Node, error: BaseException) -> bool:
        if self.program.expected and not _unexpected(error, self.program.expected):
            return True
        cause = first_of(error)
        what = f"node {node.number} ends with {error_words(cause)}"
        self.violated(Violation(f"{NO_ERROR}: {type(cause).__name__}", what))
        return False

    def node_forbidden(self, node: Node, error: ForbiddenCall) -> None:
        self.violated(Violation(REPEATABLE, f"node {node.number}: {error}"))

    def struck(self, fault: StrikeNode, process: NodeProcess) -> None:
        self.availability.struck_broker(type(fault).__name__, "", fault.for_ms)
        self.nemesis.strike(fault, process)
        self.check()

    def process_of(self, number: int) -> NodeProcess | None:
        """Return the node that a fault names. `ACTIVE` is the one with the last act of those that run."""
        if number != ACTIVE:
            return self.processes[number]
        for act in reversed(self.fleet.acts):
            if self.processes[act.node].up:
                return self.processes[act.node]
        return next((process for process in self.processes[1:] if process.up), None)

    # -- invariants ------------------------------------------------------------------------------------

    def _tree(self) -> Any:
        running: list[Any] = [server for server in self.running() if server.now is not None]
        newest = max(running, key=lambda server: int(server.machine.zxid), default=None)
        return {} if newest is None else newest.machine.store.tree.nodes

    def check(self) -> None:
        """End the run if an invariant does not hold."""
        for invariant in self.program.invariants:
            if self.over:
                return
            why = self.ask(invariant)
            if why is not None:
                self.violated(Violation(named(invariant), why))

    def ask(self, question: Callable[[Fleet], object]) -> str | None:
        """Call a function of the user. Return None if its answer is yes, else the reason."""
        try:
            answer = question(self.fleet)
        except BaseException as error:
            reraise_control(error)
            return error_words(error)
        if isinstance(answer, str):
            return answer
        return "returns False" if answer is False else None

    def _check_again(self, _: object, __: object) -> None:
        self.check()
        self.push(self.now + CHECK_US, self._check_again, None, None)

    # -- the run ---------------------------------------------------------------------------------------

    def push_script(self) -> None:
        trio.lowlevel.add_instrument(self._turns)
        super().push_script()
        for process in self.processes[1:]:
            at = int(self.nemesis.random.random() * START_US)
            self.push(at, process.start, None, None)
        if self.program.invariants:
            self.push(CHECK_US, self._check_again, None, None)
        for fault in self.script.faults:
            self.push(fault.at * 1_000, lambda _, __: self.check(), None, None)

    def step(self) -> None:
        self._last_us = self.now
        super().step()

    def run(self) -> Outcome:
        with ExitStack() as stack:
            stack.enter_context(guarded())
            stack.enter_context(self._ended_if_busy(max(BUSY_S, self.script.length_ms / 1_000)))
            try:
                return super().run()
            except (RunAway, trio.TrioInternalError) as error:
                if not isinstance(error, RunAway) and not isinstance(error.__cause__, RunAway):
                    raise
                self.over, self._ended_at = True, self._last_us
                return self.outcome()

    def _spins(self) -> None:
        """End the run, because a task takes step after step at one virtual time."""
        if self.over:
            return
        ready = [(task.context.get(OWNER), culprit.of_task(task)) for task in ready_tasks()]
        found = [(owner, place) for owner, place in ready if isinstance(owner, NodeLife)]
        found.sort(key=lambda each: each[1] is None)
        who = _subject(*found[0]) if found else _subject(None, None)
        words = f"{who} takes {TURNS_MAX} steps at {self.now / 1e6:.3f} s, and never sleeps or waits"
        self.violated(Violation(ENDS, words))

    @contextmanager
    def _ended_if_busy(self, seconds: float) -> Iterator[None]:
        """End the run after this processor time. If the program does not let it end, break into the program."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        every_s = min(STILL_S, seconds) / 2
        spent, last_at = 0.0, -1.0

        def strike(_: int, frame: FrameType | None) -> None:
            nonlocal spent, last_at
            spent += every_s
            before_at, last_at = last_at, self._turns.at
            place = culprit.of_frame(frame)
            if self.violation is None and not self.over:
                if last_at != before_at and spent < seconds:
                    return
                who = _subject(OWNER.get(None), place)
                if last_at == before_at:
                    words = f"{who} is busy without end, and never sleeps or waits"
                else:
                    words = f"after {spent:g} s of processor time the run is at {last_at:.3f} s, and {who} is busy"
                self.violated(Violation(ENDS, words))
                if place is None:  # Trio runs: it notices the end by itself, but not an error
                    return
            raise RunAway(f"still busy after {spent:g} s of processor time")

        before = signal.signal(signal.SIGVTALRM, strike)
        signal.setitimer(signal.ITIMER_VIRTUAL, every_s, every_s)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)

    def outcome(self) -> Outcome:
        outcome = evolve(super().outcome(), script=self._given)
        if outcome.invariant is None or self.trace is None:
            return outcome
        return evolve(outcome, explanation=explain(self.trace, outcome))


def named(function: Callable[..., object]) -> str:
    found: str = getattr(function, "__name__", None) or repr(function)
    return found


def error_words(error: BaseException) -> str:
    """Describe an error: its message, or the line of an assertion without one, and its place."""
    frames = traceback.extract_tb(error.__traceback__)
    if not isinstance(error, AssertionError) or not frames:
        return described(error)
    last = frames[-1]
    said = str(error) or linecache.getline(last.filename, last.lineno or 0).strip() or "an assertion fails"
    return f"{said} ({Path(last.filename).name}:{last.lineno} in {last.name})"


def _subject(owner: object, place: str | None) -> str:
    """Name the task of a node, or another task, as the subject of a sentence."""
    where = place or "a task"
    return f"node {owner.process.number}: {where}" if isinstance(owner, NodeLife) else where


def _unexpected(error: BaseException, expected: tuple[type[BaseException], ...]) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_unexpected(each, expected) for each in error.exceptions)
    return not isinstance(error, expected)


def run(script: Script, program: Program, *, trace: bool = False) -> Outcome:
    return ProgramWorld(world_of(program).playable(script).script, program, trace=trace).run()


def can(item: Fault | Op) -> bool:
    return isinstance(item, NodeFault) or (isinstance(item, Fault) and WORLD.can(item))


def world_of(program: Program) -> WorldOfCommands:
    return evolve(WORLD, can=can, run=partial(_explained, program=program), machines=(program.name,))


def _explained(script: Script, program: Program, *, trace: bool = False) -> Outcome:
    """Run a script for a command. A failing run is run again with a trace, for its explanation."""
    outcome = run(script, program, trace=trace)
    return outcome if trace or outcome.invariant is None else evolve(run(script, program, trace=True), trace=None)
