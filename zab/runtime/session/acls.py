"""Lists of permissions, with names: who may do what with a node."""

from __future__ import annotations

from enum import IntFlag
from typing import Final

from zab.store import acl
from zab.store.acl import Acl, digest_id


class Permission(IntFlag):
    """`CREATE` and `DELETE` are about the node's children; `ADMIN` is to change the list itself."""

    READ = acl.READ
    WRITE = acl.WRITE
    CREATE = acl.CREATE
    DELETE = acl.DELETE
    ADMIN = acl.ADMIN
    ALL = acl.ALL


OPEN_ACL: Final[Acl] = acl.OPEN
"""Anybody may do anything. What a node has if nothing else is said."""

READ_ONLY_ACL: Final[Acl] = acl.READ_ONLY
"""Anybody may read it, and nobody change it."""

CREATOR_ACL: Final[Acl] = ((acl.ALL, "auth", ""),)
"""Everything, for whomever the session that makes the node has proved to be."""


def digest_acl(user: str, password: str, permissions: int = Permission.ALL) -> Acl:
    """For whoever shows `user:password`; only a digest of it stands in the list."""
    return ((int(permissions), "digest", digest_id(f"{user}:{password}".encode())),)
