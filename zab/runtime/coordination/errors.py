"""What the store may answer instead of doing it, as exceptions: one for each answer that a caller can act upon."""

from __future__ import annotations

from typing import Final

from zab.core.errors import ZabError
from zab.store.errors import ErrorCode


class StoreError(ZabError):
    """The store did not do it. `code` says why, in ZooKeeper's numbers."""

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
    ErrorCode.SESSION_EXPIRED: SessionExpired,
    ErrorCode.SESSION_MOVED: SessionExpired,
}


def error_of(code: int, what: str) -> StoreError:
    return _BY_CODE.get(code, StoreError)(code, what)  # type: ignore[call-overload, no-any-return]
