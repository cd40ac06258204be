"""A first look: three servers under writes, their leader is cut off from the others, and all of it is drawn.

The servers are whole ones, as they are shipped, on virtual time. Another seed is another run of the same script.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Final

from harness.cli.common import HELD, VIOLATED, Misuse, natural, outcome_as_json
from harness.faults import LEADER, Isolate, Knobs, Script, Write
from harness.report.diagram import page, read
from harness.report.story import story
from harness.run.replay_line import replay_line
from harness.worlds import world

WORLDS: Final = ("stack", "cores")
"""Those that keep a record of their acts."""
CUT_MS, FOR_MS, LENGTH_MS, EVERY_MS = 600, 700, 1_700, 60


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=natural, default=1, help="for delays and whatever else is left to chance")
    parser.add_argument("--world", choices=WORLDS, default=WORLDS[0], help="where to run it (default stack)")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", default=Path("drill.html"), help="draw it there (default drill.html)"
    )
    parser.add_argument("--json", action="store_true", help="print where the page is, and the result, as JSON")


def act(arguments: argparse.Namespace) -> int:
    outcome = world(arguments.world).run(drill(arguments.seed), trace=True)
    assert outcome.trace is not None
    lines = story(outcome, read(outcome.trace, outcome.script.servers))
    line = replay_line(outcome.script, world=arguments.world)
    title = "A leader is cut off" if outcome.held else ""
    try:
        arguments.output.write_text(page(outcome, line, title=title, story=tuple(each.strip() for each in lines)))
    except OSError as error:
        raise Misuse(f"{arguments.output}: {error.strerror}") from error
    if arguments.json:
        made = {"page": str(arguments.output.resolve()), **outcome_as_json(outcome), "world": arguments.world}
        print(json.dumps(made))
        return HELD if outcome.held else VIOLATED
    print("Three servers, and a client that writes all the time. In virtual time:\n")
    print("\n".join(lines))
    print(f"\nThe picture: {arguments.output.resolve().as_uri()}")
    return HELD if outcome.held else VIOLATED


def drill(seed: int) -> Script:
    return Script(
        seed,
        length_ms=LENGTH_MS,
        knobs=Knobs(sync_limit=3),
        ops=tuple(Write(at) for at in range(300, LENGTH_MS - 100, EVERY_MS)),
        faults=(Isolate(CUT_MS, FOR_MS, LEADER),),
    )
