"""For whose eyes the nodes of a closed cluster are (`zookeeper.set.acl=true`): who made them may do all with them,
others may see most of them."""

from __future__ import annotations

from typing import Final

import zab
from zab.store.acl import Acl

SENSITIVE: Final = ("/config/users", "/config/brokers", "/delegation_token", "/cluster/sasl_secret")
"""Nobody else is even to read them."""
ITS_OWN: Final = zab.CREATOR_ACL
TO_BE_READ: Final = (*zab.CREATOR_ACL, *zab.READ_ONLY_ACL)


def acl_of(path: str) -> Acl:
    return ITS_OWN if any(path == one or path.startswith(f"{one}/") for one in SENSITIVE) else TO_BE_READ
