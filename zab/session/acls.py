"""The permissions of ACLs, ready-made ACLs, and a function that makes the ACL of a user."""

from __future__ import annotations

from enum import IntFlag
from typing import Final

from zab.store import acl
from zab.store.acl import Acl, digest_id


class Permission(IntFlag):
    """The permissions of an ACL entry. `CREATE` and `DELETE` are about the node's children, `ADMIN` about its ACL."""

    READ = acl.READ
    WRITE = acl.WRITE
    CREATE = acl.CREATE
    DELETE = acl.DELETE
    ADMIN = acl.ADMIN
    ALL = acl.ALL


OPEN_ACL: Final[Acl] = acl.OPEN
"""All permissions for every client: the default ACL of a node."""

READ_ONLY_ACL: Final[Acl] = acl.READ_ONLY
"""Read permission for every client, and no other permission."""

CREATOR_ACL: Final[Acl] = ((acl.ALL, "auth", ""),)
"""All permissions for the authenticated identities of the session that creates the node.

The address of a client is not authenticated. A session without an authenticated identity gets `InvalidAcl`.
"""


def digest_acl(user: str, password: str, permissions: int = Permission.ALL) -> Acl:
    """Return an ACL that grants permissions to the user with these credentials. It holds the digest, not the password.

    The digest is SHA-1, the default of servers; it does not match at servers with another digest algorithm.
    """
    return ((int(permissions), "digest", digest_id(f"{user}:{password}".encode())),)
