"""The same transactions in another process: what depends on how strings hash, or on the clock, differs there.

In one process all machines see the same hashes, so a result that follows the order of a set looks the same at
every server of a simulation, and differs between real ones. The other process loads the file that defines the
machine, under another name than `__main__`, as `multiprocessing` does.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from typing import Final

from harness.checkers import Violation
from harness.embed.calls import SAME
from harness.embed.child import CHILD, shown
from harness.embed.model import Make
from harness.embed.roundtrip import Life
from harness.embed.state import State, difference, of_snapshot

SECONDS_MAX: Final = 120


def check(make: Make, life: Life, state: State) -> bool:
    """Whether it could be tried at all: a machine made by a function inside a function cannot be found again."""
    place, done = _place(make), life.done
    if place is None or not done:
        return False
    here = [shown(result) for _, result in done]
    for hash_seed in ("1", "2"):
        asked = json.dumps(
            {
                "file": place[0],
                "name": place[1],
                "txns": [txn.hex() for txn, _ in done],
                "state": state is of_snapshot,
            }
        )
        ran = subprocess.run(
            [sys.executable, "-c", "from harness.embed.child import main; main()"],
            input=asked,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, CHILD: "1", "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        if ran.returncode != 0:
            return False
        there, end = json.loads(ran.stdout.splitlines()[-1])
        for (txn, _), mine, theirs in zip(done, here, there, strict=True):
            if mine != theirs and mine is not None and theirs is not None:
                raise Violation(SAME, f"{txn!r} gives {mine} here, and {theirs} in another process after the same")
        if state is of_snapshot:
            chunks = [bytes.fromhex(chunk) for chunk in end]
            if chunks != life.state:
                raise difference("the state in another process differs after the same", life.state, chunks)
    return True


def _place(make: Make) -> tuple[str, str] | None:
    name = getattr(make, "__qualname__", "")
    if not isinstance(make, type) or "<" in name:
        return None
    try:
        return inspect.getfile(make), name
    except (OSError, TypeError):
        return None
