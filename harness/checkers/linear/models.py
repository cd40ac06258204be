"""Sequential models of the store, to which histories are compared.

A model also knows its own algebra: what changes nothing, what can be judged apart, and what can be left out of a
history without turning a legal one illegal. The last is what makes a small core a proof about the whole.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar, Protocol, TypeAlias

from attrs import frozen

from harness.checkers.linear.history import UNKNOWN, HistoryError, Operation, Value

State: TypeAlias = Hashable


class Model(Protocol):
    def initial(self) -> State: ...

    def step(self, state: State, op: Operation) -> Sequence[State]:
        """The states after `op`; none if it cannot have answered so. One without an answer can always take effect."""
        ...

    def pure(self, op: Operation) -> bool:
        """Changes no state *in any state in which it is legal*: a read, a refused compare-and-set.

        Not: a write of what is there already. Whoever calls that pure finds wrong verdicts in one of some
        hundreds of random histories, and none in well-known collections of them.
        """
        ...

    def touches(self, op: Operation) -> Sequence[str]:
        """The objects that its effect or answer depends on. Histories of objects never touched together are judged
        apart."""
        ...

    def removable(self, op: Operation, rest: Iterable[Operation]) -> bool:
        """Return whether `rest`, the other operations, are legal whenever the history with `op` is."""
        ...


@frozen
class Keyed:
    """A family of independent objects by key. The state holds the objects that were touched, sorted by key."""

    unwritten: Value = None
    KINDS: ClassVar[frozenset[str]] = frozenset()
    PURE: ClassVar[frozenset[str]] = frozenset()

    def apply(self, held: Value, kind: str, value: Value) -> tuple[Value, Value]:
        """Return the next state of the object, and the answer."""
        raise NotImplementedError

    def initial(self) -> State:
        return ()

    def step(self, state: State, op: Operation) -> Sequence[State]:
        assert isinstance(state, tuple)
        self._admit(op)
        objects = dict(state)
        held = objects.get(op.key, self.unwritten)
        after, answer = self.apply(held, op.kind, op.value)
        if op.result is not UNKNOWN and op.result != answer:
            return ()
        if after == held:
            return (state,)
        return (_with(objects, {op.key: after}),)

    def pure(self, op: Operation) -> bool:
        self._admit(op)
        return op.kind in self.PURE

    def touches(self, op: Operation) -> Sequence[str]:
        self._admit(op)
        return (op.key,)

    def removable(self, op: Operation, rest: Iterable[Operation]) -> bool:
        return self.pure(op)

    def _admit(self, op: Operation) -> None:
        if op.kind not in self.KINDS:
            kinds = ", ".join(sorted(self.KINDS))
            raise HistoryError(f"#{op.id}.kind: {op.kind!r} is nothing that {type(self).__name__} does: {kinds}")


def _with(objects: dict[str, Value], changes: dict[str, Value]) -> State:
    return tuple(sorted({**objects, **changes}.items(), key=lambda item: item[0]))


@frozen
class Registers(Keyed):
    """`read` answers what was last written; `write` answers nothing."""

    KINDS = frozenset({"read", "write"})
    PURE = frozenset({"read"})

    def apply(self, held: Value, kind: str, value: Value) -> tuple[Value, Value]:
        return (held, held) if kind == "read" else (value, None)

    def removable(self, op: Operation, rest: Iterable[Operation]) -> bool:
        """A write that no read returned: nothing stands between it and the next write."""
        if self.pure(op):
            return True
        return all(other.kind == "write" or other.result != op.value for other in rest if other.key == op.key)


def _pair(op_kind: str, value: Value) -> tuple[Value, Value]:
    if not isinstance(value, tuple) or len(value) != 2:
        raise HistoryError(f"value of {op_kind}: expected [expected, new], not {value!r}")
    return value[0], value[1]


def _refused(op: Operation) -> bool:
    # Equal to, not the same as: an answer of 0 equals False for `step`, so it must be one here, too.
    return op.result in (False,)


@frozen
class CasRegisters(Registers):
    """And `cas` of (expected, new) answers whether it wrote."""

    KINDS = Registers.KINDS | {"cas"}

    def apply(self, held: Value, kind: str, value: Value) -> tuple[Value, Value]:
        if kind != "cas":
            return Registers.apply(self, held, kind, value)
        expected, new = _pair(kind, value)
        return (new, True) if held == expected else (held, False)

    def pure(self, op: Operation) -> bool:
        return Registers.pure(self, op) or (op.kind == "cas" and _refused(op))

    def removable(self, op: Operation, rest: Iterable[Operation]) -> bool:
        if self.pure(op):
            return True
        wrote = _pair(op.kind, op.value)[1] if op.kind == "cas" else op.value
        return not any(self._may_notice(other, wrote) for other in rest if other.key == op.key)

    def _may_notice(self, other: Operation, value: Value) -> bool:
        if other.kind == "cas":  # a refused one notices every value but the one it expected
            return _refused(other) or _pair(other.kind, other.value)[0] == value
        return other.kind == "read" and other.result in (value, UNKNOWN)


ABORTED = "aborted"
PARTS = frozenset({"read", "write", "cas", "delete", "check"})


@frozen
class Store(CasRegisters):
    """And `delete`, and `multi`: a tuple of (kind, key, value), all of it or, answered `aborted`, nothing.

    `check` is a part that aborts unless its key holds its value; so does a `cas` that would not write.
    """

    KINDS = CasRegisters.KINDS | {"delete", "multi"}

    def apply(self, held: Value, kind: str, value: Value) -> tuple[Value, Value]:
        return (self.unwritten, None) if kind == "delete" else CasRegisters.apply(self, held, kind, value)

    def step(self, state: State, op: Operation) -> Sequence[State]:
        if op.kind != "multi":
            return CasRegisters.step(self, state, op)
        assert isinstance(state, tuple)
        objects = dict(state)
        changes: dict[str, Value] = {}
        answers: list[Value] = []
        for kind, key, value in _parts(op):
            held = changes.get(key, objects.get(key, self.unwritten))
            if kind == "check":
                after, answer = held, held == value
            else:
                after, answer = self.apply(held, kind, value)
            if answer is False and kind in ("check", "cas"):
                return (state,) if op.result in (UNKNOWN, ABORTED) else ()
            changes[key] = after
            answers.append(answer)
        if op.result is not UNKNOWN and op.result != tuple(answers):
            return ()
        if all(objects.get(key, self.unwritten) == value for key, value in changes.items()):
            return (state,)
        return (_with(objects, changes),)

    def pure(self, op: Operation) -> bool:
        if op.kind != "multi":
            return CasRegisters.pure(self, op)
        return op.result == ABORTED or all(kind in ("read", "check") for kind, _, _ in _parts(op))

    def touches(self, op: Operation) -> Sequence[str]:
        if op.kind != "multi":
            return CasRegisters.touches(self, op)
        return tuple(key for _, key, _ in _parts(op))

    def removable(self, op: Operation, rest: Iterable[Operation]) -> bool:
        """Return whether the history stays legal without it. If keys depend on each other, its keys must be its own."""
        if self.pure(op):
            return True
        mine = set(self.touches(op))
        near = [other for other in rest if not mine.isdisjoint(self.touches(other))]
        if op.kind in ("write", "cas") and all(other.kind in CasRegisters.KINDS for other in near):
            return CasRegisters.removable(self, op, near)
        return not near


def _parts(op: Operation) -> list[tuple[str, str, Value]]:
    parts = []
    for place, part in enumerate(op.value if isinstance(op.value, tuple) else ()):
        match part:
            case (str(kind), str(key), value) if kind in PARTS:
                parts.append((kind, key, value))
            case _:
                raise HistoryError(f"#{op.id}.value[{place}]: {part!r} is no [kind, key, value] of a multi")
    if not parts:
        raise HistoryError(f"#{op.id}.value: a multi is a list of [kind, key, value], at least one")
    return parts


@frozen
class Counters(Keyed):
    """`add` of a number answers the sum, `get` answers it, too."""

    unwritten: Value = 0
    KINDS = frozenset({"add", "get"})
    PURE = frozenset({"get"})

    def apply(self, held: Value, kind: str, value: Value) -> tuple[Value, Value]:
        if kind == "get":
            return held, held
        if not isinstance(held, int) or not isinstance(value, int):
            raise HistoryError(f"value of add: {value!r} is no number")
        return held + value, held + value


@frozen
class Queues(Keyed):
    """First in, first out. `take` answers None when nothing is in it; so None is nothing to `put`."""

    unwritten: Value = ()
    KINDS = frozenset({"put", "take"})

    def apply(self, held: Value, kind: str, value: Value) -> tuple[Value, Value]:
        assert isinstance(held, tuple)
        if kind == "put":
            return (*held, value), None
        return (held[1:], held[0]) if held else (held, None)

    def pure(self, op: Operation) -> bool:
        self._admit(op)
        return op.kind == "take" and op.result is None
