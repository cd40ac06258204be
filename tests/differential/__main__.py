"""`python -m tests.differential --operations 100000 --seed 1`: a campaign against the real server."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from harness import apache_zookeeper
from tests.differential.compare import compare, smallest
from tests.differential.draw import drawn
from tests.differential.peers import alone, three
from tests.differential.script import count

VALID, INVALID, MISUSED = 0, 1, 2


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--operations", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first script; each further one has the next")
    parser.add_argument("--steps", type=int, default=60, help="of each script")
    parser.add_argument("--servers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--findings", type=int, default=1, help="go on until so many differences are found")
    arguments = parser.parse_args()
    reason = apache_zookeeper.why_not()
    if reason:
        print(reason, file=sys.stderr)
        return MISUSED
    memory = Path("/dev/shm")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)))
        peers = stack.enter_context((alone if arguments.servers == 1 else three)(folder))
        compared, scripts, findings, began = 0, 0, 0, time.monotonic()
        while compared < arguments.operations and findings < arguments.findings:
            seed = arguments.seed + scripts
            script = drawn(seed, arguments.steps)
            found = compare(peers, script)
            if found is not None:
                findings += 1
                print(f"seed {seed}:\n{smallest(peers, found)}", flush=True)
            compared += count(script)
            scripts += 1
            if scripts % 200 == 0:
                print(f"{compared} operations, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(f"{compared} operations in {scripts} scripts compared, {findings} differences")
    return INVALID if findings else VALID


if __name__ == "__main__":
    sys.exit(main())
