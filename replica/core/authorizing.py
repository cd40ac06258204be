"""Whether somebody may do something: one pure decision over all ACLs.

1. A super user may.
2. If nothing is said of the resource at all, it is as `allow.everyone.if.no.acl.found` says: nobody may.
3. Whoever is denied it may not, whatever else is said.
4. Whoever is allowed it may: it, ALL, or an operation that comes with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

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


@frozen
class Acls:
    """All there are, by pattern. Another set is another value."""

    by_pattern: Mapping[Pattern, frozenset[Entry]] = field(factory=dict)
    _prefix_lengths: Mapping[ResourceType, tuple[int, ...]] = field(init=False, repr=False, eq=False)

    @_prefix_lengths.default
    def _lengths(self) -> Mapping[ResourceType, tuple[int, ...]]:
        """So that a name is looked up only under prefixes that can be there."""
        found: dict[ResourceType, set[int]] = {}
        for pattern in self.by_pattern:
            if pattern.kind is PatternType.PREFIXED:
                found.setdefault(pattern.resource, set()).add(len(pattern.name))
        return {resource: tuple(sorted(lengths)) for resource, lengths in found.items()}

    @classmethod
    def of(cls, acls: Iterable[Acl]) -> Acls:
        found: dict[Pattern, set[Entry]] = {}
        for acl in acls:
            found.setdefault(acl.pattern, set()).add(acl.entry)
        return cls({pattern: frozenset(entries) for pattern, entries in found.items()})

    def with_pattern(self, pattern: Pattern, entries: frozenset[Entry]) -> Acls:
        """These in place of all that were there for it."""
        others = {each: held for each, held in self.by_pattern.items() if each != pattern}
        return Acls({**others, pattern: entries} if entries else others)

    def __iter__(self) -> Iterator[Acl]:
        for pattern in sorted(self.by_pattern):
            for entry in sorted(self.by_pattern[pattern]):
                yield Acl(pattern, entry)

    def about(self, resource: ResourceType, name: str) -> list[frozenset[Entry]]:
        """Of every pattern that fits."""
        patterns = [Pattern(resource, name), Pattern(resource, ANY_NAME)]
        for length in self._prefix_lengths.get(resource, ()):
            if length > len(name):
                break
            patterns.append(Pattern(resource, name[:length], PatternType.PREFIXED))
        return [self.by_pattern[pattern] for pattern in dict.fromkeys(patterns) if pattern in self.by_pattern]


def allowed(
    acls: Acls, settings: AclSettings, who: Who, operation: Operation, resource: ResourceType, name: str
) -> bool:
    if who.principal in settings.super_users:
        return True
    found = acls.about(resource, name)
    if not found:
        return settings.open_by_default
    host = same_host(who.host)
    mine = [entry for entries in found for entry in entries if _is_of(entry, who.principal, host)]
    if any(entry.permission is Permission.DENY and entry.operation in (operation, Operation.ALL) for entry in mine):
        return False
    enough = IMPLIED_BY.get(operation, frozenset({operation})) | {Operation.ALL}
    return any(entry.permission is Permission.ALLOW and entry.operation in enough for entry in mine)


def _is_of(entry: Entry, principal: str, host: str) -> bool:
    return entry.principal in (principal, ANY_USER) and (entry.host == ANY_HOST or same_host(entry.host) == host)


def operations(acls: Acls, settings: AclSettings, who: Who, resource: ResourceType, name: str) -> int:
    """All that somebody may do with it, a bit for each."""
    return sum(
        1 << operation for operation in OPERATIONS[resource] if allowed(acls, settings, who, operation, resource, name)
    )


def allowed_somewhere(
    acls: Acls, settings: AclSettings, who: Who, operation: Operation, resource: ResourceType
) -> bool:
    """There is some name, even one that nothing has yet, of which it is allowed."""
    if who.principal in settings.super_users:
        return True
    host = same_host(who.host)
    denied: set[Pattern] = set()
    permitted: list[Pattern] = []
    for pattern, entries in acls.by_pattern.items():
        if pattern.resource is not resource:
            continue
        for entry in entries:
            if _is_of(entry, who.principal, host) and entry.operation in (operation, Operation.ALL):
                if entry.permission is Permission.DENY:
                    denied.add(pattern)
                else:
                    permitted.append(pattern)
    everything = Pattern(resource, ANY_NAME)
    if everything in denied:
        return False
    if settings.open_by_default and everything not in acls.by_pattern:
        return True  # there are always names of which nothing is said
    return any(not _covered(pattern, denied) for pattern in permitted)


def _covered(pattern: Pattern, denied: set[Pattern]) -> bool:
    """Of every name that the pattern fits it is denied."""
    if pattern.kind is PatternType.LITERAL and pattern.name == ANY_NAME:
        return False
    if pattern in denied:
        return True
    return any(
        Pattern(pattern.resource, pattern.name[:length], PatternType.PREFIXED) in denied
        for length in range(1, len(pattern.name) + 1)
    )
