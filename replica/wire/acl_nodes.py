"""The nodes of ACLs in the store, in the exact format of Kafka's authorizer.

/kafka-acl/Topic/orders                       ACLs of the topic `orders`; the name `*` stands for all topics
/kafka-acl-extended/prefixed/Topic/ord        ACLs of all topics whose names begin with `ord`
/kafka-acl-changes/acl_changes_0000000007     a changed pattern: TOPIC:orders
/kafka-acl-extended-changes/acl_changes_...   a changed prefix pattern, as a JSON object
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from kraft_controller.wire.znodes import DamagedNode
from replica.core.security.acls import Entry, Operation, Pattern, PatternType, Permission, ResourceType, title

STORED: Final = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.DELEGATION_TOKEN,
    ResourceType.USER,
)
ROOTS: Final = {PatternType.LITERAL: "/kafka-acl", PatternType.PREFIXED: "/kafka-acl-extended/prefixed"}
CHANGES: Final = {PatternType.LITERAL: "/kafka-acl-changes", PatternType.PREFIXED: "/kafka-acl-extended-changes"}
CHANGE: Final = "acl_changes_"

_OPERATIONS: Final = {title(each): each for each in Operation}
_PERMISSIONS: Final = {"Allow": Permission.ALLOW, "Deny": Permission.DENY}
_RESOURCES: Final = {each.name.replace("_", ""): each for each in STORED}


def folder(resource: ResourceType, kind: PatternType) -> str:
    return f"{ROOTS[kind]}/{title(resource)}"


def path(pattern: Pattern) -> str:
    return f"{folder(pattern.resource, pattern.kind)}/{pattern.name}"


def entries(which: Iterable[Entry]) -> bytes:
    listed = [
        {
            "principal": entry.principal,
            "permissionType": title(entry.permission),
            "operation": title(entry.operation),
            "host": entry.host,
        }
        for entry in sorted(which)
    ]
    return _dump({"version": 1, "acls": listed})


def read_entries(where: str, data: bytes | None) -> frozenset[Entry]:
    """Parse a list of ACLs. Raises `DamagedNode` if any is invalid, since a skipped one could be a DENY."""
    if not data:
        return frozenset()
    value = _object(where, data)
    try:
        return frozenset(
            Entry(
                str(each["principal"]),
                str(each["host"]),
                _OPERATIONS[each["operation"]],
                _PERMISSIONS[each["permissionType"]],
            )
            for each in value["acls"]
        )
    except (KeyError, TypeError) as error:
        raise DamagedNode(
            f"{where}: acls: a key is missing, or a value is unknown or has a wrong type: {error!r}"
        ) from None


def change(pattern: Pattern) -> bytes:
    if pattern.kind is PatternType.LITERAL:
        return f"{pattern.resource.name}:{pattern.name}".encode()
    return _dump(
        {
            "version": 1,
            "resourceType": pattern.resource.name,
            "name": pattern.name,
            "patternType": pattern.kind.name,
        }
    )


def read_change(where: str, kind: PatternType, data: bytes | None) -> Pattern:
    if kind is PatternType.LITERAL:
        resource, colon, name = (data or b"").decode("utf-8", "replace").partition(":")
        if not colon:
            raise DamagedNode(f"{where}: {data!r} does not have the form TYPE:name")
    else:
        value = _object(where, data or b"")
        resource, name = str(value.get("resourceType")), str(value.get("name"))
    found = _RESOURCES.get(resource.upper().replace("_", ""))
    if found is None or not name:
        raise DamagedNode(f"{where}: expected a resource type and a name, not {resource!r} and {name!r}")
    return Pattern(found, name, kind)


def _object(where: str, data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedNode(f"{where}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise DamagedNode(f"{where}: expected an object, not {type(value).__name__}")
    return value


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
