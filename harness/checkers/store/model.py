"""A small model of the store for comparison: nodes, their ACLs, and the effect of each kind of change.

It shares no line with `zab.store`, so that no mistake of the store is repeated here, and knows less: no quotas. Its
refusals are those of Apache ZooKeeper 3.9, first check first. Of an ACL that the words of a history cannot express
(`?`) nothing is known, and any answer is right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from attrs import evolve, frozen

from harness.history import Change, Request, Stat

UNKNOWN: Final = "?"
ALL: Final = "rwcda"
REFUSALS: Final = ("NO_AUTH", "INVALID_ACL")
"""The errors that follow from ACLs."""


def _entries(words: str) -> list[tuple[str, str]]:
    found = []
    for entry in words.split(", "):
        who, _, letters = entry.partition(":")
        found.append((who, letters))
    return found


def resolved(words: str, user: str) -> str | None:
    """Return the ACL as the node has it if this user sends it, or None if it is invalid."""
    if not words or words == UNKNOWN:
        return words
    made = []
    for who, letters in dict.fromkeys(_entries(words)):
        if who == "auth":
            if not user:
                return None
            who = user
        made.append(f"{who}:{letters}")
    return "" if made == [f"world:{ALL}"] else ", ".join(made)


def granted(words: str, letters: str, user: str) -> bool:
    """Return whether the list allows one of these permissions to that user."""
    if not words or words == UNKNOWN:
        return True
    return any(
        who in ("world", user) and any(letter in letters for letter in granted) for who, granted in _entries(words)
    )


BY_NODES: Final = ("", "NO_NODE", "NODE_EXISTS", "BAD_VERSION", "NOT_EMPTY", "NO_CHILDREN_FOR_EPHEMERALS")
"""The answers to a write that follow from the tree alone, unlike those about sessions."""
DECIDED: Final = (*BY_NODES, *REFUSALS)
"""And those that follow from ACLs as well."""
LATER: Final = "RUNTIME_INCONSISTENCY"
"""The error of those parts of a refused multi that are behind the wrong one."""
SYSTEM: Final = "/zookeeper"
ROOT: Final = "/"


@frozen
class Node:
    data: bytes | None = b""
    czxid: int = 0
    mzxid: int = 0
    pzxid: int = 0
    version: int = 0
    aversion: int = 0
    created: int = 0
    """The number of children that it ever had: the number of the next sequential one."""
    owner: int = 0
    mode: str = ""
    acl: str = ""
    children: frozenset[str] = frozenset()

    def stat(self) -> Stat:
        count = len(self.children)
        return Stat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            pzxid=self.pzxid,
            version=self.version,
            cversion=2 * self.created - count,  # each child counts when it comes and when it goes
            aversion=self.aversion,
            owner=self.owner,
            length=len(self.data or b""),
            children=count,
        )


EMPTY: Final[dict[str, Node]] = {ROOT: Node(children=frozenset({"zookeeper"})), SYSTEM: Node()}

_WANTED: Final = {"set": "w", "check": "r", "setacl": "a"}
"""The permission that the node itself must grant; for a creation or a deletion its parent decides."""

Lookup = Callable[[str], Node | None]


def parent_of(path: str) -> str:
    """Return the parent; a path without a slash, which a client may send, has the root."""
    return path[: max(path.rfind("/"), 0)] or ROOT


def name_of(path: str) -> str:
    return path[path.rfind("/") + 1 :]


def of_the_system(path: str) -> bool:
    """Return whether servers keep this node themselves. It is not in the model."""
    return path == SYSTEM or path.startswith(SYSTEM + "/")


class Moment:
    """The tree at one instant, and changes to it."""

    def __init__(self, below: Lookup) -> None:
        self._below = below
        self.changed: dict[str, Node | None] = {}

    def get(self, path: str) -> Node | None:
        return self.changed[path] if path in self.changed else self._below(path)

    # -- changes -----------------------------------------------------------------------------------

    def apply(self, change: Change) -> str:
        """Apply the change. Return the mistake in it, or ""."""
        if of_the_system(change.path):
            return ""
        match change.kind:
            case "create":
                return self._create(change)
            case "set":
                return self._set(change)
            case "setacl":
                return self._set_list(change)
            case "delete":
                unasked = self._unasked(change)
                return self._delete(change.path, change.zxid) or unasked
            case "close":
                return next(filter(None, [self._delete(path, change.zxid) for path in change.gone]), "")
            case _:
                return ""

    def _create(self, change: Change) -> str:
        path, zxid = change.path, change.zxid
        above = parent_of(path)
        parent = self.get(above)
        wrong = ""
        if parent is None:
            return f"it creates {path}, and there is no {above}"
        if self.get(path) is not None:
            return f"it creates {path}, which is there already"
        if parent.owner:
            wrong = f"it creates {path} below {above}, which is ephemeral"
        children = parent.children | {name_of(path)}
        self.changed[above] = evolve(parent, children=children, created=parent.created + 1, pzxid=zxid)
        self.changed[path] = Node(change.data, zxid, zxid, zxid, owner=change.owner, mode=change.mode, acl=change.acl)
        return wrong

    def _set(self, change: Change) -> str:
        node = self.get(change.path)
        if node is None:
            return f"it sets {change.path}, which is not there"
        self.changed[change.path] = evolve(node, data=change.data, mzxid=change.zxid, version=change.version)
        if change.version != node.version + 1:
            return f"it makes version {change.version} of {change.path} out of version {node.version}"
        return ""

    def _set_list(self, change: Change) -> str:
        node = self.get(change.path)
        if node is None:
            return f"it changes the list of {change.path}, which is not there"
        self.changed[change.path] = evolve(node, acl=change.acl, aversion=change.version)
        if change.version != node.aversion + 1:
            return f"it makes version {change.version} of the list of {change.path} out of version {node.aversion}"
        return ""

    def _delete(self, path: str, zxid: int) -> str:
        node = self.get(path)
        if node is None:
            return f"it deletes {path}, which is not there"
        above = parent_of(path)
        parent = self.get(above)
        assert parent is not None, f"{path} has no parent"
        self.changed[above] = evolve(parent, children=parent.children - {name_of(path)}, pzxid=zxid)
        self.changed[path] = None
        return f"it deletes {path}, which has children" if node.children else ""

    def _unasked(self, change: Change) -> str:
        """Return the mistake in a deletion by the servers themselves: only containers and TTL nodes may be deleted so.
        It may be another node than the expired one, if that was created anew in between."""
        node = self.get(change.path)
        if change.session or node is None:
            return ""
        return "" if node.mode else f"servers delete {change.path}, which is neither a container nor for a time"

    # -- requests ----------------------------------------------------------------------------------

    def refusal(self, request: Request) -> str:
        """Return the error that this request must get here; "" if it must be carried out."""
        path, version, user = request.path, request.version, request.user
        if resolved(request.acl, user) is None:
            return "INVALID_ACL"
        if request.op == "create":
            return self._refusal_of_create(request)
        if request.op == "delete":
            parent = self.get(parent_of(path))
            if parent is None:
                return "NO_NODE"
            if not granted(parent.acl, "d", user):
                return "NO_AUTH"
        node = self.get(path)
        if node is None:
            return "NO_NODE"
        wanted = _WANTED.get(request.op)
        if wanted is not None and not granted(node.acl, wanted, user):
            return "NO_AUTH"
        if version not in (-1, node.aversion if request.op == "setacl" else node.version):
            return "BAD_VERSION"
        if request.op == "delete" and node.children:
            return "NOT_EMPTY"
        return ""

    def _refusal_of_create(self, request: Request) -> str:
        parent = self.get(parent_of(request.path))
        if parent is None:
            return "NO_NODE"
        if not granted(parent.acl, "c", request.user):
            return "NO_AUTH"
        if self.get(named(request, parent)) is not None:
            return "NODE_EXISTS"
        return "NO_CHILDREN_FOR_EPHEMERALS" if parent.owner else ""

    def refusals(self, requests: Sequence[Request], session: int) -> list[str]:
        """Return the errors that these must get here, carried out in order."""
        for place, request in enumerate(requests):
            error = self.refusal(request)
            if error:
                return ["" for _ in requests[:place]] + [error] + [LATER for _ in requests[place + 1 :]]
            self.apply(self.change_for(request, session))
        return ["" for _ in requests]

    def change_for(self, request: Request, session: int) -> Change:
        """Return the change that the request makes if it is not refused."""
        zxid = 0  # nobody asks a moment for it
        match request.op:
            case "create":
                parent = self.get(parent_of(request.path))
                assert parent is not None
                owner = session if "ephemeral" in request.mode else 0
                acl = resolved(request.acl, request.user)
                assert acl is not None
                path = named(request, parent)
                return Change(zxid, session, "create", path, request.data, owner=owner, acl=acl)
            case "set":
                node = self.get(request.path)
                assert node is not None
                return Change(zxid, session, "set", request.path, request.data, node.version + 1)
            case "setacl":
                node = self.get(request.path)
                acl = resolved(request.acl, request.user)
                assert node is not None
                assert acl is not None
                return Change(zxid, session, "setacl", request.path, version=node.aversion + 1, acl=acl)
            case "delete":
                return Change(zxid, session, "delete", request.path)
            case _:
                return Change(zxid, session, "other", request.path)


def named(request: Request, parent: Node) -> str:
    return f"{request.path}{parent.created:010d}" if "sequential" in request.mode else request.path
