"""The ACLs of the store's nodes in a protected cluster (`zookeeper.set.acl=true`).

The brokers' identity may do everything; other identities may read all but the sensitive nodes.
"""

from __future__ import annotations

from typing import Final

import zab
from zab.store.acl import Acl

SENSITIVE: Final = ("/config/users", "/config/brokers", "/delegation_token", "/cluster/sasl_secret")
"""Subtrees that only the brokers may read."""
BROKERS_ONLY: Final = zab.CREATOR_ACL
READABLE: Final = (*zab.CREATOR_ACL, *zab.READ_ONLY_ACL)


def acl_of(path: str) -> Acl:
    return BROKERS_ONLY if any(path == one or path.startswith(f"{one}/") for one in SENSITIVE) else READABLE
