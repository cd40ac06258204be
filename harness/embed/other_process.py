"""Apply the same transactions in another process, with another hash seed and another clock, and compare the results.

In one process all machines have the same hashes. So a result that depends on the order of a set is the same on every
simulated server, but not on real ones. The other process loads the file that defines the machine under another name
than `__main__`, as `multiprocessing` does.
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
    """Raise a violation if the results differ. Return False if the other process cannot load the machine."""
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
                raise Violation(
                    SAME, f"{txn!r} returns {mine} here, but {theirs} in another process after the same transactions"
                )
        if state is of_snapshot:
            chunks = [bytes.fromhex(chunk) for chunk in end]
            if chunks != life.state:
                raise difference("after the same transactions the state in another process differs", life.state, chunks)
    return True


def _place(make: Make) -> tuple[str, str] | None:
    name = getattr(make, "__qualname__", "")
    if not isinstance(make, type) or "<" in name:
        return None
    try:
        return inspect.getfile(make), name
    except (OSError, TypeError):
        return None
