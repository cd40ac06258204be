"""The meaning of a client's reconfiguration request, and its errors."""

from __future__ import annotations

import pytest
from attrs import evolve, frozen

from zab.core.ensemble import Ensemble
from zab.core.errors import (
    ChangeLost,
    ConfigError,
    NewConfigNoQuorum,
    NotLeader,
    Overloaded,
    ReconfigInProgress,
    Stopped,
    WrongVersion,
    ZabError,
)
from zab.core.zxid import ServerId, Zxid
from zab.runtime.member_arguments import single_server_ensemble
from zab.service.client_sessions import BARRIER
from zab.service.config_node import (
    ATTEMPTS_MAX,
    JOINING_MAX,
    MEMBERSHIP_CHARS_MAX,
    Answer,
    ConfigNode,
    ReconfigurationSteps,
    check_request,
    ensemble_asked_for,
    text_of,
)
from zab.store import transactions
from zab.store.error_codes import ErrorCode, RequestFailed
from zab.store.operations import Fields
from zab.store.paths import CONFIG
from zab.store.store import Store

THREE = Ensemble.parse(
    "server.1=a:2888:3888:participant;a:2181,server.2=b:2888:3888;2181,server.3=c:2888:3888;2181,version=100000007"
)


def wish(joining: str | None = None, leaving: str | None = None, members: str | None = None) -> Ensemble:
    return ensemble_asked_for((joining, leaving, members, -1), THREE, two_voters=True)


def test_some_join_and_some_leave() -> None:
    new = wish(" server.4=d:2888:3888:observer;2181 ,", "3, 9")
    assert (new.voters, new.observers) == ((1, 2), (4,)), "who is no member has left already"
    assert new.version == THREE.version


def test_rejoining_server_replaces_its_entry() -> None:
    assert wish("server.3=elsewhere:2888:3888;2181").by_id[THREE.servers[2].id].host == "elsewhere"
    assert wish("server.3=c:2888:3888;2181", "3").voters == (1, 2, 3)


def test_all_members_at_once() -> None:
    new = wish(members="server.1=a:2888:3888;2181\nserver.5=e:2888:3888:participant")
    assert new.voters == (1, 5)


@pytest.mark.parametrize(
    "joining",
    [
        "server.4=d:2888:3888",  # no port for clients
        "server.4=d:2888;2181",
        "server.4=",
        "server.4",
        "server.4=d:2888:3888:king;2181",
        "server.4=a:2888:3888;2181",  # taken
        "server.4=d:2888:3888;a:2181",  # taken by server 1's clients
        "server.4=d:1:1;2181",
        "server.0=d:2888:3888;2181",
    ],
)
def test_refused_joins(joining: str) -> None:
    with pytest.raises(RequestFailed) as caught:
        wish(joining)
    assert caught.value.code == ErrorCode.BAD_ARGUMENTS


@pytest.mark.parametrize("members", ["", "server.1=a:1:2", "nonsense=1", "server.1=a:1:2,server.2=a:1:3"])
def test_invalid_membership(members: str) -> None:
    with pytest.raises(RequestFailed) as caught:
        wish(members=members)
    assert caught.value.code == ErrorCode.BAD_ARGUMENTS


def test_two_have_to_stay_if_one_would_be_standalone() -> None:
    with pytest.raises(RequestFailed) as caught:
        wish(leaving="2,3")
    assert caught.value.code == ErrorCode.BAD_ARGUMENTS
    assert ensemble_asked_for((None, "2,3", None, -1), THREE, two_voters=False).voters == (1,)
    with pytest.raises(RequestFailed):
        ensemble_asked_for((None, "1,2,3", None, -1), THREE, two_voters=False)


@pytest.mark.parametrize(("joining", "leaving"), [(None, "two"), ("server.x=d:1:2;3", None)])
def test_length_that_is_no_number_is_no_request(joining: str | None, leaving: str | None) -> None:
    with pytest.raises(RequestFailed) as caught:
        wish(joining, leaving)
    assert caught.value.code == ErrorCode.MARSHALLING_ERROR


