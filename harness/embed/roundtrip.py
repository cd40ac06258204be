"""What needs no ensemble: two machines that are told the same are the same, and so is one made from a snapshot.

The faults find these mistakes, too, but here they are told in one sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from attrs import frozen

from harness.checkers import Violation
from harness.embed.held import SAME, same
from harness.embed.machine import RAISES
from harness.embed.model import Draw, Make
from harness.embed.state import SAME_STATE, State, difference
from zab.core.errors import Refused
from zab.core.zxid import Epoch, Zxid
from zab.service.replicated_machine import Machine, View

SNAPSHOTS: Final = "restore(snapshot()) is the same machine"
STEPS: Final = 200
BETWEEN: Final = 20
"""Requests from one snapshot to the next, at most."""


@frozen
class Life:
    """A life without faults: its transactions with their results, and the state at its end."""

    done: Sequence[tuple[bytes, object]]
    state: object


def check(make: Make, draw: Draw, state: State, seed: str) -> Life:
    """Return a life without faults, or raise a `Violation` if something is not as it should be."""
    random = Random(f"{seed}/roundtrip")
    original, twin, restored = make(), make(), make()
    since = ""
    done: list[tuple[bytes, object]] = []
    left = 0
    for number in range(1, STEPS + 1):
        zxid = Zxid(1 << 32 | number)
        request = draw(random)
        try:
            txn = original.prepare(request, View(zxid, Epoch(1), 1_700_000_000_000 + number, ()))
        except Refused:
            continue
        result = _apply(original, zxid, txn)
        if not same(_apply(twin, zxid, txn), result):
            raise Violation(SAME, f"two machines were told the same, and make different things of {txn!r}")
        answer = _apply(restored, zxid, txn)
        if not same(answer, result):
            raise Violation(
                SNAPSHOTS, f"{txn!r} gives {result!r}; at a machine restored from a snapshot{since} {answer!r}"
            )
        done.append((txn, result))
        if left := max(left - 1, 0):
            continue
        _compare(state, original, twin, f"after {number} requests two machines that were told the same differ")
        what = f"after {number} requests a machine restored from a snapshot{since} differs"
        _compare(state, original, restored, what, SNAPSHOTS)
        left = 1 + int(random.random() * BETWEEN)
        used = random.random() < 0.5
        if not used:
            restored = make()
        _copy(original, restored)
        since = f" taken after {number} requests" + (", which had another state before" if used else "")
    _compare(state, original, twin, "two machines that were told the same differ")
    return Life(done, state(original))


def _compare(state: State, one: Machine, other: Machine, what: str, promise: str = SAME_STATE) -> None:
    mine, theirs = state(one), state(other)
    if not same(mine, theirs):
        raise difference(what, mine, theirs, promise)


def _apply(machine: Machine, zxid: Zxid, txn: bytes) -> object:
    try:
        return machine.apply(zxid, txn)
    except Exception as error:
        raise Violation(RAISES, f"apply({txn!r}) raises {error!r}") from error


def _copy(original: Machine, restored: Machine) -> None:
    what = "snapshot()"
    try:
        chunks = [bytes(chunk) for chunk in original.snapshot()]
        what = "restore() of what snapshot() gave"
        restored.restore(iter(chunks))
    except Exception as error:
        raise Violation(RAISES, f"{what} raises {error!r}") from error
