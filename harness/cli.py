"""The command: run a script, replay a failure, make it smaller, search for more, and check the checkers.

Results go to stdout, progress to stderr. Exit 0: every promise was kept. 1: one was broken. 2: misused.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs

from harness.campaign import Failure, Plan, Tally, campaign
from harness.draw import script_from_seed
from harness.faults import Script
from harness.mutants.campaign import Verdict, hunt
from harness.mutants.edit import Stale, planted
from harness.mutants.table import BY_NAME, IMPOSSIBLE, MUTANTS
from harness.scripts import ScriptError, describe, dumps, loads, to_json
from harness.shrink import Shrunk, shrink
from harness.worlds.cores.world import Outcome, run
from harness.worlds.stack import world as stack

HELD, VIOLATED, MISUSED = 0, 1, 2

_DESCRIPTION: Final = """\
Breaks the consensus cores on purpose, in virtual time, and says whether a promise was broken.

A run is a function of its script: servers, speed, settings, what clients ask, and what goes wrong. A script
comes from a seed, or from a file. The same script gives the same run, to the last act, in any process.
"""
_EXAMPLES: Final = """\
examples:
  python -m harness run --seed 42                      one run, what happened in it, and the verdict
  python -m harness run --seed 42 --world stack        the same script, with real drivers on virtual time
  python -m harness run --seed 42 --print > s.json     its script, to be edited and replayed
  python -m harness replay --script s.json --trace 50  the last fifty acts before the end
  python -m harness fuzz --runs 10000 --jobs 2         search; each failure prints the line that repeats it
  python -m harness shrink --seed 42                   the smallest script that fails in the same way
  python -m harness mutants                            put known bugs back, one at a time: does anybody notice?