def test_groups_are_changed_as_a_whole() -> None:
    grouped = Ensemble.parse("server.1=a:1:2,server.2=b:1:2,server.3=c:1:2,group.1=1:2:3")
    with pytest.raises(RequestFailed) as caught:
        ensemble_asked_for((None, "3", None, -1), grouped, two_voters=True)
    assert caught.value.code == ErrorCode.BAD_ARGUMENTS


def test_the_text_is_the_one_of_a_configuration_file() -> None:
    assert text_of(THREE).decode().splitlines() == [
        "server.1=a:2888:3888:participant;a:2181",
        "server.2=b:2888:3888:participant;0.0.0.0:2181",
        "server.3=c:2888:3888:participant;0.0.0.0:2181",
        "version=100000007",
    ]
    assert text_of(single_server_ensemble(1)) == b""


def servers(count: int) -> str:
    return ",".join(f"server.{sid}=h{sid}:2888:3888;2181" for sid in range(10, 10 + count))


def test_a_reconfiguration_is_bounded_before_it_is_read() -> None:
    assert len(wish(joining=servers(JOINING_MAX)).voters) == JOINING_MAX + 3
    for joining, leaving, members in (
        (servers(JOINING_MAX + 1), None, None),
        (None, "1," * MEMBERSHIP_CHARS_MAX, None),
        (None, None, servers(1) + " " * MEMBERSHIP_CHARS_MAX),
    ):
        with pytest.raises(RequestFailed, match="BAD_ARGUMENTS"):
            wish(joining, leaving, members)


@pytest.mark.parametrize("digits", ["9" * 101, "9" * 5000])
def test_a_number_of_too_many_digits_cannot_be_read(digits: str) -> None:
    with pytest.raises(RequestFailed, match="MARSHALLING_ERROR"):
        wish(leaving=digits)
    with pytest.raises(RequestFailed, match="MARSHALLING_ERROR"):
        wish(joining=f"server.{digits}=d:2888:3888;2181")


# -- the check at the leader ------------------------------------------------------------------------


@frozen
class Settings:
    reconfig_enabled: bool = True
    standalone_enabled: bool = True


@frozen
class Status:
    ensemble: Ensemble = THREE
    pending: Ensemble | None = None
    synced: tuple[ServerId, ...] = (ServerId(2), ServerId(3))
    server: ServerId = ServerId(1)


def test_errors_of_a_request_in_zookeepers_order() -> None:
    """Each request fails for its own reason and for all later ones. The first reason is the answer."""
    bad: Fields = (None, None, "nonsense=1", 5)
    alone = Status(single_server_ensemble(1), pending=THREE, synced=())
    joined: Fields = ("server.4=d:1:2;3,server.5=e:1:2;3", "2,3", None, THREE.version)
    for fields, status, settings, code in (
        (bad, alone, Settings(reconfig_enabled=False), ErrorCode.RECONFIG_DISABLED),
        (bad, alone, Settings(), ErrorCode.UNIMPLEMENTED),
        (bad, Status(pending=THREE, synced=()), Settings(), ErrorCode.RECONFIG_IN_PROGRESS),
        (bad, Status(synced=()), Settings(), ErrorCode.BAD_VERSION),
        ((*bad[:3], -1), Status(synced=()), Settings(), ErrorCode.BAD_ARGUMENTS),
        (joined, Status(), Settings(), ErrorCode.NEW_CONFIG_NO_QUORUM),
    ):
        with pytest.raises(RequestFailed) as caught:
            check_request(fields, status, settings)
        assert caught.value.code == code
    check_request((None, "3", None, THREE.version), Status(synced=(ServerId(2),)), Settings())


# -- the change ----------------------------------------------------------------------------------------

LEAVE: Fields = (None, "3", None, -1)


def change_of(fields: Fields, current: list[Ensemble]) -> ReconfigurationSteps:
    """Change the last of these memberships."""
    return ConfigNode(ServerId(1), Store(), Settings()).change(fields, lambda: current[-1])


