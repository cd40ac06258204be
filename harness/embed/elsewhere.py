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
from collections.abc import Sequence
from typing import Any, Final

from harness.checkers import Violation
from harness.embed.held import SAME
from harness.embed.model import Make
from zab.core.zxid import Zxid

CHILD: Final = "ZAB_HARNESS_ELSEWHERE"
SECONDS_MAX: Final = 30


class Called(BaseException):
    """The file runs a campaign when it is loaded. All that stands above is defined by then."""


def check(make: Make, done: Sequence[tuple[bytes, object]]) -> bool:
    """Whether it could be tried at all: a machine made by a function inside a function cannot be found again."""
    place = _place(make)
    if place is None or not done:
        return False
    here = [_shown(result) for _, result in done]
    for hash_seed in ("1", "2"):
        asked = json.dumps({"file": place[0], "name": place[1], "txns": [txn.hex() for txn, _ in done]})
        ran = subprocess.run(
            [sys.executable, "-c", "from harness.embed.elsewhere import main; main()"],
            input=asked,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, CHILD: "1", "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        if ran.returncode != 0:
            return False
        there = json.loads(ran.stdout.splitlines()[-1])
        for (txn, _), mine, theirs in zip(done, here, there, strict=True):
            if mine != theirs and mine is not None and theirs is not None:
                raise Violation(SAME, f"{txn!r} gives {mine} here, and {theirs} in another process after the same")
    return True


def _place(make: Make) -> tuple[str, str] | None:
    name = getattr(make, "__qualname__", "")
    if not isinstance(make, type) or "<" in name:
        return None
    try:
        return inspect.getfile(make), name
    except (OSError, TypeError):
        return None


def _shown(result: object) -> str | None:
    """None where the text says where in memory something is."""
    text = repr(result)
    return None if " at 0x" in text else text


def main() -> None:
    asked = json.loads(sys.stdin.read())
    with open(asked["file"]) as file:
        code = compile(file.read(), asked["file"], "exec")
    names: dict[str, Any] = {"__name__": "__elsewhere__", "__file__": asked["file"]}
    try:
        exec(code, names)
    except Called:
        pass
    made: Any = names
    for part in asked["name"].split("."):
        made = made[part] if isinstance(made, dict) else getattr(made, part)
    machine = made()
    shown = [
        _shown(machine.apply(Zxid(1 << 32 | number), bytes.fromhex(txn)))
        for number, txn in enumerate(asked["txns"], start=1)
    ]
    sys.stdout.write("\n" + json.dumps(shown) + "\n")
