"""The operations, with ZooKeeper's numbers where it has them, and the fields of those that the store handles.

A client's request is a number and a plain tuple of fields, in the protocol's order:

    CREATE, CREATE2, CREATE_CONTAINER   (path, data, acl, flags)
    CREATE_TTL                          (path, data, acl, flags, ttl)
    DELETE, CHECK                       (path, version)
    SET_DATA                            (path, data, version)
    SET_ACL                             (path, acl, version)
    MULTI, MULTI_READ                   ((op, fields), ...)
    RECONFIG                            (joining, leaving, members, version)
    EXISTS, GET_DATA, GET_CHILDREN,
    GET_CHILDREN2                       (path, watch)
    GET_ACL, GET_ALL_CHILDREN_NUMBER    (path,)
    GET_EPHEMERALS                      (prefix,)
    CHECK_WATCHES, REMOVE_WATCHES       (path, kind)
    ADD_WATCH                           (path, mode)
    SET_WATCHES                         (zxid, data, exist, child)
    SET_WATCHES2                        (zxid, data, exist, child, persistent, recursive)
    WHO_AM_I, CLOSE_SESSION             ()

Only servers send these, to the leader:

    CLOSE_SESSION                       (epoch,), sent by the leader of that epoch when the session has expired there
    DELETE_CONTAINER                    (path,)
    CREATE_SESSION                      (timeout_ms,)
    ATTACH_SESSION                      ()
    SET_SECRET                          (secret,)

`data` is bytes or None, and None differs from empty; `acl` is a tuple of (perms, scheme, id), or None.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, TypeAlias

Fields: TypeAlias = tuple[Any, ...]


class Op(IntEnum):
    NOTIFICATION = 0
    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    SASL = 102
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107

    ERROR = -1
    """Not an operation, but the type of an operation's result if its multi failed.

    The leader turns most failed requests, and every RECONFIG, into a transaction of this type.
    """
    CREATE_SESSION = -10
    CLOSE_SESSION = -11
    ATTACH_SESSION = -12
    """A client has reconnected. From now on its session is attached to the server that sends this."""
    SET_SECRET = -13
    """Set the secret that the passwords of sessions are derived from. Only the first in the history has an effect."""


WRITES: Final = frozenset({
    Op.CREATE, Op.CREATE2, Op.CREATE_CONTAINER, Op.CREATE_TTL, Op.DELETE, Op.SET_DATA, Op.SET_ACL, Op.MULTI,
    Op.RECONFIG, Op.CLOSE_SESSION,
})  # fmt: skip
"""The operations of clients that change the store or the membership."""

INTERNAL: Final = frozenset(
    {Op.DELETE_CONTAINER, Op.CREATE_SESSION, Op.CLOSE_SESSION, Op.ATTACH_SESSION, Op.SET_SECRET}
)
"""Operations that a server sends to the leader on its own behalf. The client port must refuse all but CLOSE_SESSION."""

CREATES: Final = frozenset({Op.CREATE, Op.CREATE2, Op.CREATE_CONTAINER, Op.CREATE_TTL})

MULTI_OPS: Final = CREATES | {Op.DELETE, Op.SET_DATA, Op.CHECK}

READS: Final = frozenset({
    Op.EXISTS, Op.GET_DATA, Op.GET_ACL, Op.GET_CHILDREN, Op.GET_CHILDREN2, Op.MULTI_READ, Op.CHECK_WATCHES,
    Op.REMOVE_WATCHES, Op.SET_WATCHES, Op.SET_WATCHES2, Op.ADD_WATCH, Op.GET_EPHEMERALS, Op.GET_ALL_CHILDREN_NUMBER,
    Op.WHO_AM_I,
})  # fmt: skip
"""Reads, and operations on watches: the client's server answers them without the leader."""


class CreateFlag(IntEnum):
    PERSISTENT = 0
    EPHEMERAL = 1
    PERSISTENT_SEQUENTIAL = 2
    EPHEMERAL_SEQUENTIAL = 3
    CONTAINER = 4
    PERSISTENT_TTL = 5
    PERSISTENT_SEQUENTIAL_TTL = 6


NO_TTL: Final = -1
ANY_VERSION: Final = -1
