"""Kafka's access control lists: the operations of a principal, from a host, on resources.

An `Acl` is one entry for one pattern of resources. Enum numbers are those of the protocol. The store has enum names
instead: see `replica.wire.acl_nodes`.
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
"""The name of the only resource of type CLUSTER."""


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
    """Return an enum name in the form of tools and the store: `TransactionalId` for `TRANSACTIONAL_ID`."""
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
"""The operations that apply to each resource type. `check_acl` accepts ACLs with other operations, too."""


@frozen(order=True)
class Pattern:
    """Resources by name. The literal name `*` matches every name; a prefix matches all names that begin with it."""

    resource: ResourceType
    name: str
    kind: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        return f"{title(self.resource)}:{self.kind.name}:{self.name}"

    def matches(self, name: str) -> bool:
        if self.kind is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, ANY_NAME)


@frozen(order=True)
class Entry:
    """An entry that allows or denies an operation. `host`: an address, or `*`."""

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
    """An invalid ACL. The message names the reason."""


def check_acl(acl: Acl) -> None:
    """Raise `BadAcl` if the ACL is invalid."""
    pattern, entry = acl.pattern, acl.entry
    if pattern.resource not in OPERATIONS:
        raise BadAcl(f"an ACL needs a resource type, not {pattern.resource.name}")
    if pattern.kind not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise BadAcl(f"an ACL needs the pattern type LITERAL or PREFIXED, not {pattern.kind.name}")
    if entry.operation in (Operation.UNKNOWN, Operation.ANY):
        raise BadAcl(f"an ACL needs an operation or ALL, not {entry.operation.name}")
    if entry.permission not in (Permission.ALLOW, Permission.DENY):
        raise BadAcl(f"an ACL needs the permission ALLOW or DENY, not {entry.permission.name}")
    if not pattern.name:
        raise BadAcl("the resource name is empty")
    if "/" in pattern.name or pattern.name in (".", ".."):
        raise BadAcl(f"the resource name {pattern.name!r} is not a valid node name in the store")
    if pattern.resource is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        raise BadAcl(f"the only cluster resource is {CLUSTER_NAME}, not {pattern.name}")
    check_principal(entry.principal)
    if not entry.host:
        raise BadAcl(f"the host is empty: use an address, or {ANY_HOST} for any")


def check_principal(text: str) -> None:
    kind, colon, name = text.partition(":")
    if not kind or not colon or not name:
        raise BadAcl(f"{text!r} is not a principal: use the form User:ann")


@frozen
class Filter:
    """Selects ACLs. None and ANY match all values. MATCH selects literal and prefixed patterns that match `name`."""

    resource: ResourceType = ResourceType.ANY
    name: str | None = None
    kind: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def __contains__(self, acl: Acl) -> bool:
        return self._matches_pattern(acl.pattern) and self._matches_entry(acl.entry)

    def _matches_pattern(self, pattern: Pattern) -> bool:
        if self.resource not in (ResourceType.ANY, pattern.resource):
            return False
        if self.kind not in (PatternType.ANY, PatternType.MATCH, pattern.kind):
            return False
        if self.name is None:
            return True
        return pattern.matches(self.name) if self.kind is PatternType.MATCH else pattern.name == self.name

    def _matches_entry(self, entry: Entry) -> bool:
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )


@lru_cache(4096)
def same_host(text: str) -> str:
    """Return the canonical form of an IP address, without a zone; an IPv4-mapped IPv6 address becomes an IPv4 address.

    Other texts are unchanged.
    """
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return text
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
