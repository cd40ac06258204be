"""The state of a user's machine as a value, and the comparison of states that must be equal.

A result may be right although the state already differs: chance or a clock in `apply` may show only in a later result,
or never. By default the state is what `snapshot()` returns. If snapshots of one state may differ, because the
machine iterates over a set for instance, the user gives a `state=` function.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final, TypeAlias

from attrs import define, field

from harness.checkers import Violation
from zab.core.zxid import ServerId, Zxid, show

SAME_STATE: Final = "the same transactions make the same state"
EVERY: Final = 8
"""The states of servers are compared at every zxid that is a multiple of this, and at the end of a run."""
SHOWN_CHARS_MAX: Final = 200

State: TypeAlias = Callable[[Any], object]


def same(one: object, other: object) -> bool:
    """Compare two values; NaN equals itself."""
    return one is other or bool(one == other) or (one != one and other != other)


def of_snapshot(machine: Any) -> object:
    return [bytes(chunk) for chunk in machine.snapshot()]


def check_state(state: object) -> State:
    if state is None:
        return of_snapshot
    if not callable(state):
        raise TypeError(f"state={state!r}: expected a function of a machine")
    given: State = state

    def copied(machine: Any) -> object:
        return deepcopy(given(machine))  # an attribute of the machine, for instance, changes with it

    return copied


def difference(what: str, one: object, other: object, invariant: str = SAME_STATE) -> Violation:
    return Violation(invariant, f"{what}: {_shown(one)} and {_shown(other)}. If these are equal states, give state=")


def _shown(state: object) -> str:
    text = repr(state)
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}... ({len(text)} characters)"


@define
class States:
    """The first state of a run at each compared zxid, with its server."""

    state: State
    _seen: dict[Zxid, tuple[ServerId, object]] = field(factory=dict, init=False)

    def applied(self, server: ServerId, zxid: Zxid, machine: object) -> None:
        if zxid % EVERY == 0:
            self.compare(server, zxid, machine)

    def compare(self, server: ServerId, zxid: Zxid, machine: object) -> None:
        mine = self.state(machine)
        first, theirs = self._seen.setdefault(zxid, (server, mine))
        if not same(mine, theirs):
            raise difference(f"at zxid {show(zxid)} servers {first} and {server} differ", theirs, mine)
