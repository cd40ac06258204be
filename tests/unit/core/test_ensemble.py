"""Membership: its text, its quorums, and its errors. Quorums are compared with their definition, not with a formula."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
from attrs import evolve
from hypothesis import assume, given
from hypothesis import strategies as st

from zab.core.ensemble import Ensemble, Group, Role, Server, faults, parse_server
from zab.core.errors import ConfigError
from zab.core.zxid import NOTHING, ServerId, Zxid, make

# -- made-up ensembles ---------------------------------------------------------------------------------

ports = st.integers(1, 65_535)
hosts = st.one_of(
    st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(str),
)
server_ids = st.integers(1, 255).map(ServerId)


@st.composite
def server_values(draw: st.DrawFn, sid: ServerId, role: Role) -> Server:
    quorum_port, election_port = draw(st.lists(ports, min_size=2, max_size=2, unique=True))
    client = draw(st.one_of(st.none(), st.tuples(hosts, ports)))
    client_host, client_port = client or (None, None)
    return Server(sid, draw(hosts), quorum_port, election_port, role, client_host, client_port)


def plain_servers(count: int) -> tuple[Server, ...]:
    return tuple(Server(ServerId(sid), "host", 2888 + sid, 3888 + sid) for sid in range(1, count + 1))


def ids(*numbers: int) -> list[ServerId]:
    return [ServerId(number) for number in numbers]


@st.composite
def majorities(draw: st.DrawFn, voters_max: int = 5, addresses: bool = True) -> Ensemble:
    """Draw an ensemble of voters and observers. Addresses are most of the work, and matter only to its text."""
    members = draw(st.lists(server_ids, min_size=1, max_size=voters_max + 2, unique=True))
    voters = draw(st.integers(1, min(voters_max, len(members))))
    roles = [Role.PARTICIPANT] * voters + [Role.OBSERVER] * (len(members) - voters)
    servers = [
        draw(server_values(sid, role)) if addresses else Server(sid, f"host{sid}", 1, 2, role)
        for sid, role in zip(members, roles, strict=True)
    ]
    return Ensemble(tuple(servers), draw(versions))


@st.composite
def hierarchies(draw: st.DrawFn, voters_max: int = 6, addresses: bool = True) -> Ensemble:
    base = draw(majorities(voters_max, addresses))
    group_of = {sid: draw(st.integers(1, 3), label=f"group of {sid}") for sid in base.voters}
    groups = tuple(
        Group(number, tuple(sid for sid in base.voters if group_of[sid] == number))
        for number in sorted(set(group_of.values()))
    )
    weights = draw(st.dictionaries(st.sampled_from([*base.by_id]), st.integers(0, 4)))
    assume(any(weights.get(sid, 1) for sid in base.voters))
    return evolve(base, groups=groups, weights=weights)


versions = st.builds(make, st.integers(0, 50), st.integers(0, 50))
ensembles = st.one_of(majorities(), hierarchies())
memberships = st.one_of(majorities(addresses=False), hierarchies(addresses=False))


def all_quorums(ensemble: Ensemble) -> list[frozenset[ServerId]]:
    voters = ensemble.voters
    subsets = [frozenset(some) for size in range(len(voters) + 1) for some in combinations(voters, size)]
    return [subset for subset in subsets if ensemble.is_quorum(subset)]


# -- text ----------------------------------------------------------------------------------------------


@given(ensembles)
def test_text_round_trip(ensemble: Ensemble) -> None:
    assert Ensemble.parse(ensemble.text()) == ensemble


@given(ensembles, st.randoms(use_true_random=False), st.sampled_from(["\n", ",", "\n\n", " \n "]))
def test_entries_may_stand_in_any_order_and_a_comma_separates_too(
    ensemble: Ensemble, random: Random, separator: str
) -> None:
    lines = ensemble.text().split("\n")
    random.shuffle(lines)
    assert Ensemble.parse(separator.join(lines)) == ensemble


def test_servers_and_groups_come_in_order_of_their_numbers() -> None:
    one, two, three = plain_servers(3)
    groups = (Group(2, (ServerId(3),)), Group(1, (ServerId(1), ServerId(2))))
    ensemble = Ensemble((three, one, two), groups=groups)
    assert ensemble == Ensemble((one, two, three), groups=tuple(reversed(groups)))
    assert Ensemble.parse(ensemble.text()) == ensemble


def test_known_text_of_a_stat() -> None:
    text = (
        "server.1=zoo1:2888:3888:participant;0.0.0.0:2181\n"
        "server.2=[fe80::2]:2888:3888:observer;[::1]:2182\n"
        "version=100000002"
    )
    ensemble = Ensemble.parse(text)
    assert ensemble.by_id == {
        1: Server(ServerId(1), "zoo1", 2888, 3888, Role.PARTICIPANT, "0.0.0.0", 2181),
        2: Server(ServerId(2), "fe80::2", 2888, 3888, Role.OBSERVER, "::1", 2182),
    }
    assert ensemble.version == make(1, 2)
    assert ensemble.text() == text


@pytest.mark.parametrize(
    ("line", "server"),
    [
        ("server.1=a:2888:3888", Server(ServerId(1), "a", 2888, 3888)),
        ("server.1=a:2888:3888:Observer", Server(ServerId(1), "a", 2888, 3888, Role.OBSERVER)),
        ("server.1=a:1:2;2181", Server(ServerId(1), "a", 1, 2, Role.PARTICIPANT, "0.0.0.0", 2181)),
        ("server.1=a:1:2;b:2181", Server(ServerId(1), "a", 1, 2, Role.PARTICIPANT, "b", 2181)),
        ("server.1=[::1]:1:2;[::]:2181", Server(ServerId(1), "::1", 1, 2, Role.PARTICIPANT, "::", 2181)),
        (" server.7 = a:1:2 ", Server(ServerId(7), "a", 1, 2)),
    ],
)
def test_one_line(line: str, server: Server) -> None:
    assert parse_server(line) == server
    assert Ensemble.parse(line).servers == (server,)


@pytest.mark.parametrize(
    "line",
    [
        "server",
        "server.1",
        "server.1=",
        "server.1=a",
        "server.1=a:2888",
        "server.1=:2888:3888",
        "server.1=a:2888:3888:voter",
        "server.1=a:2888:3888:observer:x",
        "server.x=a:2888:3888",
        "server.1=a:0:3888",
        "server.1=a:2888:65536",
        "server.1=a:2888:x",
        "server.1=a:2888:2888",
        "server.1=[::1:2888:3888",
        "server.1=[::1]2888:3888",
        "server.1=a:2888:3888;",
        "server.1=a:2888:3888;x:",
        "server.1=a:2888:3888;70000",
        "group.1=",
        "group.x=1",
        "group.1=1:x",
        "weight.1=",
        "weight.1=-1",
        "weight.1",
        "version=xyz",
        "clientPort=2181",
        "nonsense",
    ],
)
def test_a_line_that_is_none_is_refused_with_a_reason(line: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Ensemble.parse(line)
    assert str(refused.value)


@given(st.text(alphabet="server.group.weight=:;[]0123456789,\nab ", max_size=40))
def test_noise_is_an_ensemble_or_a_config_error_and_nothing_else(text: str) -> None:
    try:
        ensemble = Ensemble.parse(text)
    except ConfigError:
        return
    assert Ensemble.parse(ensemble.text()) == ensemble


# -- what cannot be ------------------------------------------------------------------------------------


def groups_of(*members: tuple[int, ...]) -> tuple[Group, ...]:
    return tuple(Group(number, tuple(map(ServerId, sids))) for number, sids in enumerate(members, 1))


def test_one_id_one_server() -> None:
    one, two = plain_servers(2)
    with pytest.raises(ConfigError, match=r"server.1 is listed twice"):
        Ensemble((one, evolve(two, id=ServerId(1))))


@pytest.mark.parametrize(
    ("groups", "weights", "reason"),
    [
        (groups_of((1, 2), (2, 3)), {}, "server 2 is in more than one group"),
        (groups_of((1, 2)), {}, "server 3 votes but is in no group"),
        (groups_of((1, 2, 3, 4)), {}, "server 4 is in a group but is not a participant"),
        (groups_of((1, 2), (3,)), {1: 0, 2: 0, 3: 0}, "every group has weight 0"),
        (groups_of((1, 2), (3,)), {9: 1}, "there is no server.9"),
        (groups_of((1, 2), (3,)), {1: -1}, "a weight must not be negative"),
        ((), {1: 1}, "there are weights but no groups"),
        (
            (Group(1, (ServerId(1),)), Group(1, (ServerId(2), ServerId(3)))),
            {},
            "group.1 is listed twice",
        ),
    ],
)
def test_groups_and_weights_that_contradict(groups: tuple[Group, ...], weights: dict[int, int], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Ensemble(plain_servers(3), groups=groups, weights={ServerId(sid): weight for sid, weight in weights.items()})


def test_two_members_do_not_share_an_address() -> None:
    Ensemble(plain_servers(3)).check_addresses()
    shared = Ensemble.parse("server.1=a:1:2\nserver.2=a:2:3")
    with pytest.raises(ConfigError, match="servers 1 and 2 have the same address, a:2"):
        shared.check_addresses()


# -- quorums -------------------------------------------------------------------------------------------


@given(memberships)
@pytest.mark.mechanism(101, 111)
def test_any_two_quorums_have_a_server_in_common(ensemble: Ensemble) -> None:
    for one, other in combinations(all_quorums(ensemble), 2):
        assert one & other


@given(memberships)
def test_all_voters_are_a_quorum_and_the_empty_set_is_not(ensemble: Ensemble) -> None:
    assert ensemble.is_quorum(ensemble.voters)
    assert not ensemble.is_quorum(())


@given(memberships, st.data())
def test_more_acks_never_lose_a_quorum(ensemble: Ensemble, data: st.DataObject) -> None:
    quorums = all_quorums(ensemble)
    quorum = data.draw(st.sampled_from(quorums))
    more = data.draw(st.sets(st.sampled_from(ensemble.voters)))
    assert ensemble.is_quorum(quorum | more)


@given(memberships, st.data())
def test_meets_every_quorum_matches_its_definition(ensemble: Ensemble, data: st.DataObject) -> None:
    some = data.draw(st.sets(st.sampled_from([*ensemble.by_id])))
    assert ensemble.meets_every_quorum(some) == all(some & quorum for quorum in all_quorums(ensemble))


@given(memberships)
def test_observers_and_strangers_count_for_nothing(ensemble: Ensemble) -> None:
    strangers = {*ensemble.observers, ServerId(999)}
    assert not ensemble.is_quorum(strangers)
    for sid in strangers:
        assert ensemble.weight(sid) == 0
    for size in range(len(ensemble.voters) + 1):
        some = set(ensemble.voters[:size])
        assert ensemble.is_quorum(some) == ensemble.is_quorum(some | strangers)


@pytest.mark.parametrize(("voters", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)])
@pytest.mark.mechanism(101)
def test_a_majority_is_more_than_half(voters: int, needed: int) -> None:
    assert {len(quorum) for quorum in all_quorums(Ensemble(plain_servers(voters)))} == set(range(needed, voters + 1))


@pytest.mark.mechanism(111)
def test_a_hierarchy_is_a_majority_of_groups_each_by_weight() -> None:
    ensemble = Ensemble(
        plain_servers(9), groups=groups_of((1, 2, 3), (4, 5, 6), (7, 8, 9)), weights={ServerId(1): 5, ServerId(9): 0}
    )
    assert ensemble.is_quorum(ids(1, 4, 5)), "1 outweighs its group; two of three carry the second"
    assert not ensemble.is_quorum(ids(2, 3, 4, 5)), "2 and 3 are not half of the weight 7"
    assert ensemble.is_quorum(ids(1, 7, 8)), "9 weighs nothing, so 7 and 8 are everything in the third"
    assert not ensemble.is_quorum(ids(1, 7, 9)), "7 alone is half of 2, and half is not more than half"


def test_a_group_without_weight_does_not_count_as_a_group() -> None:
    ensemble = Ensemble(
        plain_servers(4), groups=groups_of((1,), (2,), (3, 4)), weights={ServerId(3): 0, ServerId(4): 0}
    )
    assert ensemble.is_quorum(ids(1, 2))
    assert not ensemble.is_quorum(ids(1, 3, 4))


def quorum_zxid_by_definition(ensemble: Ensemble, acked: dict[ServerId, Zxid]) -> Zxid:
    """Return the newest zxid that a quorum has acknowledged, by the definition."""

    def reached(zxid: Zxid) -> bool:
        return ensemble.is_quorum([sid for sid in ensemble.voters if acked.get(sid, NOTHING) >= zxid])

    return max(zxid for zxid in {NOTHING, *acked.values()} if reached(zxid))


@given(memberships, st.data())
def test_quorum_zxid_matches_its_definition(ensemble: Ensemble, data: st.DataObject) -> None:
    servers = st.sampled_from([*ensemble.by_id, ServerId(999)])
    acked = data.draw(st.dictionaries(servers, st.builds(make, st.integers(0, 2), st.integers(0, 3))))
    assert ensemble.quorum_zxid(acked) == quorum_zxid_by_definition(ensemble, acked)


@pytest.mark.parametrize("voters", range(1, 8))
def test_quorum_zxid_of_a_majority_at_different_zxids(voters: int) -> None:
    """Even and odd numbers, with and without silent servers, show an index off by one."""
    ensemble = Ensemble(plain_servers(voters))
    for speaking in range(voters + 1):
        acked = {ServerId(sid): make(1, sid) for sid in range(1, speaking + 1)}
        assert ensemble.quorum_zxid(acked) == quorum_zxid_by_definition(ensemble, acked)


# -- change --------------------------------------------------------------------------------------------


def test_joining_leaving_and_replacing() -> None:
    one, two, three, four = plain_servers(4)
    old = Ensemble((one, two, three), make(1, 1))
    new = old.changed(joining=[four, evolve(two, role=Role.OBSERVER)], leaving=[ServerId(1)], version=make(1, 9))
    assert new.servers == (evolve(two, role=Role.OBSERVER), three, four)
    assert (new.voters, new.observers, new.version) == ((3, 4), (2,), make(1, 9))
    assert old.servers == (one, two, three), "a version of the membership is never changed in place"


def test_unknown_server_cannot_leave() -> None:
    with pytest.raises(ConfigError, match="server 9 cannot leave"):
        Ensemble(plain_servers(2)).changed(leaving=[ServerId(9)])


def test_an_ensemble_with_groups_is_changed_as_a_whole() -> None:
    ensemble = Ensemble(plain_servers(2), groups=groups_of((1,), (2,)))
    with pytest.raises(ConfigError, match="replaced as a whole"):
        ensemble.changed(leaving=[ServerId(1)])


@given(ensembles, versions)
def test_the_version_is_no_part_of_the_membership(ensemble: Ensemble, version: Zxid) -> None:
    assert ensemble.same_members(evolve(ensemble, version=version))


def test_same_members_sees_every_difference() -> None:
    one, two = plain_servers(2)
    ensemble = Ensemble((one, two))
    assert not ensemble.same_members(Ensemble((one,)))
    assert not ensemble.same_members(Ensemble((one, evolve(two, role=Role.OBSERVER))))
    assert not ensemble.same_members(Ensemble((one, evolve(two, host="elsewhere"))))
    assert not ensemble.same_members(Ensemble((one, two), groups=groups_of((1,), (2,))))


def test_an_ensemble_is_a_value_also_as_a_key() -> None:
    hierarchy = Ensemble(plain_servers(2), groups=groups_of((1,), (2,)), weights={ServerId(1): 3})
    assert {hierarchy: "known"}[Ensemble.parse(hierarchy.text())] == "known"


def test_the_caller_keeps_no_hold_of_the_weights() -> None:
    weights = {ServerId(1): 3}
    ensemble = Ensemble(plain_servers(2), groups=groups_of((1,), (2,)), weights=weights)
    weights[ServerId(1)] = 0
    assert ensemble.weight(ServerId(1)) == 3


def test_faults_are_found_without_comparing_each_server_with_each_other() -> None:
    compared = 0

    class Counted(int):
        __hash__ = int.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return int(self) == other

    count = 500
    servers = [evolve(plain_servers(1)[0], id=ServerId(Counted(sid))) for sid in range(1, count + 1)]
    groups = [Group(1, tuple(ServerId(Counted(sid)) for sid in range(1, count + 1)))]
    assert list(faults(servers, groups, {})) == []
    assert compared < 10 * count
