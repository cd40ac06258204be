"""Compare the cost of fixed work in one process with stored figures. It only warns."""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

from bench.gate.verdict import (
    Figure,
    Method,
    Verdict,
    Word,
    from_document,
    interpreter,
    judge,
    merged,
    to_document,
)
from bench.gate.work import WORKS, calibration_s
from bench.report import RESULTS, median, table
from bench.workers import python

STORED: Final = RESULTS / "curated-gate.json"
ROOT: Final = Path(__file__).parents[2]
REPEATS: Final = 9
TURNS: Final = 1
EVERYTHING: Final = "all of it, a set to a frame"
COUNT_S: Final = 600
UNITS: Final = {
    Method.INSTRUCTIONS: "instructions of the processor",
    Method.CPU: "processor time of a thousand; 1 is that of a loop which never changes",
}
__all__ = ["Method", "run"]


def run(method: Method | None, store: bool, path: Path = STORED) -> None:
    chosen = method or (Method.INSTRUCTIONS if shutil.which("valgrind") else Method.CPU)
    if chosen is Method.INSTRUCTIONS and not shutil.which("valgrind"):
        raise SystemExit("instructions are counted by valgrind, which is not there: take --method cpu")
    measure = _instructions if chosen is Method.INSTRUCTIONS else _cpu
    now = [Figure(work, chosen.value, interpreter(), round(figure, 6)) for work, figure in measure().items()]
    stored = from_document(json.loads(path.read_text())) if path.exists() else []
    verdicts = judge(now, stored)
    print(f"\n== gate: {UNITS[chosen]}")
    print(table([_row(each) for each in verdicts]))
    worse = [each.now.work for each in verdicts if each.word is Word.WORSE]
    if worse:
        print(f"WARNING: dearer than stored: {'; '.join(worse)}")
    if store:
        path.write_text(json.dumps(to_document(merged(now, stored)), indent=1) + "\n")
        print(f"stored: {path.name}")


def _row(verdict: Verdict) -> dict[str, object]:
    return {
        "an operation of": verdict.now.work,
        "takes": verdict.now.figure,
        "stored": "" if verdict.stored is None else verdict.stored,
        "change": "" if verdict.change is None else f"{verdict.change:+.1%}",
        "": verdict.word.value,
    }


# -- how it is measured --------------------------------------------------------------------------------


def _cpu() -> dict[str, float]:
    """Each beside the calibration loop, again and again, because a machine is quick now and slow then. A thousand
    operations, relative to that loop.
    """
    found = {}
    for name, work in WORKS.items():
        ratios = []
        for _ in range(REPEATS):
            gc.collect()
            before = calibration_s()
            began = time.process_time()
            count = work()
            took = time.process_time() - began
            ratios.append(took / count * 1000 / ((before + calibration_s()) / 2))
        found[name] = median(ratios)
    return found


def _instructions() -> dict[str, float]:
    """Return the cost of all works together, without that of a process that only imports.

    One that nobody counts goes before them, and compiles what has changed.
    """
    subprocess.run(python("bench.gate.counted", "0"), check=True, capture_output=True, timeout=COUNT_S, cwd=ROOT)
    (alone, _), (working, operations) = _counted(0), _counted(TURNS)
    return {EVERYTHING: (working - alone) / operations}


def _counted(turns: int) -> tuple[int, int]:
    """Instructions of the whole process, and operations."""
    valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    done = subprocess.run(
        [*valgrind, *python("bench.gate.counted", str(turns))], capture_output=True, text=True, check=True,
        timeout=COUNT_S, cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": "0"},
    )  # fmt: skip
    return instructions_of(done.stderr), int(done.stdout)


def instructions_of(said: str) -> int:
    """Parse the final output of valgrind."""
    found = re.search(r"I\s+refs:\s+([\d,]+)", said)
    if found is None:
        raise ValueError(f"valgrind tells no instructions: {said[-500:]!r}")
    return int(found[1].replace(",", ""))
