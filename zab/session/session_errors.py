"""The store's errors as exceptions: one class for each error that a caller can handle."""

from __future__ import annotations

from typing import Final

from zab.core.errors import LocalProtocolError, NewConfigNoQuorum, ReconfigInProgress, ZabError, present_as
from zab.store.error_codes import ErrorCode
from zab.store.operations import CREATES, READS, CreateFlag, Fields, Op
from zab.store.paths import ROOT, parent_of, why_invalid


class StoreError(ZabError):
    """The store refused the operation.

    code   the reason, in ZooKeeper's numbers
    path   the node that the failed request or operation names; None if it names no node, or if the store did not
           answer, because an argument was invalid or the session was over
    index  the number of the failed operation in its multi, from 0; None if no single operation of a multi failed
    """

    path: str | None = None
    index: int | None = None

    def __init__(self, code: int, what: str, more: str = "") -> None:
        try:
            name = ErrorCode(code).name
        except ValueError:
            name = f"error {code}"
        super().__init__(f"{what}: {name.lower().replace('_', ' ')}{more and f' ({more})'}")
        self.code = code


class NoNode(StoreError):
    """The node does not exist, or the parent of a node to be created does not."""


class NodeExists(StoreError):
    """The node to be created exists already."""


class NotEmpty(StoreError):
    """The node has children, so it cannot be deleted."""


class BadVersion(StoreError):
    """The node or the membership is not at the expected version. Read it again, and decide again."""


class NoAuth(StoreError):
    """No identity of the session has the permission in the node's ACL or, for a create or delete, in the parent's."""


class InvalidAcl(StoreError):
    """The ACL is invalid, or it has the entry `auth` and the session has no authenticated identity."""


class NoChildrenForEphemerals(StoreError):
    """The parent of the node to be created is ephemeral: its children would outlive it."""


class QuotaExceeded(StoreError):
    """The operation would exceed the quota of a subtree, or a limit of the server."""


class NotReadOnly(StoreError):
    """The server that this session is connected to is in read-only mode. Wait for the state CONNECTED."""


class EphemeralOnLocalSession(StoreError):
    """A local session, which only one server knows, cannot own ephemeral nodes."""


class NoWatcher(StoreError):
    """The session has no such watch."""


class BadArguments(StoreError):
    """A path, a version, a flag or another argument is invalid."""


class Unimplemented(StoreError):
    """The server does not support the operation, or its configuration disables it."""


class ReconfigDisabled(StoreError):
    """The configuration of the ensemble does not let clients change the membership."""


class Throttled(StoreError):
    """The request waited too long in a busy server, or would set a quota too soon after another was set.

    It was not carried out. Try again later, at a lower rate.
    """


class AuthFailed(StoreError):
    """The server rejected the credentials, or requires some. The session is over: correct the credentials first."""


class SessionExpired(StoreError):
    """The session is over for this client. For the servers it may continue, for example with another client.

    The servers delete its ephemeral nodes when they end it.
    """


class SessionClosed(SessionExpired, LocalProtocolError):
    """The block of this session has ended, and the session is still in use: a bug of the caller."""

    def __init__(self, why: str) -> None:
        super().__init__(ErrorCode.SESSION_EXPIRED, why)
        self.args = (f"{why}: use a session only inside its block",)


SHOWN_MAX: Final = 200
"""The maximum number of characters of a path that a message quotes."""
LEFT: Final = "the block of this session has ended"
"""The reason in the errors of calls after the end of the session's block."""


class EventsLost(ZabError):
    """Events of a watch were dropped, because too many were unread. Read the nodes, and watch them again."""


present_as("zab", globals())


class MembershipChanging(StoreError, ReconfigInProgress):
    """Another change of membership is under way."""


class MembershipWithoutQuorum(StoreError, NewConfigNoQuorum):
    """The new membership has no quorum of servers that are connected and up to date."""


_VERSION_AT: Final[dict[int, int]] = {Op.SET_DATA: 2, Op.DELETE: 1, Op.SET_ACL: 2, Op.CHECK: 1}
"""The index of the expected version among a request's fields."""