"""


class Misuse(Exception):
    """The command was called in a way that makes no sense. The message is for the caller."""


# -- arguments -----------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    one = commands.add_parser("run", help="draw a script from a seed and run it")
    _script_from_seed(one, needed=True)
    _one_run(one)
    one.set_defaults(act=_run)

    replay = commands.add_parser("replay", help="run a script again, from its seed or from a file")
    _script(replay)
    _one_run(replay)
    replay.set_defaults(act=_run)

    smaller = commands.add_parser("shrink", help="make a failing script as small as it can be")
    _script(smaller)
    smaller.add_argument("--runs", type=_positive, default=400, help="run no more scripts than this (default 400)")
    smaller.add_argument("--output", type=Path, help="write the script there, as JSON")
    smaller.add_argument("--trace", type=_natural, default=40, metavar="N", help="show the last N acts (default 40)")
    smaller.add_argument("--json", action="store_true", help="print the result as JSON")
    smaller.set_defaults(act=_shrink)

    fuzz = commands.add_parser("fuzz", help="run many scripts and collect what fails")
    fuzz.add_argument("--runs", type=_positive, default=1_000, help="how many (default 1000)")
    fuzz.add_argument("--seed-base", type=_natural, default=0, help="the first seed (default 0)")
    fuzz.add_argument("--servers", type=_sizes, default=(3, 5), help="voters, in turn: 3,5 (the default)")
    fuzz.add_argument(
        "--jobs", type=_positive, default=os.cpu_count() or 1, help="processes (default: one for each core)"
    )
    fuzz.add_argument(
        "--stop-after", type=_natural, default=10, metavar="N", help="end after N failures (default 10; 0: never)"
    )
    fuzz.add_argument("--no-shrink", action="store_true", help="do not make the first failure smaller")
    _sizes_of_scripts(fuzz)
    fuzz.add_argument("--json", action="store_true", help="print the result as JSON")
    fuzz.set_defaults(act=_fuzz)

    mutants = commands.add_parser(
        "mutants",
        help="put known bugs back and see whether the checkers notice",
        description="Put known bugs back, one at a time: a few core-seconds each at the median, 60 at most by default.",
    )
    mutants.add_argument("names", nargs="*", metavar="NAME", help="only these (default: all)")
    mutants.add_argument("--seconds", type=float, default=60.0, help="core-seconds for each (default 60)")
    mutants.add_argument("--seed-base", type=_natural, default=0, help="the first seed (default 0)")
    mutants.add_argument("--list", action="store_true", help="only say what they are, and which bugs cannot be planted")
    mutants.add_argument("--json", action="store_true", help="print the result as JSON")
    mutants.set_defaults(act=_mutants)
    return parser


def _script_from_seed(parser: argparse.ArgumentParser, *, needed: bool) -> None:
    parser.add_argument("--seed", type=_natural, required=needed, help="draw the script from this number")
    parser.add_argument("--servers", type=_positive, default=3, help="voters (default 3); a file says it itself")
    parser.add_argument(
        "--mutant", choices=sorted(BY_NAME), metavar="NAME", help="with this bug put back (see `mutants --list`)"
    )
    _sizes_of_scripts(parser)


def _script(parser: argparse.ArgumentParser) -> None:
    _script_from_seed(parser, needed=False)
    parser.add_argument("--script", type=Path, metavar="FILE", help="take the script from this file; - is stdin")


def _sizes_of_scripts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--observers", type=_natural, default=None, help="observers (default: sometimes one)")
    parser.add_argument("--faults", type=_natural, default=20, help="at most so many faults (default 20)")
    parser.add_argument("--ops", type=_natural, default=100, help="at most so many operations (default 100)")
    parser.add_argument(
        "--length-ms", type=_positive, default=3_000, help="virtual time before all is healed (default 3000)"
    )


def _one_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--world",
        choices=("cores", "stack"),
        default="cores",
        help="cores: the consensus cores alone (default); stack: the whole runtime, on virtual time",
    )
    parser.add_argument("--trace", type=_natural, default=0, metavar="N", help="show the last N acts")
    parser.add_argument("--hash", action="store_true", help="print the hash of everything that happened")
    parser.add_argument("--print", action="store_true", help="print the script as JSON, and do not run it")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return value


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(_positive(part) for part in text.split(","))


# -- one run -------------------------------------------------------------------------------------------


def _chosen(arguments: argparse.Namespace) -> Script:
    path: Path | None = getattr(arguments, "script", None)
    if (path is None) == (arguments.seed is None):
        raise Misuse("say which script: either --seed or --script")
    if path is not None:
        try:
            return loads(sys.stdin.read() if str(path) == "-" else path.read_text())
        except (OSError, ScriptError) as error:
            raise Misuse(f"{path}: {error}") from error
    return script_from_seed(
        arguments.seed,
        voters=arguments.servers,
        observers=arguments.observers,
        faults=arguments.faults,
        ops=arguments.ops,
        length_ms=arguments.length_ms,
    )


def _with_mutant(arguments: argparse.Namespace, act: Callable[[], int]) -> int:
    if arguments.mutant is None:
        return act()
    with planted(BY_NAME[arguments.mutant].edits):
        return act()


def _run(arguments: argparse.Namespace) -> int:
    script = _chosen(arguments)
    if arguments.print:
        sys.stdout.write(dumps(script))
        return HELD
    return _with_mutant(arguments, lambda: _run_script(arguments, script))


def _run_script(arguments: argparse.Namespace, script: Script) -> int:
    skipped: tuple[str, ...] = ()
    trace = bool(arguments.trace or arguments.hash)
    if arguments.world == "stack":
        can = stack.playable(script)
        script, skipped = can.script, can.skipped
        outcome = stack.run(script, trace=trace)
    else:
        outcome = run(script, trace=trace)
    if arguments.json:
        made = {**_outcome_as_json(outcome), "world": arguments.world, "skipped": skipped}
        if arguments.hash and outcome.trace is not None:
            made["hash"] = outcome.trace.hash()
        print(json.dumps(made))
        return HELD if outcome.held else VIOLATED
    print(describe(script))
    if skipped:
        print(f"left out, as this world cannot do it: {', '.join(skipped)}")
    print()
    if arguments.trace and outcome.trace is not None:
        print(outcome.trace.text(arguments.trace))
        print()
    if arguments.hash and outcome.trace is not None:
        print(f"hash {outcome.trace.hash()}")
    print(_verdict(outcome))
    return HELD if outcome.held else VIOLATED


def _verdict(outcome: Outcome) -> str:
    counted = (
        f"{outcome.events} events, {outcome.committed} committed, {outcome.acknowledged} acknowledged,"
        f" {outcome.elections} epochs"
    )
    if outcome.held:
        return f"held: {counted}; all equal {outcome.recovered_ms} ms after the last fault"
    return f"VIOLATED after {outcome.at_ms} ms: {outcome.promise}: {outcome.what}\n{counted}"


def _outcome_as_json(outcome: Outcome) -> dict[str, object]:
    return {
        "held": outcome.held,
        "promise": outcome.promise,
        "what": outcome.what,
        "at_ms": outcome.at_ms,
        "events": outcome.events,
        "committed": outcome.committed,
        "acknowledged": outcome.acknowledged,
        "epochs": outcome.elections,
        "recovered_ms": outcome.recovered_ms,
        "counts": dict(outcome.counts),
        "script": to_json(outcome.script),
    }


# -- shrinking -----------------------------------------------------------------------------------------


def _shrink(arguments: argparse.Namespace) -> int:
    script = _chosen(arguments)
    return _with_mutant(arguments, lambda: _shrink_script(arguments, script))


def _shrink_script(arguments: argparse.Namespace, script: Script) -> int:
    outcome = run(script)
    if outcome.held:
        print(_verdict(outcome))
        return HELD
    with Progress(arguments.runs, "scripts tried") as progress:
        found = _smaller(script, outcome.promise, arguments.runs, progress.step)
    if arguments.output is not None:
        arguments.output.write_text(dumps(found.script))
    last = run(found.script, trace=True)
    if arguments.json:
        print(json.dumps({**_outcome_as_json(last), "runs": found.runs}))
        return VIOLATED
    assert last.trace is not None
    print(describe(found.script))
    print()
    print(last.trace.text(arguments.trace))
    print()
    print(_verdict(last))
    print(f"{found.runs} runs to get here from {len(script.faults)} faults and {len(script.ops)} operations")
    return VIOLATED


def _smaller(script: Script, promise: str | None, runs: int, step: Callable[[], None] = lambda: None) -> Shrunk:
    def fails(candidate: Script) -> bool:
        step()
        return run(candidate).promise == promise

    return shrink(script, fails, runs_max=runs)


# -- searching -----------------------------------------------------------------------------------------


def _fuzz(arguments: argparse.Namespace) -> int:
    plan = Plan(
        arguments.runs,
        arguments.seed_base,
        arguments.servers,
        arguments.observers,
        arguments.faults,
        arguments.ops,
        arguments.length_ms,
    )
    began = time.monotonic()
    with Progress(plan.runs, "runs") as progress:
        total = campaign(
            plan,
            jobs=arguments.jobs,
            stop_after=arguments.stop_after,
            seen=lambda so_far: progress.show(so_far.runs, f"{len(so_far.failures)} failed"),
        )
    took = time.monotonic() - began
    if arguments.json:
        made = attrs.asdict(total, filter=lambda attribute, _: attribute.name != "failures")
        made["failures"] = [
            {**attrs.asdict(failure, filter=lambda each, _: each.name != "script"), "script": to_json(failure.script)}
            for failure in total.failures
        ]
        print(json.dumps(made))
        return VIOLATED if total.failures else HELD
    print(_summary(plan, total, took))
    for failure in total.failures:
        print(f"VIOLATED {failure.promise}: {failure.what}")
        print(f"  {_rerun(plan, failure)}")
    if total.failures and not arguments.no_shrink:
        first = total.failures[0]
        found = _smaller(first.script, first.promise, 300)
        print(f"\nthe first of them, made smaller in {found.runs} runs:")
        print(f"{describe(found.script)}\n\n{dumps(found.script)}")
    return VIOLATED if total.failures else HELD


def _summary(plan: Plan, total: Tally, took: float) -> str:
    seconds = total.core_seconds or 1e-9
    sizes = " and ".join(map(str, plan.voters))
    return (
        f"{total.runs} histories of {sizes} voters in {took:.0f} s: {len(total.failures)} failed\n"
        f"{total.committed} transactions committed, {total.acknowledged} acknowledged, {total.epochs} epochs, "
        f"{total.events} events in {total.simulated_ms // 1000} simulated seconds\n"
        f"{60 * total.runs / seconds:.0f} histories a minute of one core, "
        f"{total.simulated_ms / 1000 / seconds:.0f} simulated seconds a second; "
        f"slowest recovery {total.recovered_ms_max} ms\n"
        f"{', '.join(f'{name} {number}' for name, number in sorted(total.counts.items()))}"
    )


def _rerun(plan: Plan, failure: Failure) -> str:
    usual = Plan(1)
    words = [f"python -m harness replay --seed {plan.base + failure.number} --servers {failure.script.voters}"]
    for name in ("observers", "faults", "ops", "length_ms"):
        if getattr(plan, name) != getattr(usual, name):
            words.append(f"--{name.replace('_', '-')} {getattr(plan, name)}")
    return " ".join(words)


# -- mutants -------------------------------------------------------------------------------------------


def _mutants(arguments: argparse.Namespace) -> int:
    unknown = [name for name in arguments.names if name not in BY_NAME]
    if unknown:
        raise Misuse(f"there is no mutant {', '.join(unknown)}; see `mutants --list`")
    chosen = [mutant for mutant in MUTANTS if not arguments.names or mutant.name in arguments.names]
    if arguments.list:
        for mutant in chosen:
            print(f"{mutant.name:<32} {mutant.bug}")
        print("\nnot to be planted here:")
        for name, why in IMPOSSIBLE.items():
            print(f"{name:<32} {why}")
        return HELD
    verdicts = []
    with Progress(len(chosen), "mutants") as progress:
        for number, mutant in enumerate(chosen):
            progress.show(number, mutant.name)
            try:
                verdict = hunt(mutant, seconds=arguments.seconds, base=arguments.seed_base)
            except Stale as stale:
                verdict = Verdict(mutant.name, None, f"does not fit the code any more: {stale}", 0, 0.0, None)
            verdicts.append(verdict)
            if not arguments.json:
                progress.clear()
                print(_line(verdict), flush=True)
    if arguments.json:
        print(json.dumps([_verdict_as_json(verdict) for verdict in verdicts]))
    else:
        spent = sorted(verdict.core_seconds for verdict in verdicts)
        killed = sum(verdict.killed for verdict in verdicts)
        median = spent[len(spent) // 2]
        print(f"{killed} of {len(verdicts)} noticed; median {median:.2f} core-seconds, slowest {spent[-1]:.1f}")
    return HELD if all(verdict.killed for verdict in verdicts) else VIOLATED


def _line(verdict: Verdict) -> str:
    spent = f"{verdict.mutant:<32} {verdict.runs:>6} runs {verdict.core_seconds:>7.2f} s  "
    return spent + (f"noticed: {verdict.promise}" if verdict.killed else f"NOT NOTICED {verdict.what}")


def _verdict_as_json(verdict: Verdict) -> dict[str, object]:
    made = attrs.asdict(verdict, filter=lambda attribute, _: attribute.name != "script")
    made["script"] = None if verdict.script is None else to_json(verdict.script)
    return made


# -- progress ------------------------------------------------------------------------------------------


class Progress:
    """A line on stderr, when that is a terminal, for whatever takes more than two seconds."""

    def __init__(self, total: int, what: str) -> None:
        self._total = total
        self._what = what
        self._began = self._shown = time.monotonic()
        self._steps = 0
        self._visible = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def step(self) -> None:
        self._steps += 1
        self.show(self._steps, "")

    def show(self, done: int, words: str) -> None:
        now = time.monotonic()
        if self._visible and now - self._began > 2 and now - self._shown > 0.2:
            self._shown = now
            sys.stderr.write(f"\r\x1b[K{done} of {self._total} {self._what}, {now - self._began:.0f} s {words}")
            sys.stderr.flush()

    def clear(self) -> None:
        if self._visible and self._shown != self._began:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    parsed = _parser().parse_args(arguments)
    try:
        code: int = parsed.act(parsed)
    except (Misuse, Stale) as error:
        print(f"{error}", file=sys.stderr)
        return MISUSED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return code