def answer_of(steps: ReconfigurationSteps, error: Exception | None = None) -> Answer:
    with pytest.raises(StopIteration) as caught:
        if error is None:
            next(steps)
        else:
            steps.throw(error)
    answer: Answer = caught.value.value
    return answer


def test_change_is_answered_once_it_is_applied_here() -> None:
    steps = change_of(LEAVE, [THREE])
    assert next(steps) == ensemble_asked_for(LEAVE, THREE, two_voters=True)
    assert next(steps) is BARRIER
    assert answer_of(steps) == (ErrorCode.OK, Store().tree.nodes[CONFIG])


@pytest.mark.parametrize("error", [NotLeader("x"), Overloaded("x"), ChangeLost("x"), WrongVersion("x")])
def test_change_is_tried_again_with_the_membership_of_then(error: ZabError) -> None:
    current = [THREE]
    steps = change_of(LEAVE, current)
    next(steps)
    assert steps.throw(error) is BARRIER
    current.append(evolve(THREE, version=Zxid(THREE.version + 1)))
    asked = next(steps)
    assert isinstance(asked, Ensemble)
    assert asked.version == THREE.version + 1


def test_change_of_a_named_version_fails_after_another_change() -> None:
    current = [THREE]
    steps = change_of((*LEAVE[:3], THREE.version), current)
    next(steps)
    steps.throw(WrongVersion("x"))
    current.append(evolve(THREE, version=Zxid(THREE.version + 1)))
    assert answer_of(steps) == (ErrorCode.BAD_VERSION, None)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ReconfigInProgress("x"), ErrorCode.RECONFIG_IN_PROGRESS),
        (NewConfigNoQuorum("x"), ErrorCode.NEW_CONFIG_NO_QUORUM),
        (ConfigError("x"), ErrorCode.BAD_ARGUMENTS),
    ],
)
def test_errors_of_the_consensus_as_the_client_gets_them(error: ZabError, code: ErrorCode) -> None:
    steps = change_of(LEAVE, [THREE])
    next(steps)
    assert answer_of(steps, error) == (code, None)


def test_change_ends_after_too_many_attempts_and_at_any_other_error() -> None:
    steps = change_of(LEAVE, [THREE])
    for _ in range(ATTEMPTS_MAX):
        next(steps)
        assert steps.throw(WrongVersion("x")) is BARRIER
    with pytest.raises(ZabError, match="attempts to change the membership failed"):
        next(steps)
    steps = change_of(LEAVE, [THREE])
    next(steps)
    with pytest.raises(Stopped):
        steps.throw(Stopped("closed"))


def test_node_that_the_changes_transaction_has_set_stays_as_it_is() -> None:
    store, zxid = Store(), Zxid(5)
    node = ConfigNode(ServerId(1), store, Settings())
    node.on_membership(THREE, None)
    store.apply(zxid, transactions.set_data(9, 1, 1_000, CONFIG, b"as the leader writes it", -1, transactions.RECONFIG))
    changed = evolve(THREE, version=zxid)
    node.on_membership(changed, zxid)
    node.on_membership(changed, None)
    node.restored()
    data, _, _, mzxid, _, mtime, version, *_ = store.tree.nodes[CONFIG]
    assert (data, mzxid, mtime, version) == (b"as the leader writes it", zxid, 1_000, -1)


def test_only_another_address_of_this_servers_clients_is_reported() -> None:
    node = ConfigNode(ServerId(1), Store(), Settings())
    assert not node.on_membership(THREE, None), "the first one is the address at which it is served already"
    assert not node.on_membership(THREE.changed(leaving=[ServerId(3)]), None)
    moved = Ensemble.parse("server.1=a:2888:3888;a:2182,server.2=b:2888:3888;2181")
    assert not node.on_membership(moved, Zxid(1)), "applied, and not in force"
    assert node.on_membership(moved, None)
    assert node.client_address == ("a", 2182)
    assert not node.on_membership(THREE.changed(leaving=[ServerId(1)]), None), "it has none"
