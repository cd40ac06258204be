"""The meaning of a client's reconfiguration request, and its errors."""

from __future__ import annotations

import pytest

from zab.core.ensemble import Ensemble
from zab.runtime.member_arguments import single_server_ensemble
from zab.runtime.store_server.config_node import JOINING_MAX, MEMBERSHIP_CHARS_MAX, text_of, wanted
from zab.store.error_codes import ErrorCode, RequestFailed

THREE = Ensemble.parse(
    "server.1=a:2888:3888:participant;a:2181,server.2=b:2888:3888;2181,server.3=c:2888:3888;2181,version=100000007"
)


def wish(joining: str | None = None, leaving: str | None = None, members: str | None = None) -> Ensemble:
    return wanted((joining, leaving, members, -1), THREE, two_voters=True)


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
    assert wanted((None, "2,3", None, -1), THREE, two_voters=False).voters == (1,)
    with pytest.raises(RequestFailed):
        wanted((None, "1,2,3", None, -1), THREE, two_voters=False)


@pytest.mark.parametrize(("joining", "leaving"), [(None, "two"), ("server.x=d:1:2;3", None)])
def test_length_that_is_no_number_is_no_request(joining: str | None, leaving: str | None) -> None:
    with pytest.raises(RequestFailed) as caught:
        wish(joining, leaving)
    assert caught.value.code == ErrorCode.MARSHALLING_ERROR


def test_groups_are_changed_as_a_whole() -> None:
    grouped = Ensemble.parse("server.1=a:1:2,server.2=b:1:2,server.3=c:1:2,group.1=1:2:3")
    with pytest.raises(RequestFailed) as caught:
        wanted((None, "3", None, -1), grouped, two_voters=True)
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
