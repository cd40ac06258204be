"""Campaigns against a user's program, in several processes. Each kind of failure is shrunk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from attrs import evolve, frozen

from harness.embed import arguments
from harness.embed.lookup import name_of, path_prefix
from harness.embed.report import Failure, Report
from harness.embed.search import Limits, Subject, replayed, search
from harness.faults import Fault, Script, StrikeNode, is_users
from harness.outcome import Outcome
from harness.program.fleet import Fleet
from harness.program.generate import generated
from harness.program.lookup import parts_of, program_of
from harness.program.node import Node
from harness.program.world import ENDS, REPEATABLE, SETTLE_MS, Invariant, Main, Program, ProgramWorld, run, world_of
from harness.run.regressions import script_in
from harness.run.replay_line import replay_line, written
from harness.script.nodes import NODES_MAX
from harness.worlds.cores.nemesis import lasting_ms

__all__ = ["Fleet", "Node", "application"]

UNIT: Final = "act"


@frozen
class _Given:
    """The program, and the arguments that define it, for the line that replays a run."""

    program: Program
    parts: dict[str, Any]
    settle_seconds: float

    def line(self, script: Script, file: Path | None) -> str:
        """Return the line that replays the script: of shell if `zab-harness` finds the program, else of Python."""
        main = self.program.main
        usual = parts_of(main)
        prefix = path_prefix(main)
        same = all(part is None or part is usual[name] for name, part in self.parts.items())
        if prefix is not None and same and self.program.settle_ms == SETTLE_MS:
            return prefix + replay_line(script, file=file or written(script))
        words = [_shown(main), f"script={str(file or written(script))!r}"]
        words += [f"{name}={_shown(part)}" for name, part in self.parts.items() if part is not None]
        if self.program.settle_ms != SETTLE_MS:
            words.append(f"settle_seconds={self.settle_seconds!r}")
        return f"harness.application({', '.join(words)})"


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        inner = ", ".join(map(_shown, value))
        return f"({inner}{',' if len(value) == 1 else ''})"
    name = getattr(value, "__qualname__", None)
    return "..." if name is None or "<" in name else str(name)


def application(
    main: Main,
    *,
    nodes: int = 3,
    servers: int = 3,
    invariant: Invariant | Sequence[Invariant] | None = None,
    settled: Callable[[Fleet], object] | None = None,
    expected: type[BaseException] | Sequence[type[BaseException]] | None = None,
    seconds: float = 60.0,
    settle_seconds: float = SETTLE_MS / 1_000,
    runs: int = 100,
    seed: int = 0,
    faults: int = 8,
    script: Script | str | Path | None = None,
    keep: str | Path | None = None,
    diagram: str | Path | None = None,
    shrink_runs: int = 150,
    shrink_seconds: float = 60.0,
    jobs: int = 1,
    stop_after: int = 1,
) -> Report:
    """Run a program on `nodes` simulated nodes, with an ensemble of `servers` store servers, under faults.

    main        an async function of a `harness.Node`; it runs once for each node, and again after each kill. If it
                returns, the node has done its work. If it raises an error, the run has failed
    invariant   a function of a `harness.Fleet`, or several: each raises an `AssertionError`, or returns False or a
                reason, if it does not hold. It is called at each `Node.acts`, at each fault and once a virtual second
    settled     a function of a `harness.Fleet` that becomes true within `settle_seconds` after the faults have ended
    expected    errors by which `main` may end: the node is started again a second later, as by a supervisor
    seconds     the virtual time until all faults end
    runs, seed  the seeds `seed`, `seed + 1`, ... are run; the same seed is the same run
    faults      the most faults of a run
    script      run only this one, without shrinking it: a `Script`, or the path of a file with one
    keep        a folder in which the smallest failing scripts are stored
    diagram     an HTML file for the picture of the smallest run of the first failure; others are beside it
    shrink_runs, shrink_seconds  the most runs and seconds to shrink each failure
    jobs        the number of processes; the report is the same for any number
    stop_after  end after this number of failing runs; 0: after all runs. Failures are grouped by the violated invariant

    `invariant`, `settled` and `expected` are by default those of the module of `main`. A wrong argument is a
    `TypeError` or a `ValueError` that names it, before anything runs. Ctrl-C works as in `harness.campaign`.

    Within the runs, a node that reads a real clock, draws unseeded random numbers, or uses a thread, a socket or
    another process fails with an error that names the call and its line.
    """
    arguments.check_place("application")
    arguments.check_numbers(
        nodes=nodes, runs=runs, seed=seed, faults=faults, shrink_runs=shrink_runs, jobs=jobs, stop_after=stop_after
    )
    if nodes > NODES_MAX:
        raise ValueError(f"nodes={nodes}: expected from 1 to {NODES_MAX}")
    arguments.check_seconds(shrink_seconds, seconds=seconds, settle_seconds=settle_seconds)
    length_ms = round(seconds * 1_000)
    if length_ms < 1:
        raise ValueError(f"seconds={seconds!r}: expected 0.001 or more")
    arguments.check_servers((servers,))
    arguments.check_paths(keep=keep, diagram=diagram)
    arguments.check_script(script)
    parts = {"invariant": invariant, "settled": settled, "expected": expected}
    program = program_of(main, name_of(main), settle_ms=round(settle_seconds * 1_000), **parts)
    given = _Given(program, parts, settle_seconds)
    began = time.monotonic()
    subject = Subject(
        _name_of(main), partial(_run, program), given.line, "application", UNIT, simpler, explains_traced=True
    )
    if script is not None:
        one = script if isinstance(script, Script) else script_in(Path(script).read_text())
        if not is_users(one.machine) or not one.nodes:
            raise ValueError(f"script: it has no nodes; {one.machine} is no program")
        file = None if isinstance(script, Script) else Path(script)
        return replayed(subject, evolve(one, machine=program.name), file, diagram, began)
    make = partial(generated, machine=program.name, nodes=nodes, servers=servers, faults=faults, length_ms=length_ms)
    numbered = [(number, make(number)) for number in range(seed, seed + runs)]
    different = _difference(program, numbered[0][1])
    if different is not None:
        failure = Failure(REPEATABLE, different, None, seed)
        return Report(subject.name, 2, 0, time.monotonic() - began, (failure,), call=subject.call, unit=UNIT)
    limits = Limits(jobs, stop_after, shrink_runs, shrink_seconds, keep, diagram)
    return search(subject, numbered, limits, began, [], seeded=True)


STRIKES_AT: Final = (1, 2, 3, 4, 5, 6)
STRIKES_MAX: Final = 3
EARLY_MS: Final = 3_000
AFTER_MS: Final = 20_000
"""The time for the consequences of a single fault."""


def simpler(script: Script, at_ms: int) -> Iterator[Script]:
    """Yield short scripts with one fault of the given one, which fails at `at_ms`.

    A strike counts requests or steps, so it hits another moment without the faults before it. So each strike is tried
    early in a run, with several counts, and the longest ones first. Other faults keep their times.
    """
    found = [fault for fault in script.faults if fault.at <= at_ms]
    if len(found) < 2:
        return
    strikes = {
        (fault.point, fault.harm, fault.for_ms, fault.node): evolve(fault, at=min(EARLY_MS, fault.at))
        for fault in found
        if isinstance(fault, StrikeNode)
    }
    longest = sorted(strikes.values(), key=lambda fault: -fault.for_ms)
    tried: list[Fault] = [evolve(fault, nth=nth) for fault in longest[:STRIKES_MAX] for nth in STRIKES_AT]
    tried += [fault for fault in reversed(found) if not isinstance(fault, StrikeNode)]
    for each in tried:
        end_ms = each.at + lasting_ms(each) + AFTER_MS
        yield evolve(script, faults=(each,), length_ms=min(script.length_ms, end_ms))


def _run(program: Program, script: Script, *, trace: bool = False) -> Outcome:
    return run(script, program, trace=trace)


def _name_of(main: object) -> str:
    return str(getattr(main, "__qualname__", type(main).__name__))


def _difference(program: Program, script: Script) -> str | None:
    """Run a script twice in this process. Return the first difference, or None."""
    playable = world_of(program).playable(script).script
    worlds = [ProgramWorld(playable, program) for _ in range(2)]
    one = worlds[0].run()
    if one.invariant in (ENDS, REPEATABLE):
        return None  # the campaign reports it, and says more
    other = worlds[1].run()
    acts, again = ([f"{act.at:.6f} s, node {act.node}: {act}" for act in world.fleet.acts] for world in worlds)
    for number, (first, second) in enumerate(zip(acts, again, strict=False), 1):
        if first != second:
            return f"two runs with seed {script.seed} differ: act {number} is first ({first}), then ({second})"
    if (one.events, one.at_ms, len(acts)) != (other.events, other.at_ms, len(again)):
        return (
            f"two runs with seed {script.seed} differ after {min(len(acts), len(again))} equal acts: the program"
            " depends on something that is kept from one run to the next, such as a global variable"
            " or a file, or on addresses in memory"
        )
    return None
