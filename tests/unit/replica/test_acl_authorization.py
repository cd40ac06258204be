"""The authorization decision: compared with a scan of all ACLs, and the rules one by one."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.core.security.acl_authorization import Acls, AclSettings, Requester, allowed, allowed_somewhere, operations
from replica.core.security.acls import (
    Acl,
    BadAcl,
    Entry,
    Filter,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
    check_acl,
)

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
PREFIXED = PatternType.PREFIXED
USERS = ("User:ann", "User:bob", "User:*")
HOSTS = ("10.0.0.1", "10.0.0.2", "*")
OPERATIONS = tuple(each for each in Operation if each > Operation.ANY)

names = st.text("ab", min_size=1, max_size=3)
patterns = st.builds(
    Pattern, st.sampled_from((TOPIC, GROUP)), st.one_of(names, st.just("*")), st.just(PatternType.LITERAL)
) | st.builds(Pattern, st.sampled_from((TOPIC, GROUP)), names, st.just(PREFIXED))
entries = st.builds(
    Entry,
    st.sampled_from(USERS),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from((Permission.ALLOW, Permission.DENY)),
)
all_acls = st.lists(st.builds(Acl, patterns, entries), max_size=8)
settings_of = st.builds(AclSettings, st.sampled_from((frozenset[str](), frozenset({"User:bob"}))), st.booleans())
whos = st.builds(Requester, st.sampled_from(USERS[:2]), st.sampled_from(HOSTS[:2]))


def slowly(acls: list[Acl], settings: AclSettings, who: Requester, operation: Operation, name: str) -> bool:
    """Apply the rules of the module one after the other."""
    if who.principal in settings.super_users:
        return True
    about = [
        acl.entry
        for acl in acls
        if acl.pattern.resource is TOPIC
        and (
            acl.pattern.name in (name, "*")
            if acl.pattern.kind is PatternType.LITERAL
            else name.startswith(acl.pattern.name)
        )
    ]
    if not about:
        return settings.open_by_default
    mine = [each for each in about if each.principal in (who.principal, "User:*") and each.host in (who.host, "*")]
    said = {(each.permission, each.operation) for each in mine}
    if (Permission.DENY, operation) in said or (Permission.DENY, Operation.ALL) in said:
        return False
    enough = {operation, Operation.ALL}
    if operation is Operation.DESCRIBE:
        enough |= {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    if operation is Operation.DESCRIBE_CONFIGS:
        enough |= {Operation.ALTER_CONFIGS}
    return any((Permission.ALLOW, each) in said for each in enough)


@given(all_acls, settings_of, whos, st.sampled_from(OPERATIONS), st.text("ab*", min_size=1, max_size=4))
def test_decision_equals_scan_of_all_acls(
    acls: list[Acl], settings: AclSettings, who: Requester, operation: Operation, name: str
) -> None:
    made = Acls.of(acls)
    assert allowed(made, settings, who, operation, TOPIC, name) is slowly(acls, settings, who, operation, name)
    assert set(made) == set(acls)


EVERY_NAME = ["".join(letters) for length in range(1, 5) for letters in product("abz", repeat=length)]


@given(all_acls, settings_of, whos)
def test_allowed_somewhere_means_on_some_name(acls: list[Acl], settings: AclSettings, who: Requester) -> None:
    made = Acls.of(acls)
    some = any(allowed(made, settings, who, Operation.WRITE, TOPIC, name) for name in EVERY_NAME)
    assert allowed_somewhere(made, settings, who, Operation.WRITE, TOPIC) is some


@given(all_acls, patterns, st.frozensets(entries, max_size=3))
def test_with_pattern_replaces_one_pattern_only(acls: list[Acl], pattern: Pattern, entries: frozenset[Entry]) -> None:
    after = Acls.of(acls).with_pattern(pattern, entries)
    assert set(after) == {acl for acl in acls if acl.pattern != pattern} | {Acl(pattern, each) for each in entries}
    assert after == Acls.of(set(after))


# -- one by one --------------------------------------------------------------------------------------------

ANN = Requester("User:ann", "10.0.0.1")
NONE = AclSettings()


def allow(operation: Operation, pattern: Pattern, principal: str = "User:ann", host: str = "*") -> Acl:
    return Acl(pattern, Entry(principal, host, operation, Permission.ALLOW))


def deny(operation: Operation, pattern: Pattern, principal: str = "User:ann", host: str = "*") -> Acl:
    return Acl(pattern, Entry(principal, host, operation, Permission.DENY))


def may(operation: Operation, name: str, *acls: Acl, who: Requester = ANN, settings: AclSettings = NONE) -> bool:
    return allowed(Acls.of(acls), settings, who, operation, TOPIC, name)


T = Pattern(TOPIC, "t")


def test_operation_without_acl_is_refused() -> None:
    assert not may(Operation.READ, "t")
    assert may(Operation.READ, "t", settings=AclSettings(open_by_default=True))
    assert not may(
        Operation.READ, "t", allow(Operation.READ, T, "User:bob"), settings=AclSettings(open_by_default=True)
    )
    assert not may(Operation.READ, "t", allow(Operation.READ, Pattern(GROUP, "t")))


def test_read_implies_describe_and_not_vice_versa() -> None:
    assert may(Operation.DESCRIBE, "t", allow(Operation.READ, T))
    assert not may(Operation.READ, "t", allow(Operation.DESCRIBE, T))
    assert may(Operation.DESCRIBE, "t", allow(Operation.DESCRIBE, T), deny(Operation.READ, T))
    assert not may(Operation.DESCRIBE, "t", allow(Operation.READ, T), deny(Operation.DESCRIBE, T))
    assert not may(Operation.ALTER_CONFIGS, "t", allow(Operation.ALTER, T))


def test_deny_overrides_allow() -> None:
    everything = allow(Operation.ALL, Pattern(TOPIC, "*"))
    assert may(Operation.READ, "t", everything)
    assert not may(Operation.READ, "t", everything, deny(Operation.READ, T))
    assert not may(Operation.READ, "t-1", everything, deny(Operation.ALL, Pattern(TOPIC, "t-", PREFIXED), "User:*"))
    assert may(Operation.READ, "t", everything, deny(Operation.ALL, Pattern(TOPIC, "t-", PREFIXED), "User:*"))
    assert may(Operation.READ, "t", everything, deny(Operation.READ, T), settings=AclSettings(frozenset({"User:ann"})))


def test_star_as_prefix_is_literal() -> None:
    starred = allow(Operation.READ, Pattern(TOPIC, "*", PREFIXED))
    assert not may(Operation.READ, "t", starred)
    assert may(Operation.READ, "*t", starred)


@pytest.mark.parametrize("host", ["::1", "0:0:0:0:0:0:0:1", "0::1"])
def test_notations_of_address_are_equal(host: str) -> None:
    there = Requester("User:ann", "::1")
    everywhere = allow(Operation.ALL, T)
    assert not may(Operation.READ, "t", everywhere, deny(Operation.READ, T, host=host), who=there)
    assert may(Operation.READ, "t", everywhere, deny(Operation.READ, T, host="10.0.0.1"), who=there)
    assert may(
        Operation.READ, "t", allow(Operation.READ, T, host="10.0.0.1"), who=Requester("User:ann", "::ffff:10.0.0.1")
    )


def test_operations_are_returned_as_bits() -> None:
    acls = Acls.of([allow(Operation.READ, T), allow(Operation.ALTER_CONFIGS, T)])
    wanted = (Operation.READ, Operation.DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS)
    assert operations(acls, NONE, ANN, TOPIC, "t") == sum(1 << each for each in wanted)
    assert operations(acls, AclSettings(frozenset({"User:ann"})), ANN, TOPIC, "t") == 0x0DF8
    assert operations(acls, AclSettings(frozenset({"User:ann"})), ANN, GROUP, "g") == 0x0148
    assert operations(acls, AclSettings(frozenset({"User:ann"})), ANN, CLUSTER, "kafka-cluster") == 0x1FA0


# -- filters, and ACLs that are none -----------------------------------------------------------------------


def test_filters_match_acls() -> None:
    literal, star = allow(Operation.READ, Pattern(TOPIC, "t-1")), allow(Operation.READ, Pattern(TOPIC, "*"))
    prefix, group = deny(Operation.WRITE, Pattern(TOPIC, "t", PREFIXED)), allow(Operation.READ, Pattern(GROUP, "t-1"))

    def found(wanted: Filter) -> set[Acl]:
        return {acl for acl in (literal, star, prefix, group) if acl in wanted}

    assert found(Filter()) == {literal, star, prefix, group}
    assert found(Filter(TOPIC, "t-1")) == {literal}
    assert found(Filter(TOPIC, "t-1", PatternType.MATCH)) == {literal, star, prefix}
    assert found(Filter(name="t-1", kind=PatternType.LITERAL)) == {literal, group}
    assert found(Filter(TOPIC, "t", PREFIXED)) == {prefix}
    assert found(Filter(permission=Permission.DENY)) == {prefix}
    assert found(Filter(principal="User:bob")) == set()
    assert found(Filter(host="*", operation=Operation.READ)) == {literal, star, group}


@pytest.mark.parametrize(
    ("acl", "why"),
    [
        (allow(Operation.READ, Pattern(ResourceType.ANY, "t")), "a resource type"),
        (allow(Operation.READ, Pattern(TOPIC, "t", PatternType.MATCH)), "LITERAL"),
        (allow(Operation.ANY, T), "an operation"),
        (Acl(T, Entry("User:ann", "*", Operation.READ, Permission.ANY)), "ALLOW"),
        (allow(Operation.READ, Pattern(TOPIC, "")), "is empty"),
        (allow(Operation.READ, Pattern(GROUP, "a/b")), "not a valid node name"),
        (allow(Operation.READ, Pattern(GROUP, "..")), "not a valid node name"),
        (allow(Operation.ALTER, Pattern(CLUSTER, "mine")), "kafka-cluster"),
        (allow(Operation.READ, T, "ann"), "use the form User:ann"),
        (allow(Operation.READ, T, host=""), "an address"),
    ],
)
def test_invalid_acl_is_refused(acl: Acl, why: str) -> None:
    with pytest.raises(BadAcl, match=why):
        check_acl(acl)
