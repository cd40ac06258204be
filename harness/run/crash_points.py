"""Crash at each call to a disk in turn: one run of a short script for each call, each with all checkers.

Runs are deterministic, so a run with a crash before call n equals the run without it up to that call. The numbers are
counted up until no crash occurs; then every call that changes the disk has had its crash.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

from attrs import evolve, frozen

from harness.draw import script_from_seed
from harness.faults import CrashIn, LosePower, Script
from harness.outcome import Outcome
from harness.worlds import world

DOWN_MS: Final = 60
COUNTED: Final = "crash "
"""The beginning of the name under which a world counts a crash at a call; the kind of the call follows."""


@frozen
class CrashPoint:
    """A crash of one server or broker before one call to its disk."""

    target: int
    call: int
    kind: str
    """write, sync, rename, sync_dir, ..."""
    loss: str
    script: Script
    outcome: Outcome


def short_script(seed: int, machine: str, *, faults: int, ops: int, length_ms: int) -> Script:
    """Draw a script with small files and frequent snapshots, so that a short run makes calls of all kinds."""
    script = script_from_seed(seed, voters=3, observers=0, faults=faults, ops=ops, length_ms=length_ms, machine=machine)
    knobs = evolve(script.knobs, snapshot_every=5, segment_bytes=min(script.knobs.segment_bytes, 500), chunk_bytes=40)
    return evolve(script, knobs=knobs)


def targets(script: Script) -> range:
    """Return the numbers of the brokers that have partitions, or of the servers."""
    return range(1, 1 + (script.brokers if script.machine == "partitions" else script.voters))


def crash_points(script: Script, target: int, losses: Sequence[str], first: int = 1) -> Iterator[CrashPoint]:
    """Run the script with a crash at each call of the target's disk, for each fate of data that is not synced.

    `first` is the number of the first call that is tried.
    """
    run = world("cores").run
    for loss in losses:
        for call in count(first):
            crashing = _with_crash(script, target, call, loss)
            outcome = run(crashing)
            kinds = [what[len(COUNTED) :] for what, _ in outcome.counts if what.startswith(COUNTED)]
            if not kinds and outcome.valid:
                break
            yield CrashPoint(target, call, kinds[0] if kinds else "none", loss, crashing, outcome)
            if not kinds:
                break  # the script itself fails


def _with_crash(script: Script, target: int, call: int, loss: str) -> Script:
    if script.machine == "partitions":
        return evolve(script, ops=(LosePower(0, DOWN_MS, target, loss, call), *script.ops))
    return evolve(script, faults=(CrashIn(0, DOWN_MS, target, loss=loss, calls=call), *script.faults))
