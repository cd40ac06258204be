"""The commands that run one script: `drill`, `run`, `replay`, `show`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import click

from harness import history_json
from harness.checkers import records
from harness.cli import common, options
from harness.cli.root import INVALID, VALID, command
from harness.faults import LEADER, Isolate, Knobs, Script, Write
from harness.outcome import Outcome
from harness.report.concerned import concerned
from harness.report.diagram import read
from harness.report.summary import summary
from harness.scripts import describe, dumps
from harness.trace import Trace, line
from harness.worlds import world
from zab.cli.kit.failures import Misused
from zab.cli.kit.verb_group import Arguments

# -- run and replay --------------------------------------------------------------------------------------

_SHOWN: Final = (
    options.trace(0),
    options.flag("--every-act", "With --trace: print the last N of all events, also if invalid."),
    options.flag("--hash", "Print the hash of all events: equal hashes mean equal runs."),
    options.option("--history", "Store the clients' history, for `check`.", options.FILE),
    options.DIAGRAM,
    options.flag("--print", "Print the script as JSON, and do not run it."),
    options.json_output(),
)


@command("run", *options.SCRIPT_FROM_SEED, *options.PLACE, *_SHOWN)
def run(arguments: Arguments) -> int:
    """Generate a script from a seed, run it, and check it."""
    return _run_chosen(arguments)


@command("replay", *options.SCRIPT, *options.PLACE, *_SHOWN)
def replay(arguments: Arguments) -> int:
    """Run a script again, from its seed or from a file."""
    return _run_chosen(arguments)


def _run_chosen(arguments: Arguments) -> int:
    script = common.chosen(arguments)
    if arguments.print:
        sys.stdout.write(dumps(script))
        return VALID
    return common.with_mutant(arguments, lambda: _run_script(arguments, script))


def _check_history(path: Path, script: Script) -> None:
    if script.machine == "list":
        raise Misused("--history: the list has no clients, so it has no history; --machine store has one")
    if not path.parent.is_dir():
        raise Misused(f"--history {path}: there is no directory {path.parent}")


def _run_script(arguments: Arguments, script: Script) -> int:
    there = common.chosen_world(arguments, script.machine)
    if arguments.diagram is not None:
        common.check_recorded(there)
    can = there.playable(script)
    script, skipped = can.script, can.skipped
    if arguments.history is not None:
        _check_history(arguments.history, script)
    outcome = there.run(script, trace=bool(arguments.trace or arguments.hash or arguments.diagram))
    if arguments.history is not None and outcome.records is not None:
        arguments.history.write_text(records.dumps(outcome.records))
    elif arguments.history is not None and outcome.history is not None:
        arguments.history.write_text(history_json.dumps(outcome.history))
    if arguments.diagram is not None:
        common.draw(arguments.diagram, outcome, there.name, arguments.mutant)
    digest = outcome.trace.hash() if arguments.hash and outcome.trace is not None else None
    if arguments.json:
        made = {**common.outcome_as_json(outcome), "world": there.name, "skipped": skipped}
        print(json.dumps(made if digest is None else {**made, "hash": digest}))
        return VALID if outcome.valid else INVALID
    print(describe(script))
    if skipped:
        print(f"left out, because this world does not support it for {script.machine}: {', '.join(skipped)}")
    print()
    if arguments.trace and outcome.trace is not None:
        _print_trace(arguments, outcome, outcome.trace)
    if digest is not None:
        print(f"hash {digest}")
    print(common.verdict(outcome))
    return VALID if outcome.valid else INVALID


def _print_trace(arguments: Arguments, outcome: Outcome, trace: Trace) -> None:
    acts = trace.acts[-arguments.trace :]
    if not outcome.valid and not arguments.every_act:
        acts, number = concerned(trace.acts, outcome.what, arguments.trace)
        print(f"{len(acts):,} of {number:,} events that concern the verdict; --every-act shows the last of all events")
    for act in acts:
        print(line(act))
    print()


# -- pictures --------------------------------------------------------------------------------------------

_PAGE_AS_JSON: Final = options.json_output("Print the path of the page, and the result, as JSON.")


@command("show", *options.SCRIPT, *options.PLACE, options.output("The file of the picture.", "run.html"), _PAGE_AS_JSON)
def show(arguments: Arguments) -> int:
    """Draw a run in one HTML file: a line for each server, arrows for messages, shading for faults.

    For an invalid run the picture shows possible causes of the violation; a click shows everything.
    """
    script = common.chosen(arguments)
    return common.with_mutant(arguments, lambda: _show(arguments, script))


def _show(arguments: Arguments, script: Script) -> int:
    there = common.chosen_world(arguments, script.machine)
    common.check_recorded(there)
    can = there.playable(script)
    outcome = there.run(can.script, trace=True)
    common.draw(arguments.output, outcome, there.name, arguments.mutant)
    words = f"{common.verdict(outcome)}\ndrawn in {arguments.output}"
    return _end(arguments, outcome, words, world=there.name, skipped=can.skipped)


def _end(arguments: Arguments, outcome: Outcome, words: str, **more: object) -> int:
    page = str(arguments.output.resolve())
    print(json.dumps({"page": page, **common.outcome_as_json(outcome), **more}) if arguments.json else words)
    return VALID if outcome.valid else INVALID


WORLDS: Final = ("stack", "cores")
"""The worlds that record events, the usual one first."""
CUT_MS, FOR_MS, LENGTH_MS, EVERY_MS = 600, 700, 1_700, 60


@command(
    "drill",
    options.option("--seed", "The seed of delays.", options.NATURAL, 1),
    options.option("--world", "Where to run it.", click.Choice(WORLDS), WORLDS[0]),
    options.output("The file of the picture.", "drill.html"),
    _PAGE_AS_JSON,
)
def drill(arguments: Arguments) -> int:
    """Take a first look: cut off the leader of three servers under writes, and draw the run.

    The servers run the shipped code on virtual time. Another seed gives another run of the same script.
    """
    outcome = world(arguments.world).run(drill_script(arguments.seed), trace=True)
    assert outcome.trace is not None
    lines = summary(outcome, read(outcome.trace, outcome.script.servers))
    title = "A leader is cut off" if outcome.valid else ""
    common.draw(arguments.output, outcome, arguments.world, None, title=title, summary=lines)
    first = "Three servers, and a client that writes all the time. In virtual time:\n"
    last = f"\nThe picture: {arguments.output.resolve().as_uri()}"
    return _end(arguments, outcome, "\n".join([first, *lines, last]), world=arguments.world)


def drill_script(seed: int) -> Script:
    return Script(
        seed,
        length_ms=LENGTH_MS,
        knobs=Knobs(sync_limit=3),
        ops=tuple(Write(at) for at in range(300, LENGTH_MS - 100, EVERY_MS)),
        faults=(Isolate(CUT_MS, FOR_MS, LEADER),),
    )
