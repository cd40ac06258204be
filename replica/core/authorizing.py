"""Whether somebody may do something: one pure decision over all ACLs.

1. A super user may.
2. If nothing is said of the resource at all, it is as `allow.everyone.if.no.acl.found` says: nobody may.
3. Whoever is denied it may not, whatever else is said.
4. Whoever is allowed it may: it, ALL, or an operation that comes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from attrs import field, frozen

from replica.core.acls import (
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
"""Who may read something may know that it is there. To deny reading is not to deny that."""


@frozen
class AclSettings:
    """super_users     `super.users`: they may do everything
    open_by_default  `allow.everyone.if.no.acl.found`
    """

    super_users: frozenset[str] = frozenset()
    open_by_default: bool = False


@frozen
class Who:
    principal: str
    host: str


Rules: TypeAlias = Mapping[tuple[str, str], tuple[int, int]]
"""What the entries of one pattern deny and allow, by principal and host: a bit for each operation."""
_REMEMBERED_MAX: Final = 1_000


def _rules(entries: Iterable[Entry]) -> Rules:
    made: dict[tuple[str, str], tuple[int, int]] = {}
    for entry in entries:
        who, bit = (entry.principal, same_host(entry.host)), 1 << entry.operation
        denied, permitted = made.get(who, (0, 0))
        if entry.permission is Permission.DENY:
            made[who] = denied | bit, permitted
        elif entry.permission is Permission.ALLOW:
            made[who] = denied, permitted | bit
    return made


def _said(rules: Iterable[Rules], who: Who) -> tuple[int, int]:
    """Return what these deny and allow one client, each as bits."""
    host, denied, permitted = same_host(who.host), 0, 0
    keys = ((who.principal, host), (who.principal, ANY_HOST), (ANY_USER, host), (ANY_USER, ANY_HOST))
    for each in rules:
        for key in keys:
            if key in each:
                less, more = each[key]
                denied |= less
                permitted |= more
    return denied, permitted


@frozen
class _OfResource:
    """Rules of one type of resource, so that a decision costs a few look-ups however many ACLs there are.

    lengths   of all prefixes: a name is looked up only under prefixes that can be there
    """

    literal: Mapping[str, Rules] = field(factory=dict)
    prefixed: Mapping[str, Rules] = field(factory=dict)
    lengths: tuple[int, ...] = field(init=False)

    @lengths.default
    def _lengths(self) -> tuple[int, ...]:
        return tuple(sorted(set(map(len, self.prefixed))))

    def about(self, name: str) -> list[Rules]:
        """Return the entries of every pattern that fits."""
        found = [self.literal[each] for each in dict.fromkeys((name, ANY_NAME)) if each in self.literal]
        for length in self.lengths:
            if length > len(name):
                break
            if (rules := self.prefixed.get(name[:length])) is not None:
                found.append(rules)
        return found


_NOTHING: Final = _OfResource()


@frozen
class Acls:
    """All there are, by pattern. Another set is another value."""

    by_pattern: Mapping[Pattern, frozenset[Entry]] = field(factory=dict)
    _resources: Mapping[ResourceType, _OfResource] = field(repr=False, eq=False)
    _somewhere: dict[tuple[Who, Operation, ResourceType, bool], bool] = field(
        init=False, repr=False, eq=False, factory=dict
    )

    @_resources.default
    def _compiled(self) -> Mapping[ResourceType, _OfResource]:
        found: dict[ResourceType, tuple[dict[str, Rules], dict[str, Rules]]] = {}
        for pattern, entries in self.by_pattern.items():
            named = found.setdefault(pattern.resource, ({}, {}))
            named[pattern.kind is PatternType.PREFIXED][pattern.name] = _rules(entries)
        return {resource: _OfResource(*named) for resource, named in found.items()}

    @classmethod
    def of(cls, acls: Iterable[Acl]) -> Acls:
        found: dict[Pattern, set[Entry]] = {}
        for acl in acls:
            found.setdefault(acl.pattern, set()).add(acl.entry)
        return cls({pattern: frozenset(entries) for pattern, entries in found.items()})

    def with_pattern(self, pattern: Pattern, entries: frozenset[Entry]) -> Acls:
        """These in place of all that were there for it. The rules of the others are kept, not made anew."""
        before = self._resources.get(pattern.resource, _NOTHING)
        by_pattern, named = dict(self.by_pattern), [dict(before.literal), dict(before.prefixed)]
        by_pattern.pop(pattern, None)
        changed = named[pattern.kind is PatternType.PREFIXED]
        changed.pop(pattern.name, None)
        if entries:
            by_pattern[pattern] = entries
            changed[pattern.name] = _rules(entries)
        return Acls(by_pattern, {**self._resources, pattern.resource: _OfResource(*named)})

    def __iter__(self) -> Iterator[Acl]:
        for pattern in sorted(self.by_pattern):
            for entry in sorted(self.by_pattern[pattern]):
                yield Acl(pattern, entry)

    def about(self, resource: ResourceType, name: str) -> list[Rules]:
        """Return the entries of every pattern that fits."""
        return self._resources.get(resource, _NOTHING).about(name)

    def of_resource(self, resource: ResourceType) -> _OfResource:
        return self._resources.get(resource, _NOTHING)

    def somewhere(self, key: tuple[Who, Operation, ResourceType, bool], look: Callable[[], bool]) -> bool:
        """A decision over all patterns, made once for as long as nothing changes."""
        found = self._somewhere.get(key)
        if found is None:
            if len(self._somewhere) >= _REMEMBERED_MAX:
                self._somewhere.clear()
            found = self._somewhere[key] = look()
        return found


def allowed(
    acls: Acls, settings: AclSettings, who: Who, operation: Operation, resource: ResourceType, name: str
) -> bool:
    if who.principal in settings.super_users:
        return True
    found = acls.about(resource, name)
    return _decided(_said(found, who), operation) if found else settings.open_by_default


def _decided(said: tuple[int, int], operation: Operation) -> bool:
    denied, permitted = said
    return not denied & _DENIED_BY[operation] and bool(permitted & _ALLOWED_BY[operation])


_DENIED_BY: Final = {operation: 1 << operation | 1 << Operation.ALL for operation in Operation}
_ALLOWED_BY: Final = {
    operation: sum(1 << each for each in {*IMPLIED_BY.get(operation, ()), operation, Operation.ALL})
    for operation in Operation
}


def operations(acls: Acls, settings: AclSettings, who: Who, resource: ResourceType, name: str) -> int:
    """All that somebody may do with it, a bit for each."""
    possible = OPERATIONS[resource]
    if who.principal in settings.super_users:
        return sum(1 << operation for operation in possible)
    found = acls.about(resource, name)
    if not found:
        return sum(1 << operation for operation in possible) if settings.open_by_default else 0
    said = _said(found, who)
    return sum(1 << operation for operation in possible if _decided(said, operation))


def allowed_somewhere(
    acls: Acls, settings: AclSettings, who: Who, operation: Operation, resource: ResourceType
) -> bool:
    """There is some name, even one that nothing has yet, of which it is allowed."""
    if who.principal in settings.super_users:
        return True
    key = who, operation, resource, settings.open_by_default
    return acls.somewhere(key, lambda: _somewhere(acls.of_resource(resource), settings, who, operation))


def _somewhere(held: _OfResource, settings: AclSettings, who: Who, operation: Operation) -> bool:
    wanted = _DENIED_BY[operation]
    literal = {name: _said((rules,), who) for name, rules in held.literal.items()}
    prefixed = {name: _said((rules,), who) for name, rules in held.prefixed.items()}
    if ANY_NAME in literal and literal[ANY_NAME][0] & wanted:
        return False
    if settings.open_by_default and ANY_NAME not in literal:
        return True  # there are always names of which nothing is said
    closed = {name for name, (denied, _) in prefixed.items() if denied & wanted}
    lengths = sorted(set(map(len, closed)))

    def is_open(name: str) -> bool:
        """No prefix denies all names that begin so."""
        return not any(name[:length] in closed for length in lengths if length <= len(name))

    return any(
        permitted & wanted and (name == ANY_NAME or (not denied & wanted and is_open(name)))
        for name, (denied, permitted) in literal.items()
    ) or any(permitted & wanted and is_open(name) for name, (_, permitted) in prefixed.items())
