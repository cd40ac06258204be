"""Shrunk scripts that once showed a difference. They must show none now."""

from __future__ import annotations

from typing import Final

from tests.differential.script import Ask, Connect, Script
from zab.store.acl import OPEN
from zab.store.operations import Op

FOUND: Final[dict[str, Script]] = {
    "the kept nodes have data, and the configuration's ACL a version": (),
    "a mode of watching that is none": (Connect(3), Ask(3, Op.ADD_WATCH, ("/c/c", 2))),
    "a kind of watch that is none": (Connect(2), Ask(2, Op.CHECK_WATCHES, ("/b/b", 6))),
    "a container's flags": (
        Connect(2),
        Ask(2, Op.CREATE_CONTAINER, ("/c/s-0000000000/s-", b"hello", OPEN, 0)),
        Ask(2, Op.CREATE_CONTAINER, ("/s-", b"", OPEN, 2)),
        Ask(2, Op.CREATE, ("/c", b"", OPEN, 4)),
    ),
    "the zxid of an operation that is none": (Connect(3), Ask(3, Op.NOTIFICATION, b"whatever")),
    "two slashes in front": (Connect(2), Ask(2, Op.CREATE2, ("//", b"hello", OPEN, 3))),
    "the flags of a multi's creates": (
        Connect(2),
        Ask(2, Op.MULTI, ((Op.CREATE, ("/c", b"", OPEN, 7)),)),
        Ask(2, Op.MULTI, ((Op.CREATE_TTL, ("/c", b"", OPEN, 0, 5)), (Op.CREATE2, ("/d", b"", OPEN, 4)))),
        Ask(2, Op.MULTI, ((Op.CREATE_TTL, ("/e", b"", OPEN, 4, 5)), (Op.CREATE_TTL, ("/f", b"", OPEN, 7, 5)))),
    ),
    "a multi's create without an ACL": (
        Connect(3),
        Ask(3, Op.MULTI, ((Op.CREATE, ("/a/b", b"\x00\xff", None, 2)),)),
        Ask(3, Op.CREATE, ("/a/b", b"\x00\xff", None, 2)),
    ),
    "reads of a multi leave no watches": (
        Connect(1),
        Ask(1, Op.MULTI_READ, ((Op.GET_CHILDREN, ("/zookeeper", True)), (Op.GET_DATA, ("/zookeeper", True)))),
        Ask(1, Op.CREATE2, ("/zookeeper/nope", b"hello", OPEN, 1)),
        Ask(1, Op.SET_DATA, ("/zookeeper", b"x", -1)),
    ),
    "colons at the end of an id": (
        Connect(3),
        Ask(3, Op.CREATE, ("/c", None, ((31, "digest", ":"),), 2)),
        Ask(3, Op.CREATE, ("/c", None, ((31, "digest", "a:b:"),), 2)),
        Ask(3, Op.CREATE, ("/c", None, ((31, "digest", ":a"),), 2)),
    ),
    "no credentials": (Connect(3), Ask(3, Op.AUTH, (0, "digest", None))),
}
