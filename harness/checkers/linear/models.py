"""Sequential models of the store, which the checker compares with histories.

A model also states the algebra of its operations: which change nothing, which are independent, and which can be dropped
without making a legal history illegal. The last property makes a small core a proof about the whole history.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar, Protocol, TypeAlias

from attrs import frozen

from harness.checkers.linear.history import UNKNOWN, Operation, Value
from harness.json_lines import HistoryError

State: TypeAlias = Hashable


class Model(Protocol):
    def initial(self) -> State: ...

    def step(self, state: State, op: Operation) -> Sequence[State]:
        """Return the states after `op`; none if its result is impossible. Without a result, every effect is
        possible."""
        ...

    def pure(self, op: Operation) -> bool:
        """Return whether `op` changes no state in which it is legal: a read, or a refused compare-and-set.

        A write of the present value is not pure. Treating it so gives wrong verdicts for one in some hundreds of random
        histories, but for none of the well-known collections.
        """
        ...

    def touches(self, op: Operation) -> Sequence[str]:
        """Return the objects on which the effect or result depends. Objects that no operation touches together are
        checked separately."""
        ...

    def removable(self, op: Operation, rest: Iterable[Operation]) -> bool:
        """Return whether `rest`, the other operations, are legal whenever they are legal together with `op`."""
        ...


@frozen
class Keyed:
    """A family of independent objects by key. The state has the objects that have changed, sorted by key."""

    unwritten: Value = None
    KINDS: ClassVar[frozenset[str]] = frozenset()
    PURE: ClassVar[frozenset[str]] = frozenset()

    def apply(self, held: Value, kind: str, value: Value) -> tuple[Value, Value]:
        """Return the next state of the object, and the result."""
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
            raise HistoryError(f"#{op.id}.kind: {type(self).__name__} has no operation {op.kind!r}, only {kinds}")


def _with(objects: dict[str, Value], changes: dict[str, Value]) -> State:
    return tuple(sorted({**objects, **changes}.items(), key=lambda item: item[0]))


@frozen
class Registers(Keyed):
    """Registers: `read` returns the last written value; `write` returns None."""

    KINDS = frozenset({"read", "write"})
    PURE = frozenset({"read"})

    def apply(self, held: Value, kind: str, value: Value) -> tuple[Value, Value]:
        return (held, held) if kind == "read" else (value, None)

    def removable(self, op: Operation, rest: Iterable[Operation]) -> bool:
        """Return whether this is a read, or a write whose value no read returned."""
        if self.pure(op):
            return True
        return all(other.kind == "write" or other.result != op.value for other in rest if other.key == op.key)


def _pair(op_kind: str, value: Value) -> tuple[Value, Value]:
    if not isinstance(value, tuple) or len(value) != 2:
        raise HistoryError(f"value of {op_kind}: expected [expected, new], not {value!r}")
    return value[0], value[1]


def _refused(op: Operation) -> bool:
    # Compare by equality, as `step` does: a result of 0 equals False.
    return op.result in (False,)


@frozen
class CasRegisters(Registers):
    """Registers with `cas` of (expected, new), which returns True if it wrote."""

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
        if other.kind == "cas":  # a refused cas depends on every value but the expected one
            return _refused(other) or _pair(other.kind, other.value)[0] == value
        return other.kind == "read" and other.result in (value, UNKNOWN)


ABORTED = "aborted"
PARTS = frozenset({"read", "write", "cas", "delete", "check"})


@frozen
class Store(CasRegisters):
    """Registers with `cas`, `delete` and `multi`: a tuple of (kind, key, value) that is carried out as a whole, or
    returns `aborted`.

    The part `check` aborts the multi unless its key has the value. A `cas` that would not write aborts it, too.
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
        """Return whether the history stays legal without `op`. If a multi links keys, no other operation may use its
        keys."""
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
                raise HistoryError(f"#{op.id}.value[{place}]: expected [kind, key, value], not {part!r}")
    if not parts:
        raise HistoryError(f"#{op.id}.value: a multi needs at least one [kind, key, value]")
    return parts


@frozen
class Counters(Keyed):
    """Counters: `add` of a number returns the new sum, `get` the present one."""

    unwritten: Value = 0
    KINDS = frozenset({"add", "get"})
    PURE = frozenset({"get"})

    def apply(self, held: Value, kind: str, value: Value) -> tuple[Value, Value]:
        if kind == "get":
            return held, held
        if not isinstance(held, int) or not isinstance(value, int):
            raise HistoryError(f"value of add: expected an integer, not {value!r}")
        return held + value, held + value


@frozen
class Queues(Keyed):
    """First-in-first-out queues. `take` returns None if the queue is empty, so None must not be `put`."""

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
