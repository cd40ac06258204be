"""The judge of an exploration: the checkers of the simulator, with interned states.

The memory of the checkers is a part of the global state. If two histories lead to equal servers but different checkers,
both are explored. As with servers, a step of the judge depends only on its state and on the facts, and runs once for
each pair of these.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

from attrs import fields

from harness.checkers import ALL, Checker, Judge, OracleState, Refinement, Violation
from harness.checkers.durability import DecidedIsInForce, MembersBeforeSnapshot, ReadmittedBySomethingNewer
from harness.checkers.leadership import FollowsALeader, RemovedLeaderEnds, StepDown
from harness.checkers.oracle_state import ServerState
from harness.checkers.recovery import KeptSnapshotsServe, NothingNeedlessStays
from harness.checkers.service import BarrierIsLinearizable
from harness.exploration.canonical import PLAIN, Key, Sid, Walk
from harness.exploration.servers import IDS, Fact, Numbers, States, dumped, membership
from zab.core.zxid import NOTHING

NOT_CHECKED: Final[frozenset[type[Checker]]] = frozenset({
    DecidedIsInForce, MembersBeforeSnapshot, ReadmittedBySomethingNewer, RemovedLeaderEnds,  # the membership stays
    KeptSnapshotsServe, NothingNeedlessStays,  # there are no snapshots
    BarrierIsLinearizable,  # no barrier is requested
    StepDown,  # needs a clock that all servers share
})  # fmt: skip
CHECKED: Final = tuple(checker for checker in ALL if checker not in NOT_CHECKED)

_LEFT_OUT: Final = {
    "Refinement": ("state", "steps", "pairs", "_last"),  # `state` is a part of its own; the others count coverage
    "OracleState": ("servers", "initial_ensemble", "batches"),  # the servers are parts of their own
}
_NOT_WALKED: Final = {"_Heard": frozenset({"views"})}
"""Attributes that are not part of a key: here there is only one membership."""
_DERIVED: Final = frozenset({"depth", "ghost"})
"""Attributes that follow from the others, so no key contains them."""


_LAST_SERVER: Final = len(IDS) - 1


class _Part:
    """An object of the judge, and its attributes that change."""

    def __init__(self, of: Any, names: tuple[str, ...]) -> None:
        self.of = of
        self.names = names
        self.values = attrgetter(*names) if len(names) > 1 else lambda of: (getattr(of, names[0]),)


class JudgeStates(States[tuple[int, ...], int, int | Violation]):
    """The states of the judge. A step takes the facts with a number, and gives the next state or a violation of them.

    The key of a state has the numbers of its parts.
    """

    def __init__(self, facts: Numbers[tuple[Fact, ...]], *, oracle: bool) -> None:
        """Create the initial state. With `oracle` no votes are sent, so the checker of votes is left out."""
        super().__init__()
        ghost = OracleState(membership(NOTHING), len(IDS))
        for server in ghost.servers:
            server.id = Sid(server.id)  # type: ignore[assignment]
        checkers = [make(ghost) for make in CHECKED if not (oracle and make is FollowsALeader)]
        self._judge = Judge(ghost, [lambda _, checker=checker: checker for checker in checkers])  # type: ignore[misc]
        self._parts = [_Part(server, tuple(each.name for each in fields(ServerState))) for server in ghost.servers[1:]]
        """The parts of the memory: first one for each server, then the others."""
        self._parts += [part for part in map(_varying, (ghost, *checkers)) if part.names]
        self._parts += [
            _Part(of.state, ("leaderships", "committed", "memberships"))
            for of in checkers
            if isinstance(of, Refinement)
        ]
        self._facts = facts
        self.parts: Numbers[Key] = Numbers()
        self.initial = self._store([()] * len(self._parts), [0] * len(self._parts))

    def _run(self, state: int, given: int) -> int | Violation:
        judge = self._judge
        judge._logged.clear()  # caches, which compare batches by identity
        judge._fed.clear()
        judge.ghost.batches.clear()
        for part, values in zip(self._parts, pickle.loads(self._pickles[state]), strict=True):
            for name, value in zip(part.names, values, strict=True):
                setattr(part.of, name, value)
        try:
            for name, arguments in self._facts.values[given]:
                if name == "said":
                    judge.said[arguments[0]](*arguments[1:])
                else:
                    getattr(judge, name)(*arguments)
        except Violation as violation:
            return violation
        return self._store(pickle.loads(self._pickles[state]), self.keys.values[state])

    def _store(self, before: list[tuple[Any, ...]], former: Sequence[int]) -> int:
        """Return the number of the present memory. Parts equal to `before` keep their `former` numbers."""
        memory = [part.values(part.of) for part in self._parts]
        key = tuple([
            number if values == was else self.parts.of((max(place, _LAST_SERVER), _key(part, values)))
            for place, (part, values, was, number) in enumerate(zip(self._parts, memory, before, former, strict=True))
        ])  # fmt: skip
        number = self.keys.of(key)
        if number == len(self._pickles):
            self._pickles.append(dumped(memory))
        return number


def _key(part: _Part, memory: tuple[Any, ...]) -> Key:
    walk = Walk(_NOT_WALKED)
    found: list[Key] = []
    for name, value in zip(part.names, memory, strict=True):
        if type(value) in PLAIN:
            found.append(value)
        elif not value or name in _DERIVED:
            found.append(0)
        elif name == "_reached":  # a list by server
            found.append(frozenset([(Sid(sid), count) for sid, count in enumerate(value)]))
        else:
            found.append(walk.key(value, name))
    return tuple(found)


def _varying(of: Any) -> _Part:
    left_out = (*_LEFT_OUT.get(type(of).__name__, ()), "ghost")
    return _Part(of, tuple(name for name in vars(of) if name not in left_out))
