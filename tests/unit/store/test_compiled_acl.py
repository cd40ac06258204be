"""A compiled list answers as a list that is scanned, and the cost of the answer does not depend on its length."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.store.support import Client, Leader, leader
from tests.unit.store.test_acl import Numbers
from zab.store import acl as acls
from zab.store import acl_schemes
from zab.store.acl import ALL, OPEN, READ, Access, Acl, Identity, allows, fix_up, intern, is_super
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op
from zab.store.store_settings import StoreSettings
from zab.store.znode import DATA

HERE: Identity = ("ip", "127.0.0.1")


def specified(acl: Acl, wanted: int, identities: tuple[Identity, ...], access: Access) -> bool:
    """Return the result by the definition: one entry with one of the bits matches one of the identities."""

    def means(scheme: str, name: str, who: str) -> bool:
        if scheme in access.rules:
            try:
                return bool(access.rules[scheme].matches(name, who))
            except Exception:
                return False
        if scheme == "ip":
            return acl_schemes.ip_matches(name, who)
        if scheme == "sasl":
            return acl_schemes.sasl_matches(name, who, access.sasl_any)
        return name == who

    if acl == OPEN or not acl:
        return True
    for perms, scheme, name in acl:
        if perms & wanted:
            if (scheme, name) == ("world", "anyone"):
                return True
            if scheme in access.schemes and any(scheme == of and means(scheme, name, who) for of, who in identities):
                return True
    return is_super(identities, access)


ADDRESSES = st.sampled_from(
    ["10.1.2.3", "10.1.2.4", "10.200.0.1", "127.0.0.1", "0.0.0.0", "2001:db8:0:0:0:0:0:1", "fe80::1", "1", ""]
)
NETWORKS = st.sampled_from(
    ["10.1.2.3", "10.1.2.3/32", "10.1.2.0/24", "10.0.0.0/8", "10.1.0.0/+16", "0.0.0.0/0", "::/0", "2001:db8::/32",
     "2001:db8::1", "fe80::/10", "10.0.0.0/33", "x", ""]
)  # fmt: skip
NAMES = st.sampled_from(["joe", "ann", "super", "any", "5", "9", "anyone", ""])
ENTRIES = st.tuples(
    st.integers(0, ALL) | st.sampled_from([-1, -(1 << 31)]),
    st.sampled_from(["world", "digest", "sasl", "x509", "number", "ip", "super"]),
    NAMES,
) | st.tuples(st.integers(0, ALL), st.just("ip"), NETWORKS)
IDENTITIES = st.tuples(st.sampled_from(["digest", "sasl", "x509", "number", "world", "super"]), NAMES) | st.tuples(
    st.just("ip"), ADDRESSES
)
ACCESS = st.builds(
    Access,
    schemes=st.frozensets(st.sampled_from(["digest", "ip", "sasl", "x509", "number", "world"])),
    sasl_any=st.none() | NAMES,
    rules=st.sampled_from([{}, {"number": Numbers()}, {"ip": Numbers(), "digest": Numbers()}]),
    supers=st.frozensets(st.sampled_from(["digest", "super"])),
)


@given(
    st.lists(ENTRIES, max_size=12).map(tuple),
    st.integers(0, ALL),
    st.lists(IDENTITIES, max_size=4).map(tuple),
    ACCESS,
)
def test_compiled_acl_grants_the_same_as_its_definition(
    acl: Acl, wanted: int, identities: tuple[Identity, ...], access: Access
) -> None:
    assert allows(intern(acl), wanted, identities, access) == specified(acl, wanted, identities, access)
    assert allows(acl, wanted, identities, access) == specified(acl, wanted, identities, access)


# -- counted work --------------------------------------------------------------------------------------


def networks(count: int) -> Acl:
    return tuple((ALL, "ip", f"10.{number >> 8}.{number & 255}.0/24") for number in range(count))


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses and networks that were parsed."""
    seen: list[str] = []

    def counting(function: Callable[[str], Any]) -> Callable[[str], Any]:
        def counted(text: str) -> Any:
            seen.append(text)
            return function(text)

        return counted

    acl_schemes.ip_matches.cache_clear()
    acl_schemes.address_of.cache_clear()
    monkeypatch.setattr(acl_schemes, "_network", counting(acl_schemes._network))
    monkeypatch.setattr(acl_schemes, "_address", counting(acl_schemes._address))
    return seen


def test_a_question_parses_no_network_of_the_list(parsed: list[str]) -> None:
    acl = intern((*networks(5_000), (READ, *HERE)))
    brought = len(parsed)
    assert brought <= 2 * 5_001
    for _ in range(100):
        assert allows(acl, READ, (HERE,))
        assert not allows(acl, acls.WRITE, (HERE,))
    assert parsed[brought:] == ["127.0.0.1"], "the client's own address, once"