_BY_CODE: Final = {
    ErrorCode.NO_NODE: NoNode,
    ErrorCode.NODE_EXISTS: NodeExists,
    ErrorCode.NOT_EMPTY: NotEmpty,
    ErrorCode.BAD_VERSION: BadVersion,
    ErrorCode.NO_AUTH: NoAuth,
    ErrorCode.INVALID_ACL: InvalidAcl,
    ErrorCode.NO_CHILDREN_FOR_EPHEMERALS: NoChildrenForEphemerals,
    ErrorCode.QUOTA_EXCEEDED: QuotaExceeded,
    ErrorCode.NOT_READ_ONLY: NotReadOnly,
    ErrorCode.EPHEMERAL_ON_LOCAL_SESSION: EphemeralOnLocalSession,
    ErrorCode.NO_WATCHER: NoWatcher,
    ErrorCode.BAD_ARGUMENTS: BadArguments,
    ErrorCode.UNIMPLEMENTED: Unimplemented,
    ErrorCode.RECONFIG_DISABLED: ReconfigDisabled,
    ErrorCode.RECONFIG_IN_PROGRESS: MembershipChanging,
    ErrorCode.NEW_CONFIG_NO_QUORUM: MembershipWithoutQuorum,
    ErrorCode.THROTTLED_OP: Throttled,
    ErrorCode.AUTH_FAILED: AuthFailed,
    ErrorCode.SESSION_CLOSED_REQUIRES_SASL_AUTH: AuthFailed,
    ErrorCode.SESSION_EXPIRED: SessionExpired,
    ErrorCode.SESSION_MOVED: SessionExpired,
}

_EPHEMERAL: Final = (CreateFlag.EPHEMERAL, CreateFlag.EPHEMERAL_SEQUENTIAL)


def error_of(code: int, what: str, more: str = "") -> StoreError:
    return _BY_CODE.get(code, StoreError)(code, what, more)  # type: ignore[call-overload, no-any-return]


def refused(code: int, op: int, fields: Fields, what: str, *, index: int | None = None) -> StoreError:
    """Return the exception for an error code of the store. Its text names the node and, where known, the cause."""
    path = what if what.startswith(ROOT) else None
    shown = what if path is None else as_shown(path)
    if code == ErrorCode.NO_NODE and path is not None and _why_invalid(op, fields, path):
        code = ErrorCode.BAD_ARGUMENTS  # the store looks up the node or its parent before it checks the path
    part = "" if index is None else f"operation {index} of a multi, {Op(op).name.lower().replace('_', ' ')} "
    error = error_of(code, part + shown, _more_of_several(code, op) if path is None else _more(code, op, fields, path))
    error.path, error.index = path, index
    return error


def _more_of_several(code: int, op: int) -> str:
    if code == ErrorCode.MARSHALLING_ERROR and op == Op.MULTI_READ:
        return "the reply would be too large, or the request is malformed: read less at once"
    if code == ErrorCode.BAD_ARGUMENTS and op == Op.MULTI:
        return "probably too many operations: see StoreSettings.multi_ops_max (in zoo.cfg maxMultiOps)"
    return ""


def named(op: int, what: str) -> str:
    """Return a name for the request: the operation, and its node if it names one."""
    name = Op(op).name.lower()
    return name if name == what else f"{name} {as_shown(what)}"


def as_shown(path: str) -> str:
    """Escape and shorten a path for messages: a path chosen by a client must not forge lines of a log, or flood it."""
    if len(path) > SHOWN_MAX:
        return f"{as_shown(path[:SHOWN_MAX])}... ({len(path)} characters)"
    return path if path.isprintable() else repr(path)


def _why_invalid(op: int, fields: Fields, path: str) -> str:
    numbered = op in CREATES and fields[3] & CreateFlag.PERSISTENT_SEQUENTIAL
    return why_invalid(f"{path}0" if numbered else path)


def _more(code: int, op: int, fields: Fields, path: str) -> str:
    """Return the probable cause of an error, as far as the request shows it, or the setting to change.

    The protocol sends a code alone, and one code has several causes. An invalid path is tested first: ZooKeeper reports
    it as a missing node or as bad arguments. The other causes follow from the operation and its arguments.
    """
    if code in (ErrorCode.NO_NODE, ErrorCode.BAD_ARGUMENTS) and (why := _why_invalid(op, fields, path)):
        return why
    if code == ErrorCode.QUOTA_EXCEEDED and op in READS:
        return (
            "too many watches: see ClientPortSettings.watches_per_client_max and watches_max "
            "(in zoo.cfg maxWatchesPerClient and maxWatches)"
        )
    if code == ErrorCode.QUOTA_EXCEEDED and op in CREATES and fields[3] in _EPHEMERAL:
        return (
            "a quota of the subtree is reached, or the limit on the paths of the session's ephemeral nodes "
            "(StoreSettings.ephemeral_bytes_max, in zoo.cfg maxEphemeralBytes)"
        )
    if code == ErrorCode.NO_NODE and op in CREATES:
        return f"its parent {as_shown(parent_of(path))} is missing"
    if code == ErrorCode.BAD_VERSION and op in _VERSION_AT:
        return f"its {'aversion' if op == Op.SET_ACL else 'version'} is not {fields[_VERSION_AT[op]]}"
    if code == ErrorCode.UNIMPLEMENTED and op == Op.CREATE_TTL:
        return "TTLs are disabled: set StoreSettings(extended_types=True), or zookeeper.extendedTypesEnabled=true"
    return ""
