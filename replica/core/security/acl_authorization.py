"""The authorization of an operation, by the rules of Kafka's AclAuthorizer:

1. A super user is authorized for everything.
2. If no ACL matches the resource, `allow.everyone.if.no.acl.found` decides.
3. A matching DENY of the operation or of ALL refuses, even if an ALLOW matches, too.
4. A matching ALLOW of the operation, of ALL, or of an operation that implies it authorizes.
5. Otherwise the operation is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from attrs import field, frozen

from replica.core.security.acls import (
    ANY_HOST,
    ANY_NAME,
    ANY_USER,
    OPERATIONS,
    Acl,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
    same_host,
)

IMPLIED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}
"""The operations whose ALLOW implies an ALLOW of the key. A DENY implies nothing."""


@frozen
class AclSettings:
    """The settings of the authorizer.

    super_users      `super.users`: principals that are authorized for everything
    open_by_default  `allow.everyone.if.no.acl.found`
    """

    super_users: frozenset[str] = frozenset()
    open_by_default: bool = False


@frozen
class Requester:
    principal: str
    host: str


Rules: TypeAlias = Mapping[tuple[str, str], tuple[int, int]]
"""The denied and allowed operations of one pattern as bits, by principal and host."""
_CACHED_MAX: Final = 1_000


def _rules(entries: Iterable[Entry]) -> Rules:
    made: dict[tuple[str, str], tuple[int, int]] = {}
    for entry in entries:
        requester, bit = (entry.principal, same_host(entry.host)), 1 << entry.operation
        denied, permitted = made.get(requester, (0, 0))
        if entry.permission is Permission.DENY:
            made[requester] = denied | bit, permitted
        elif entry.permission is Permission.ALLOW:
            made[requester] = denied, permitted | bit
    return made


def _bits(rules: Iterable[Rules], requester: Requester) -> tuple[int, int]:
    """Return the operations that the rules deny and allow to the requester, as bits."""
    host, denied, permitted = same_host(requester.host), 0, 0
    keys = ((requester.principal, host), (requester.principal, ANY_HOST), (ANY_USER, host), (ANY_USER, ANY_HOST))
    for each in rules:
        for key in keys:
            if key in each:
                less, more = each[key]
                denied |= less
                permitted |= more
    return denied, permitted


@frozen
class _ResourceRules:
    """The rules of one type of resource. A name takes two lookups, and one for each prefix length, however many ACLs
    there are.

    lengths   the different lengths of the prefixes, in characters
    """

    literal: Mapping[str, Rules] = field(factory=dict)
    prefixed: Mapping[str, Rules] = field(factory=dict)
    lengths: tuple[int, ...] = field(init=False)

    @lengths.default
    def _lengths(self) -> tuple[int, ...]:
        return tuple(sorted(set(map(len, self.prefixed))))

    def about(self, name: str) -> list[Rules]:
        """Return the rules of every pattern that matches the name."""
        found = [self.literal[each] for each in dict.fromkeys((name, ANY_NAME)) if each in self.literal]
        for length in self.lengths:
            if length > len(name):
                break
            if (rules := self.prefixed.get(name[:length])) is not None:
                found.append(rules)
        return found


_NOTHING: Final = _ResourceRules()


@frozen
class Acls:
    """All ACLs by pattern. Immutable, except for a cache of decisions."""

    by_pattern: Mapping[Pattern, frozenset[Entry]] = field(factory=dict)
    _resources: Mapping[ResourceType, _ResourceRules] = field(repr=False, eq=False)
    _somewhere: dict[tuple[Requester, Operation, ResourceType, bool], bool] = field(
        init=False, repr=False, eq=False, factory=dict
    )

    @_resources.default
    def _compiled(self) -> Mapping[ResourceType, _ResourceRules]:
        found: dict[ResourceType, tuple[dict[str, Rules], dict[str, Rules]]] = {}
        for pattern, entries in self.by_pattern.items():
            named = found.setdefault(pattern.resource, ({}, {}))
            named[pattern.kind is PatternType.PREFIXED][pattern.name] = _rules(entries)
        return {resource: _ResourceRules(*named) for resource, named in found.items()}

    @classmethod
    def of(cls, acls: Iterable[Acl]) -> Acls:
        found: dict[Pattern, set[Entry]] = {}
        for acl in acls:
            found.setdefault(acl.pattern, set()).add(acl.entry)
        return cls({pattern: frozenset(entries) for pattern, entries in found.items()})

    def with_pattern(self, pattern: Pattern, entries: frozenset[Entry]) -> Acls:
        """Return a copy in which these entries replace those of the pattern."""
        before = self._resources.get(pattern.resource, _NOTHING)
        by_pattern, named = dict(self.by_pattern), [dict(before.literal), dict(before.prefixed)]
        by_pattern.pop(pattern, None)
        changed = named[pattern.kind is PatternType.PREFIXED]
        changed.pop(pattern.name, None)
        if entries:
            by_pattern[pattern] = entries
            changed[pattern.name] = _rules(entries)
        return Acls(by_pattern, {**self._resources, pattern.resource: _ResourceRules(*named)})

    def __iter__(self) -> Iterator[Acl]:
        for pattern in sorted(self.by_pattern):
            for entry in sorted(self.by_pattern[pattern]):
                yield Acl(pattern, entry)

    def about(self, resource: ResourceType, name: str) -> list[Rules]:
        """Return the rules of every pattern that matches the name."""
        return self._resources.get(resource, _NOTHING).about(name)

    def of_resource(self, resource: ResourceType) -> _ResourceRules:
        return self._resources.get(resource, _NOTHING)

    def somewhere(self, key: tuple[Requester, Operation, ResourceType, bool], decide: Callable[[], bool]) -> bool:
        """Return the decision over all patterns of a resource type. Call `decide` only if the cache lacks it."""
        found = self._somewhere.get(key)
        if found is None:
            if len(self._somewhere) >= _CACHED_MAX:
                self._somewhere.clear()
            found = self._somewhere[key] = decide()
        return found


def allowed(
    acls: Acls, settings: AclSettings, requester: Requester, operation: Operation, resource: ResourceType, name: str
) -> bool:
    if requester.principal in settings.super_users:
        return True
    found = acls.about(resource, name)
    return _decided(_bits(found, requester), operation) if found else settings.open_by_default


def _decided(bits: tuple[int, int], operation: Operation) -> bool:
    denied, permitted = bits
    return not denied & _DENIED_BY[operation] and bool(permitted & _ALLOWED_BY[operation])


_DENIED_BY: Final = {operation: 1 << operation | 1 << Operation.ALL for operation in Operation}
_ALLOWED_BY: Final = {
    operation: sum(1 << each for each in {*IMPLIED_BY.get(operation, ()), operation, Operation.ALL})
    for operation in Operation
}


def operations(acls: Acls, settings: AclSettings, requester: Requester, resource: ResourceType, name: str) -> int:
    """Return all authorized operations on a resource, as bits."""
    possible = OPERATIONS[resource]
    if requester.principal in settings.super_users:
        return sum(1 << operation for operation in possible)
    found = acls.about(resource, name)
    if not found:
        return sum(1 << operation for operation in possible) if settings.open_by_default else 0
    bits = _bits(found, requester)
    return sum(1 << operation for operation in possible if _decided(bits, operation))


def allowed_somewhere(
    acls: Acls, settings: AclSettings, requester: Requester, operation: Operation, resource: ResourceType
) -> bool:
    """Return whether the operation is authorized on at least one resource name, even if no such resource exists."""
    if requester.principal in settings.super_users:
        return True
    key = requester, operation, resource, settings.open_by_default
    return acls.somewhere(key, lambda: _somewhere(acls.of_resource(resource), settings, requester, operation))


def _somewhere(held: _ResourceRules, settings: AclSettings, requester: Requester, operation: Operation) -> bool:
    """Decide `allowed_somewhere` (KIP-679, AclAuthorizer.authorizeByResourceType).

    A DENY of all names refuses. Otherwise one ALLOW suffices, unless a DENY covers every name that it allows: for a
    literal ALLOW, a DENY of the name or of a prefix of it; for a prefixed ALLOW, a DENY of the prefix or a shorter one.
    An ALLOW of an operation that implies this one does not count. With `open_by_default`, no ALLOW is necessary if no
    ACL has the name `*`.
    """
    wanted = _DENIED_BY[operation]
    literal = {name: _bits((rules,), requester) for name, rules in held.literal.items()}
    prefixed = {name: _bits((rules,), requester) for name, rules in held.prefixed.items()}
    if ANY_NAME in literal and literal[ANY_NAME][0] & wanted:
        return False
    if settings.open_by_default and ANY_NAME not in literal:
        return True  # names without an ACL are authorized
    closed = {name for name, (denied, _) in prefixed.items() if denied & wanted}
    lengths = sorted(set(map(len, closed)))

    def is_open(name: str) -> bool:
        """Return whether no DENY of a prefix covers all names that begin with this one."""
        return not any(name[:length] in closed for length in lengths if length <= len(name))

    return any(
        permitted & wanted and (name == ANY_NAME or (not denied & wanted and is_open(name)))
        for name, (denied, permitted) in literal.items()
    ) or any(permitted & wanted and is_open(name) for name, (_, permitted) in prefixed.items())
