"""A sequential model of the tree of nodes, with versions, children, sequence numbers and multi.

    create    key path, value (data, mode)        returns the path
    set       key path, value (data, version)     returns the new version
    delete    key path, value version             returns None
    check     key path, value version             returns None; only in a multi
    get       key path                            returns (data, version)
    exists    key path                            returns the version
    data      key path                            returns the data only
    there     key path                            returns true
    children  key path                            returns the names, sorted
    multi     value ((kind, key, value), ...)     returns a result for each part; carried out as a whole or not at all
    close     value (path, ...)                   returns None; deletes the ephemeral nodes of a session

A refused operation returns the name of the error. A refused multi returns one result for each part: None before the
wrong part, and `RUNTIME_INCONSISTENCY` after it.

A node and its parent must be checked together if an operation reads or numbers the parent's children, or creates or
deletes the parent. `Znodes.of` finds these parents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from attrs import frozen

from harness.checkers.linear.history import UNKNOWN, Operation, Value
from harness.checkers.linear.models import State
from harness.json_lines import HistoryError

ROOT: Final = "/"
LATER: Final = "RUNTIME_INCONSISTENCY"
READS: Final = frozenset({"get", "exists", "data", "there", "children"})
WRITES: Final = frozenset({"create", "set", "delete", "check"})
KINDS: Final = READS | WRITES | {"multi", "close"}

Node: TypeAlias = tuple[Value, int, int, bool]
"""The state of a node: (data, version, number of children that it has ever had, ephemeral)."""
Part: TypeAlias = tuple[str, str, Value]
_ROOT: Final[Node] = ("", 0, 0, False)
_ERRORS: Final = frozenset(
    {"NO_NODE", "NODE_EXISTS", "BAD_VERSION", "NOT_EMPTY", "NO_CHILDREN_FOR_EPHEMERALS", "BAD_ARGUMENTS", LATER}
)


def parent_of(path: str) -> str:
    return path[: path.rindex("/")] or ROOT


@frozen
class Znodes:
    tied: frozenset[str] = frozenset()
    """The parents that are checked together with their children."""

    @classmethod
    def of(cls, operations: Iterable[Operation]) -> Znodes:
        come_and_go: set[str] = set()
        looked_at: set[str] = set()
        for op in operations:
            for kind, path, value in parts_of(op):
                if kind in ("create", "delete"):
                    come_and_go.add(path)
                if kind in ("children", "delete"):
                    looked_at.add(path)  # the result of a deletion depends on the children
                if kind == "create" and "sequential" in _mode(op, value):
                    looked_at.add(parent_of(path))
            come_and_go.update(_created(op))
        return cls(frozenset(come_and_go | looked_at))

    def initial(self) -> State:
        return ()

    def step(self, state: State, op: Operation) -> Sequence[State]:
        assert isinstance(state, tuple)
        tree: dict[str, Node] = dict(state)
        answers = self.answers(tree, op)
        if op.result is not UNKNOWN and op.result != answers:
            return ()
        return (tuple(sorted(tree.items(), key=lambda item: item[0])),)

    def answers(self, tree: dict[str, Node], op: Operation) -> Value:
        """Apply the operation to the tree, and return its result."""
        if op.kind == "close":
            for _, path, _ in parts_of(op):
                tree.pop(path, None)
            return None
        if op.kind != "multi":
            return self._do(tree, op, op.kind, op.key, op.value)
        before = dict(tree)
        answers: list[Value] = []
        parts = parts_of(op)
        for kind, path, value in parts:
            answer = self._do(tree, op, kind, path, value)
            if kind in WRITES and answer in _ERRORS:
                tree.clear()
                tree.update(before)
                return (*(None for _ in answers), answer, *(LATER for _ in parts[len(answers) + 1 :]))
            answers.append(answer)
        return tuple(answers)

    def _do(self, tree: dict[str, Node], op: Operation, kind: str, path: str, value: Value) -> Value:
        if kind == "create":
            return self._create(tree, op, path, value)
        node = _node(tree, path)
        if node is None:
            return "NO_NODE"
        data, version, had, ephemeral = node
        match kind:
            case "get":
                return data, version
            case "exists":
                return version
            case "data":
                return data
            case "there":
                return True
            case "children":
                return tuple(sorted(name[len(path.rstrip("/")) + 1 :] for name in tree if _is_child(name, path)))
            case "set":
                new, expected = _pair(op, value)
                if expected not in (-1, version):
                    return "BAD_VERSION"
                tree[path] = new, version + 1, had, ephemeral
                return version + 1
            case _:
                pass
        if value not in (-1, version):
            return "BAD_VERSION"
        if kind == "delete":
            if path == ROOT:
                return "BAD_ARGUMENTS"
            if any(_is_child(name, path) for name in tree):
                return "NOT_EMPTY"
            del tree[path]
        return None

    def _create(self, tree: dict[str, Node], op: Operation, path: str, value: Value) -> Value:
        data, mode = _pair(op, value)
        assert isinstance(mode, str)
        above = parent_of(path)
        parent = _node(tree, above)
        if parent is None:
            return "NO_NODE"
        if "sequential" in mode:
            path = f"{path}{parent[2]:010d}"
        if path in tree or path == ROOT:
            return "NODE_EXISTS"
        if parent[3]:
            return "NO_CHILDREN_FOR_EPHEMERALS"
        if above in self.tied:
            tree[above] = parent[0], parent[1], parent[2] + 1, False
        tree[path] = data, 0, 0, "ephemeral" in mode
        return path

    # -- algebra -----------------------------------------------------------------------------------

    def pure(self, op: Operation) -> bool:
        if op.kind in READS:
            return True
        if op.kind != "multi":
            return op.kind != "close" and op.result in _ERRORS
        if isinstance(op.result, tuple) and any(answer in _ERRORS for answer in op.result):
            return all(kind in WRITES for kind, _, _ in parts_of(op))
        return all(kind in READS or kind == "check" for kind, _, _ in parts_of(op))

    def touches(self, op: Operation) -> Sequence[str]:
        touched: dict[str, None] = {}
        for kind, path, _ in parts_of(op):
            touched[path] = None
            if kind in ("create", "delete") and parent_of(path) in self.tied:
                touched[parent_of(path)] = None
        touched.update(dict.fromkeys(_created(op)))
        return tuple(touched) or (ROOT,)

    def removable(self, op: Operation, rest: Iterable[Operation]) -> bool:
        if self.pure(op):
            return True
        mine = set(self.touches(op))
        return all(mine.isdisjoint(self.touches(other)) for other in rest)


def parts_of(op: Operation) -> list[Part]:
    """Return the single operations of an operation. The end of a session is a list of deletions."""
    if op.kind not in KINDS:
        raise HistoryError(f"#{op.id}.kind: nodes have no operation {op.kind!r}, only {', '.join(sorted(KINDS))}")
    if op.kind == "close":
        return [("delete", str(path), None) for path in _listed(op)]
    if op.kind != "multi":
        return [(op.kind, op.key, op.value)]
    found: list[Part] = []
    for place, part in enumerate(_listed(op)):
        match part:
            case (str(kind), str(path), value) if kind in READS | WRITES:
                found.append((kind, path, value))
            case _:
                raise HistoryError(f"#{op.id}.value[{place}]: expected [kind, path, value], not {part!r}")
    return found


def _listed(op: Operation) -> tuple[Value, ...]:
    if not isinstance(op.value, tuple):
        raise HistoryError(f"#{op.id}.value: expected a list, not {op.value!r}")
    return op.value


def _pair(op: Operation, value: Value) -> tuple[Value, Value]:
    if not isinstance(value, tuple) or len(value) != 2:
        raise HistoryError(f"#{op.id}.value: expected a pair, not {value!r}")
    return value[0], value[1]


def _mode(op: Operation, value: Value) -> str:
    mode = _pair(op, value)[1]
    if not isinstance(mode, str):
        raise HistoryError(f"#{op.id}.value: expected a mode, not {mode!r}")
    return mode


def _created(op: Operation) -> Iterator[str]:
    """Yield the created paths from the results, which alone have the names of sequential nodes."""
    answers = op.result if isinstance(op.result, tuple) else (op.result,)
    for (kind, _, _), answer in zip(parts_of(op), answers, strict=False):
        if kind == "create" and isinstance(answer, str) and answer not in _ERRORS:
            yield answer


def _node(tree: dict[str, Node], path: str) -> Node | None:
    return tree.get(path, _ROOT) if path == ROOT else tree.get(path)


def _is_child(name: str, path: str) -> bool:
    return name != ROOT and parent_of(name) == path
