"""Checks without an ensemble: machines that apply the same transactions are equal, also after a restore.

Runs under faults find the same mistakes, but here the explanation is shorter.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random
from typing import Final

from attrs import evolve, frozen

from harness.checkers import Violation
from harness.embed.adapter import RAISES
from harness.embed.calls import SAME
from harness.embed.model import Draw, Make
from harness.embed.state import SAME_STATE, State, difference, same
from harness.shrink import ddmin
from zab.core.errors import Refused
from zab.core.plurals import counted
from zab.core.zxid import Epoch, Zxid
from zab.service.replicated_machine import Machine, View

SNAPSHOTS: Final = "restore(snapshot()) is the same machine"
STEPS: Final = 200
STEPS_SHOWN: Final = 40
BETWEEN: Final = 20
"""The most requests between two snapshots."""


SHRINK_SECONDS_MAX: Final = 10.0


@frozen
class Life:
    """A run without faults: its transactions with their results, and the state at its end."""

    done: Sequence[tuple[bytes, object]]
    state: object


@frozen
class Step:
    """A request, and the machine into which a snapshot is restored after it: "new", "used", or "" for no snapshot."""

    request: bytes
    snapshot: str = ""


class LocalViolation(Violation):
    """A violation in one process, with the fewest steps that were found to show it."""

    def __init__(self, violation: Violation, steps: Sequence[str]) -> None:
        super().__init__(violation.invariant, violation.what)
        self.explanation = "\n".join(
            [
                "History: one process, no faults. Two machines apply the same; a third one is restored from snapshots.",
                *(f"    {step}" for step in steps[-STEPS_SHOWN:]),
                "",
                f"Checker: {violation.invariant}",
                f"  {violation.what}",
            ]
        )


def check(make: Make, draw: Draw, state: State, seed: str) -> Life:
    """Return a run without faults, or raise a violation with the fewest steps that were found to show it."""
    random = Random(f"{seed}/roundtrip")
    machines = _Machines(make, state)
    steps: list[Step] = []
    left = 0
    try:
        for _ in range(STEPS):
            steps.append(Step(draw(random)))
            if not machines.request(steps[-1].request):
                continue
            if left := max(left - 1, 0):
                continue
            left = 1 + int(random.random() * BETWEEN)
            steps[-1] = evolve(steps[-1], snapshot="used" if random.random() < 0.5 else "new")
            machines.snapshot(steps[-1].snapshot)
        machines.end()
    except Violation as violation:
        raise _smallest(make, state, steps, violation, machines) from violation
    return Life(machines.done, state(machines.original))


def _smallest(
    make: Make, state: State, steps: Sequence[Step], violation: Violation, machines: _Machines
) -> LocalViolation:
    """Remove steps while the same invariant is violated. A machine that depends on chance may not repeat it."""
    until = time.monotonic() + SHRINK_SECONDS_MAX
    last = LocalViolation(violation, machines.steps)

    def fails(chosen: Sequence[Step]) -> bool:
        nonlocal last
        if time.monotonic() > until:
            return False
        again = _Machines(make, state)
        try:
            for step in chosen:
                if again.request(step.request) and step.snapshot:
                    again.snapshot(step.snapshot)
            again.end()
        except Violation as found:
            if found.invariant == violation.invariant:
                last = LocalViolation(found, again.steps)
                return True
        return False

    ddmin(steps, fails)
    return last


class _Machines:
    """A machine, a second one that applies the same, and a third one that is restored from snapshots of the first."""

    def __init__(self, make: Make, state: State) -> None:
        self._make, self._state = make, state
        self.original, self._twin, self._restored = make(), make(), make()
        self._number = 0
        self._since = ""
        """The origin of the last snapshot, in words."""
        self.done: list[tuple[bytes, object]] = []
        self.steps: list[str] = []
        """The steps so far, in words."""

    def request(self, request: bytes) -> bool:
        """Prepare and apply it everywhere; return False if it is refused."""
        self._number += 1
        zxid = Zxid(1 << 32 | self._number)
        self.steps.append(f"#{self._number} {request!r}")
        try:
            txn = self.original.prepare(request, View(zxid, Epoch(1), 1_700_000_000_000 + self._number, ()))
        except Refused as refused:
            self.steps[-1] += f" -> fail: {refused}"
            return False
        result = _apply(self.original, zxid, txn)
        self.steps[-1] += f" -> {result!r}"
        if not same(_apply(self._twin, zxid, txn), result):
            raise Violation(SAME, f"two machines that applied the same return different results for {txn!r}")
        answer = _apply(self._restored, zxid, txn)
        if not same(answer, result):
            self.steps[-1] += f"; the restored machine: {answer!r}"
            what = f"{txn!r} returns {result!r}, but {answer!r} on a machine restored from a snapshot{self._since}"
            raise Violation(SNAPSHOTS, what)
        self.done.append((txn, result))
        return True

    def snapshot(self, into: str) -> None:
        after = f"after {counted(self._number, 'request')}"
        _compare(self._state, self.original, self._twin, f"{after} two machines that applied the same differ")
        what = f"{after} a machine restored from a snapshot{self._since} differs"
        _compare(self._state, self.original, self._restored, what, SNAPSHOTS)
        if into == "new":
            self._restored = self._make()
        where = "a new machine" if into == "new" else "the machine that was restored before"
        self.steps.append(f"restore(snapshot()) into {where}")
        _copy(self.original, self._restored)
        self._since = f" taken {after}" + ("" if into == "new" else ", which had another state before")

    def end(self) -> None:
        _compare(self._state, self.original, self._twin, "two machines that applied the same differ")


def _compare(state: State, one: Machine, other: Machine, what: str, invariant: str = SAME_STATE) -> None:
    mine, theirs = state(one), state(other)
    if not same(mine, theirs):
        raise difference(what, mine, theirs, invariant)


def _apply(machine: Machine, zxid: Zxid, txn: bytes) -> object:
    try:
        return machine.apply(zxid, txn)
    except Exception as error:
        raise Violation(RAISES, f"apply({txn!r}) raises {error!r}") from error


def _copy(original: Machine, restored: Machine) -> None:
    what = "snapshot()"
    try:
        chunks = [bytes(chunk) for chunk in original.snapshot()]
        what = "restore() of the chunks of snapshot()"
        restored.restore(iter(chunks))
    except Exception as error:
        raise Violation(RAISES, f"{what} raises {error!r}") from error
