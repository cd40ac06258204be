"""The servers that may connect, and the addresses at which they are dialled, by the known memberships."""

from __future__ import annotations

import pytest

from zab.core.ensemble import NO_HOST, Ensemble, Server
from zab.core.zxid import NOTHING, ServerId, Zxid, make
from zab.service.peer_directory import PeerDirectory
from zab.wire.greeting import WrongPeer

ONE, TWO, THREE = map(ServerId, (1, 2, 3))


def members(*servers: Server, version: Zxid = NOTHING) -> Ensemble:
    return Ensemble(servers, version)


def at(sid: ServerId, host: str) -> Server:
    return Server(sid, host, 2888, 3888)


GIVEN = members(at(ONE, "h1"), at(TWO, "h2"), at(THREE, "h3"))


class Node:
    """The memberships of a node."""

    def __init__(self, ensemble: Ensemble = GIVEN) -> None:
        self.ensemble = ensemble
        self.pending: Ensemble | None = None


def directory(node: Node, *, admit_non_members: bool = False) -> PeerDirectory:
    return PeerDirectory(node, ONE, GIVEN, parting_ms=5_000, admit_non_members=admit_non_members)


def refused(it: PeerDirectory, sid: ServerId, now: float) -> bool:
    try:
        it.hosts(sid, "elsewhere", now)
    except WrongPeer:
        return True
    return False


def test_addresses_of_the_newest_membership_come_first() -> None:
    node = Node(members(at(ONE, "h1"), at(TWO, "moved"), version=make(1, 1)))
    node.pending = members(at(ONE, "h1"), at(TWO, "soon"), version=make(1, 2))
    it = directory(node)
    assert it.election_addresses(TWO) == [("soon", 3888), ("moved", 3888), ("h2", 3888)]
    assert it.quorum_addresses(THREE) == [("h3", 2888)]
    assert it.election_addresses(ServerId(9)) == []


def test_only_members_may_connect_and_a_pending_change_counts() -> None:
    node = Node()
    it = directory(node)
    assert it.hosts(TWO, "elsewhere", 0) == ["h2"]
    with pytest.raises(WrongPeer, match="server 4 is not a member of the ensemble that server 1 knows"):
        it.hosts(ServerId(4), "h4", 0)
    node.pending = members(*GIVEN.servers, at(ServerId(4), "h4"), version=make(1, 1))
    assert it.hosts(ServerId(4), "elsewhere", 0) == ["h4"]
    assert it.is_known("h4")
    assert not it.is_known("h5")


def test_server_that_left_may_connect_for_a_while() -> None:
    node = Node()
    it = directory(node)
    node.ensemble = members(at(ONE, "h1"), at(TWO, "h2"), version=make(1, 1))
    assert it.activate(node.ensemble, 10) == [(THREE, 15)]
    assert it.hosts(THREE, "elsewhere", 14.9) == ["h3"]
    assert not it.must_part(THREE, 14.9)
    assert refused(it, THREE, 15)
    assert it.must_part(THREE, 15)


def test_server_that_came_back_stays() -> None:
    node = Node()
    it = directory(node)
    it.activate(members(at(ONE, "h1"), at(TWO, "h2"), version=make(1, 1)), 10)
    assert it.activate(GIVEN, 11) == []
    assert it.hosts(THREE, "elsewhere", 100) == ["h3"]
    assert not it.must_part(THREE, 100)


def test_admitted_non_member_lives_where_it_introduces_itself_and_is_not_cut() -> None:
    node = Node()
    it = directory(node, admit_non_members=True)
    assert it.hosts(ServerId(4), "h4", 0) == ["h4"]
    assert it.hosts(TWO, "elsewhere", 0) == ["h2"]
    node.ensemble = members(at(ONE, "h1"), at(TWO, "h2"), version=make(1, 1))
    it.activate(node.ensemble, 10)
    assert not it.must_part(THREE, 100)


def test_server_listens_where_the_membership_says() -> None:
    node = Node(members(at(ONE, "moved"), version=make(1, 1)))
    it = directory(node)
    assert it.own_entry(listens=True) == at(ONE, "moved")
    node.ensemble = members(Server(ONE, NO_HOST, 1, 2))
    assert it.own_entry(listens=False) is None, "a single server has no address"


def test_server_outside_of_the_membership_listens_where_it_was_started_and_keeps_its_ports() -> None:
    it = directory(Node(members(at(TWO, "h2"))))
    assert it.own_entry(listens=False) == at(ONE, "h1")
    assert it.own_entry(listens=True) is None
