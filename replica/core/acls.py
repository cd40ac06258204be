"""Access control lists, as Kafka has them: who may do what to which resource, from where.

An `Acl` is a pattern of resources and an entry for it. Numbers are those of the protocol, names those in the store.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from attrs import frozen

ANY_HOST: Final = "*"
ANY_NAME: Final = "*"
ANY_USER: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""There is one cluster, and it is called so."""


class ResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


def title(one: IntEnum) -> str:
    """`TRANSACTIONAL_ID` is `TransactionalId`: as people and the store write it."""
    return "".join(word.capitalize() for word in one.name.split("_"))


OPERATIONS: Final = {
    ResourceType.TOPIC: (
        Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE),
    ResourceType.CLUSTER: (
        Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION, Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}  # fmt: skip
"""What can be done with a resource."""


@frozen(order=True)
class Pattern:
    """The literal name `*` fits every name; a prefix every name that begins with it."""

    resource: ResourceType
    name: str
    kind: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        return f"{title(self.resource)}:{self.kind.name}:{self.name}"

    def fits(self, name: str) -> bool:
        if self.kind is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, ANY_NAME)


@frozen(order=True)
class Entry:
    """host   an address, or `*`"""

    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        allowed = "may" if self.permission is Permission.ALLOW else "may not"
        return f"{self.principal} {allowed} {title(self.operation)} from {self.host}"


@frozen(order=True)
class Acl:
    pattern: Pattern
    entry: Entry


class BadAcl(ValueError):
    """An ACL that cannot be. The text says why."""


def check_acl(acl: Acl) -> None:
    """`BadAcl` where nobody could know what it means."""
    pattern, entry = acl.pattern, acl.entry
    if pattern.resource not in OPERATIONS:
        raise BadAcl(f"an ACL is for a kind of resource, not {pattern.resource.name}")
    if pattern.kind not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise BadAcl(f"an ACL is for a LITERAL name or PREFIXED names, not {pattern.kind.name}")
    if entry.operation in (Operation.UNKNOWN, Operation.ANY):
        raise BadAcl(f"an ACL is for an operation or ALL, not {entry.operation.name}")
    if entry.permission not in (Permission.ALLOW, Permission.DENY):
        raise BadAcl(f"an ACL is to ALLOW or to DENY, not {entry.permission.name}")
    if not pattern.name:
        raise BadAcl("the name of a resource is not empty")
    if "/" in pattern.name or pattern.name in (".", ".."):
        raise BadAcl(f"{pattern.name!r}: an ACL cannot be kept for such a name")
    if pattern.resource is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        raise BadAcl(f"the cluster is called {CLUSTER_NAME}, not {pattern.name}")
    check_principal(entry.principal)
    if not entry.host:
        raise BadAcl(f"the host is an address, or {ANY_HOST} for any")


def check_principal(text: str) -> None:
    kind, colon, name = text.partition(":")
    if not kind or not colon or not name:
        raise BadAcl(f"{text!r} is nobody: it looks like User:ann")


@frozen
class Filter:
    """None, and ANY: whatever it is. With MATCH the name is a resource's, and whatever fits it is meant."""

    resource: ResourceType = ResourceType.ANY
    name: str | None = None
    kind: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def __contains__(self, acl: Acl) -> bool:
        return self._fits_pattern(acl.pattern) and self._fits_entry(acl.entry)

    def _fits_pattern(self, pattern: Pattern) -> bool:
        if self.resource not in (ResourceType.ANY, pattern.resource):
            return False
        if self.kind not in (PatternType.ANY, PatternType.MATCH, pattern.kind):
            return False
        if self.name is None:
            return True
        return pattern.fits(self.name) if self.kind is PatternType.MATCH else pattern.name == self.name

    def _fits_entry(self, entry: Entry) -> bool:
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )


@lru_cache(4096)
def same_host(text: str) -> str:
    """One address can be written in many ways."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return text
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
