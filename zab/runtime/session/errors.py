"""What the store may answer instead of doing it, as exceptions: one for each answer that a caller can act upon."""

from __future__ import annotations

from typing import Final

from zab.core.errors import NewConfigNoQuorum, ReconfigInProgress, ZabError
from zab.store.errors import ErrorCode


class StoreError(ZabError):
    """The store did not do it. `code` says why, in ZooKeeper's numbers; `index`, which part of a multi it was."""

    index: int | None = None

    def __init__(self, code: int, what: str) -> None:
        try:
            name = ErrorCode(code).name
        except ValueError:
            name = f"error {code}"
        super().__init__(f"{what}: {name.lower().replace('_', ' ')}")
        self.code = code


class NoNode(StoreError):
    """There is no node at this path, or no parent for it."""


class NodeExists(StoreError):
    """There is a node at this path already."""


class NotEmpty(StoreError):
    """The node has children, and only one without can be deleted."""


class BadVersion(StoreError):
    """The node was changed since the caller looked: look again, and decide again."""


class NoAuth(StoreError):
    """The node's list of permissions does not grant this to who asks."""


class InvalidAcl(StoreError):
    """A list of permissions that makes no sense, or that names nobody."""


class NoChildrenForEphemerals(StoreError):
    """A node that goes with its session cannot have children, who would stay."""


class QuotaExceeded(StoreError):
    """The subtree has a quota, and this would be beyond it."""


class NotReadOnly(StoreError):
    """The server that this session is connected to can only be read from. Wait for the state CONNECTED."""


class EphemeralOnLocalSession(StoreError):
    """The session is known to one server only, and such a session cannot own nodes."""


class NoWatcher(StoreError):
    """There is no such watch."""


class BadArguments(StoreError):
    """A path, a version or a flag that cannot be."""


class Unimplemented(StoreError):
    """The server does not know the operation, or is configured not to."""


class ReconfigDisabled(StoreError):
    """The ensemble is configured not to let clients change who takes part."""


class MembershipChanging(StoreError, ReconfigInProgress):
    """Another change of membership is under way."""


class MembershipWithoutQuorum(StoreError, NewConfigNoQuorum):
    """Too few servers of the new membership are there and up to date."""


class Throttled(StoreError):
    """The request waited for too long in a busy server, and was not carried out. Try again, later."""


class AuthFailed(StoreError):
    """The server does not believe who this is. The session is over: the credentials must be right first."""


class SessionExpired(StoreError):
    """The session is over, and its ephemeral nodes are gone."""


class EventsLost(ZabError):
    """A watch's events were not looked at for so long that they were dropped. Look at the nodes, and watch anew."""


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


def error_of(code: int, what: str) -> StoreError:
    return _BY_CODE.get(code, StoreError)(code, what)  # type: ignore[call-overload, no-any-return]
