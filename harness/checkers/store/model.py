"""A small model of the store for comparison: nodes, their ACLs, and the effect of each kind of change.

The model shares no code with `zab.store`, so that it does not repeat mistakes of the store. It has no quotas. It
refuses requests in the order of checks of Apache ZooKeeper 3.9. An ACL that the words of a history cannot express (`?`)
is unknown, and the model accepts any reply that depends on it.
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
        name, _, letters = entry.partition(":")
        found.append((name, letters))
    return found


def resolved(words: str, user: str) -> str | None:
    """Return the ACL that a node gets from a request of this user, or None if the ACL is invalid."""
    if not words or words == UNKNOWN:
        return words
    made = []
    for name, letters in dict.fromkeys(_entries(words)):
        if name == "auth":
            if not user:
                return None
            name = user
        made.append(f"{name}:{letters}")
    return "" if made == [f"world:{ALL}"] else ", ".join(made)


def granted(words: str, letters: str, user: str) -> bool:
    """Return whether the ACL gives one of these permissions to that user."""
    if not words or words == UNKNOWN:
        return True
    return any(
        name in ("world", user) and any(letter in letters for letter in granted) for name, granted in _entries(words)
    )


BY_NODES: Final = ("", "NO_NODE", "NODE_EXISTS", "BAD_VERSION", "NOT_EMPTY", "NO_CHILDREN_FOR_EPHEMERALS")
"""The results of a write that follow from the tree alone, unlike those about sessions."""
DECIDED: Final = (*BY_NODES, *REFUSALS)
"""The results of a write that follow from the tree and its ACLs."""
LATER: Final = "RUNTIME_INCONSISTENCY"
"""The error of the parts of a refused multi after the wrong part."""
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
    """The number of children that the node has ever had, which is the number of the next sequential child."""
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
"""The permission that each operation needs on the node. A creation or deletion needs one on the parent instead."""

Lookup = Callable[[str], Node | None]


def parent_of(path: str) -> str:
    """Return the parent; a path without a slash, which a client may send, has the root."""
    return path[: max(path.rfind("/"), 0)] or ROOT


def name_of(path: str) -> str:
    return path[path.rfind("/") + 1 :]


def of_the_system(path: str) -> bool:
    """Return whether the servers manage this node. The model does not contain such nodes."""
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
                return self._set_acl(change)
            case "delete":
                unrequested = self._unrequested(change)
                return self._delete(change.path, change.zxid) or unrequested
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
            return f"it creates {path}, but {above} does not exist"
        if self.get(path) is not None:
            return f"it creates {path}, which exists already"
        if parent.owner:
            wrong = f"it creates {path} below {above}, which is ephemeral"
        children = parent.children | {name_of(path)}
        self.changed[above] = evolve(parent, children=children, created=parent.created + 1, pzxid=zxid)
        self.changed[path] = Node(change.data, zxid, zxid, zxid, owner=change.owner, mode=change.mode, acl=change.acl)
        return wrong

    def _set(self, change: Change) -> str:
        node = self.get(change.path)
        if node is None:
            return f"it sets {change.path}, which does not exist"
        self.changed[change.path] = evolve(node, data=change.data, mzxid=change.zxid, version=change.version)
        if change.version != node.version + 1:
            return f"it sets {change.path} to version {change.version} after version {node.version}"
        return ""

    def _set_acl(self, change: Change) -> str:
        node = self.get(change.path)
        if node is None:
            return f"it sets the ACL of {change.path}, which does not exist"
        self.changed[change.path] = evolve(node, acl=change.acl, aversion=change.version)
        if change.version != node.aversion + 1:
            return f"it sets the ACL of {change.path} to version {change.version} after version {node.aversion}"
        return ""

    def _delete(self, path: str, zxid: int) -> str:
        node = self.get(path)
        if node is None:
            return f"it deletes {path}, which does not exist"
        above = parent_of(path)
        parent = self.get(above)
        assert parent is not None, f"{path} has no parent"
        self.changed[above] = evolve(parent, children=parent.children - {name_of(path)}, pzxid=zxid)
        self.changed[path] = None
        return f"it deletes {path}, which has children" if node.children else ""

    def _unrequested(self, change: Change) -> str:
        """Return the mistake in a deletion by the servers themselves, or "". They may delete only containers and TTL
        nodes. The node need not be the one that expired: a client may have created it again in between."""
        node = self.get(change.path)
        if change.session or node is None:
            return ""
        return "" if node.mode else f"servers delete {change.path}, which is neither a container nor a TTL node"

    # -- requests ----------------------------------------------------------------------------------

    def refusal(self, request: Request) -> str:
        """Return the error that this request must get in this state; "" if it must be carried out."""
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
        """Return the error that each part of a multi must get in this state. Apply the parts to the state."""
        for place, request in enumerate(requests):
            error = self.refusal(request)
            if error:
                return ["" for _ in requests[:place]] + [error] + [LATER for _ in requests[place + 1 :]]
            self.apply(self.change_for(request, session))
        return ["" for _ in requests]

    def change_for(self, request: Request, session: int) -> Change:
        """Return the change that the request makes if it is not refused."""
        zxid = 0  # a Moment has no zxid of its own
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