def test_checks_of_a_node_with_a_long_list_cost_as_much_as_of_one_with_a_short_list(parsed: list[str]) -> None:
    def cost(entries: int) -> int:
        it = leader(StoreSettings(acl_entries_max=5_000))
        it.create("/a", acl=(*networks(entries), (ALL, *HERE)), identities=(HERE,))
        parsed.clear()
        assert it.codes(*[(Op.CHECK, ("/a", 0))] * 300, identities=(HERE,)) == [0] * 300
        error, _ = it.store.reads.get_data(Client(identities=(HERE,)), "/a", False)
        assert error == 0
        return len(parsed)

    assert cost(4_000) <= cost(4) + 1


def test_compiled_lists_of_nodes_that_are_gone_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    monkeypatch.setattr(acls, "_COMPILED_BYTES_MIN", 1_000)
    monkeypatch.setattr(acls, "_sweep_at", 0)
    made = kept = 0
    while made < 5 * kept + 1_000_000:
        acl = tuple((READ, "ip", f"10.{made >> 16 & 255}.{made >> 8 & 255}.{entry}") for entry in range(200))
        encoded = acls._encoded(acl)
        acl = acls._decoded(encoded)
        made += len(encoded)
        assert allows(acl, READ, (("ip", acl[7][2]),))
        kept = kept or acls._compiled_bytes
    assert acls._compiled_bytes <= 2 * kept + 10_000


# -- bounds --------------------------------------------------------------------------------------------


def test_a_longer_list_than_allowed_is_refused() -> None:
    for count, expected in ((500, True), (501, False)):
        assert (fix_up(networks(count), (HERE,)) is not None) is expected
    it = leader(StoreSettings(acl_entries_max=2))
    assert it.error(Op.CREATE, "/a", b"", networks(3), 0) == ErrorCode.INVALID_ACL
    it.create("/a", acl=(*networks(1), (ALL, *HERE)))
    assert it.error(Op.SET_ACL, "/a", networks(3), -1, identities=(HERE,)) == ErrorCode.INVALID_ACL


def test_auth_is_not_expanded_beyond_the_bound() -> None:
    """Entries times identities: a megabyte of `auth` would become gigabytes."""

    class Identities(tuple[Identity, ...]):
        walked = 0

        def __iter__(self) -> Any:
            Identities.walked += 1
            return super().__iter__()

    mine = Identities(("digest", f"user{number}:x") for number in range(100))
    acl: Acl = tuple((perms, "auth", "") for perms in range(1, 501))
    assert fix_up(acl, mine) is None
    assert Identities.walked <= 6
    expanded = fix_up(acl[:5], mine)
    assert expanded is not None
    assert len(expanded) == 500


def test_a_longer_list_in_the_state_is_loaded_and_stays_in_force() -> None:
    old = leader(StoreSettings(acl_entries_max=10_000))
    old.create("/a", b"data", acl=(*networks(9_000), (ALL, *HERE)))
    chunks = list(old.store.snapshot())
    replayed = Leader(StoreSettings())
    for zxid, txn in old.log:
        replayed.store.apply(zxid, txn)
    restored = Leader(StoreSettings())
    restored.store.restore(chunks)
    for it in (replayed, restored):
        error, node = it.store.reads.get_data(Client(identities=(HERE,)), "/a", False)
        assert (error, node[DATA]) == (0, b"data")
        assert it.store.reads.get_data(Client(), "/a", False)[0] == ErrorCode.NO_AUTH
        it.zxid = it.store.zxid
        it.log = []
        assert it.error(Op.SET_DATA, "/a", b"", -1, identities=(HERE,)) == 0


def long_list(number: int) -> Acl:
    return tuple((31, "digest", f"{number}x{entry}".ljust(3900, "a") + ":" + "A" * 28) for entry in range(20))


@pytest.mark.parametrize("op", [Op.CREATE, Op.SET_ACL])
def test_refused_requests_leave_no_list_in_memory(op: Op) -> None:
    it = leader()
    it.create("/closed", acl=((31, "digest", "nobody:x"),))
    before = len(acls._decoded_large), len(acls._COMPILED), acls._encoded_small.cache_info().currsize
    for number in range(20):
        fields = ("/missing/x", b"", long_list(number), 0) if op is Op.CREATE else ("/closed", long_list(number), -1)
        assert it.error(op, *fields) in (ErrorCode.NO_NODE, ErrorCode.NO_AUTH)
    assert (len(acls._decoded_large), len(acls._COMPILED), acls._encoded_small.cache_info().currsize) == before


def test_large_lists_in_memory_are_bounded_by_their_bytes() -> None:
    for number in range(250):
        intern(long_list(1_000_000 + number))
    assert sum(map(len, acls._decoded_large)) <= acls._LARGE_BYTES_MAX
    assert sum(grants.size for grants in acls._COMPILED.values()) == acls._compiled_bytes
    assert acls._compiled_bytes <= 3 * acls._LARGE_BYTES_MAX
