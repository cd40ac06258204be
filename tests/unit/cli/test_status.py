"""The verdict of `zab status` from servers' answers."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import click
import pytest
import trio
from attrs import evolve
from rich.console import Console

from zab.cli.status import status_command
from zab.cli.status.server_queries import (
    Followers,
    Membership,
    ServerReport,
    ServerRow,
    _from_overview,
    read_membership,
)
from zab.cli.status.status_command import DEGRADED, HEALTHY, Health, addresses, as_table, judge, look


def words(where: str, sid: int | None, mode: str, zxid: int = 0x100000005) -> ServerReport:
    return ServerReport((ServerRow(where, sid, mode, zxid),), by_words=True)


ENSEMBLE = [words("a:1", 1, "leader"), words("b:1", 2, "follower"), words("c:1", 3, "follower")]


def test_one_leader_with_followers_is_healthy() -> None:
    assert judge(ENSEMBLE) == Health(judge(ENSEMBLE).rows, (), HEALTHY)


def test_server_alone_beside_others_is_another_ensemble() -> None:
    for others in (ENSEMBLE[:2], [words("d:1", None, "standalone", 0x100000001)]):
        found = judge([*others, words("x:1", None, "standalone")])
        assert found.status == DEGRADED
        assert any(
            "x:1: it is standalone: the others belong to a different ensemble" in said for said in found.problems
        )
    assert judge([words("x:1", None, "standalone")]).status == HEALTHY


def test_server_named_at_two_ports_has_one_row() -> None:
    by_client_port, by_admin_port = words("x:1", None, "standalone"), words("x:1", 1, "standalone")
    for reports in ([by_client_port, by_admin_port], [by_admin_port, by_client_port]):
        assert judge(reports) == Health(judge([by_admin_port]).rows, (), HEALTHY)


def test_two_leaders_are_of_different_ensembles() -> None:
    found = judge([*ENSEMBLE, words("d:1", 4, "leader")])
    assert (found.status, "belong to different ensembles" in found.problems[0]) == (DEGRADED, True)


def test_two_servers_of_one_number_are_two() -> None:
    found = judge([words("here:1", 1, "follower"), words("here:2", 2, "leader"), words("here:3", 1, "follower")])
    assert [row.where for row in found.rows] == ["here:1", "here:3", "here:2"]
    why = "they belong to different ensembles, or one of them has a wrong myid"
    assert found.problems == (f"here:1 and here:3 both report the id 1: {why}",)


@pytest.mark.parametrize(("second", "lag"), [(0x100000010, 0), (0x100000004, 3)])
def test_progress_during_the_queries_is_no_lag(monkeypatch: pytest.MonkeyPatch, second: int, lag: int) -> None:
    """The follower was asked before the leader."""
    follower: Iterator[int] = iter([0x100000003, second])

    async def ask(where: str, host: str, port: int, timeout_s: float) -> ServerReport:
        if host == "a":
            return words(where, 1, "leader", 0x100000007)
        return words(where, 2, "follower", next(follower))

    monkeypatch.setattr(status_command, "ask", ask)

    async def main() -> Health:
        return await look([("a:1", "a", 1), ("b:1", "b", 1)], 1)

    found = trio.run(main)
    assert [row.lag for row in found.rows] == [0, lag]
    assert found.status == HEALTHY


def test_follower_alone_names_the_other_servers() -> None:
    found = judge(ENSEMBLE[1:2])
    assert (found.status, len(found.problems)) == (DEGRADED, 1)
    assert "the client ports of the others are unknown" in found.problems[0]
    assert "name all servers" in judge(ENSEMBLE[1:]).problems[0]
    silent = ServerReport((ServerRow("a:1", problem="no answer in 5 s"),))
    assert "may be one of those that did not" in judge([silent, *ENSEMBLE[1:]]).problems[1]


def leader_with(*counts: int | None) -> ServerReport:
    return evolve(ENSEMBLE[0], followers=Followers(*counts))


def test_leader_alone_is_judged_by_its_followers() -> None:
    assert judge([leader_with(3, 2)]).status == HEALTHY
    assert judge([leader_with(3, 2, 1, 1)]).status == HEALTHY
    for counts, missing in (((3, 1), "1 of 3 servers does not"), ((5, 2, 1, 0), "3 of 6 servers do not")):
        found = judge([leader_with(*counts)])
        assert found.status == DEGRADED
        assert f"server 1 at a:1: {missing} follow this leader; name all servers" in found.problems[0]
    for unknown in (leader_with(3), leader_with()):
        found = judge([unknown])
        assert (found.status, len(found.problems)) == (DEGRADED, 1)


def test_member_that_was_asked_is_not_counted_among_the_missing() -> None:
    down = ServerReport((ServerRow("c:1", problem="connection refused"),))
    assert judge([leader_with(3, 1), ENSEMBLE[1], down]).problems == ("c:1: connection refused",)
    assert judge([leader_with(3, 1), *ENSEMBLE[1:]]).status == HEALTHY, "it was synchronized after the leader was asked"
    assert judge([leader_with(3, 1), ENSEMBLE[1]]).status == DEGRADED


def test_membership_is_read_from_the_text_of_a_configuration() -> None:
    text = "server.1=a:1:2:participant;3\nserver.2=b:1:2\nserver.3=c:1:2:observer\nversion=0"
    assert read_membership(text) == Membership(("a:3",), 2, 1)
    assert read_membership("") is None


def test_missing_server_is_logged_once() -> None:
    row = {"id": 3, "host": "c", "client_port": 1, "connected": False, "mode": "unreachable"}
    text = "it is not in the running ensemble; last report 7 s ago"
    told = _from_overview(
        {"members": [row], "warnings": [{"server": 3, "text": text}, {"server": 1, "text": "x"}]}, "a"
    )
    assert [row.problem for row in told.rows] == [text]
    assert told.warnings == ("server 1: x",)


def test_missing_servers_are_named_by_id_address_and_port() -> None:
    members = [
        {"id": 1, "host": "h", "client_port": 0, "quorum_port": 2888, "connected": False, "mode": "unreachable"},
        {"id": 2, "host": "h", "client_port": 2182, "quorum_port": 2889, "connected": False, "mode": "lost"},
    ]
    found = judge([_from_overview({"members": members, "warnings": []}, "a")])
    assert found.problems == (
        "server 1 at h:2888: it is not in the running ensemble",
        "server 2 at h:2182: it is not in the running ensemble",
    )


def test_survivor_that_stays_out_does_not_judge_the_others() -> None:
    common = {"host": "h", "client_port": 0, "quorum_port": 2888}
    own = {"connected": True, "mode": "vetoing", "zxid": "0x1", "lag": None, "sessions": 0, "connections": 0}
    own |= {"requests_per_s": 0, "latency_us": 0, "outstanding": 0, "version": "1", "serving": False, "epoch": 1}
    members = [
        {"id": 1, "connected": False, "mode": "unknown", **common},
        {"id": 3, **own, **common, "quorum_port": 2890},
    ]
    found = judge([_from_overview({"members": members, "warnings": [{"server": 3, "text": "veto: why"}]}, "a")])
    assert found.problems == (
        "server 3 at h:2890: it vetoes its leader, and cannot see whether the others serve: query them, too",
        "server 3: veto: why",
    )
    assert "as seen by a server that stays out" in text_of(found)


def text_of(health: Health) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(as_table(health, 200))
    return console.export_text()


def test_epoch_of_a_zxid_is_not_called_the_leaders() -> None:
    """The leader of a new epoch that has proposed nothing has a zxid of the one before."""
    assert text_of(judge(ENSEMBLE)).splitlines()[0].rstrip() == "● healthy   server 1 leads"
    known = Health((ServerRow("a:1", 1, "leader", 0x100000005, epoch=3),), (), HEALTHY)
    assert "server 1 leads, epoch 3" in text_of(known)


def test_url_in_place_of_an_address_is_refused_with_the_form() -> None:
    with pytest.raises(click.UsageError, match="give HOST:PORT alone, without http:// and path"):
        addresses(["http://127.0.0.1:8080"])


def full(where: str, sid: int) -> ServerRow:
    return ServerRow(
        where, sid, "follower", 0x7F00000000000005, 123456, 1000, 2000, 30000, 12.5, 7, "3.9.5-zab-1.0.0, built on x"
    )


@pytest.mark.parametrize("where", ["127.0.0.1:99999", "127.0.0.1:0", "here"])
def test_invalid_port_is_refused_with_the_limits(where: str) -> None:
    with pytest.raises(click.UsageError, match="a port is a number from 1 to 65535"):
        addresses([where])


@pytest.mark.parametrize("width", [64, 80, 100, 200])
def test_table_fits_the_terminal_and_cuts_no_value(width: int) -> None:
    health = Health((full("192.168.100.101:2181", 1), full("192.168.100.102:2181", 2)), (), HEALTHY)
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(as_table(health, width))
    lines = console.export_text().splitlines()
    assert len(lines) == 4, "no line is folded"
    assert all(len(line.rstrip()) <= width for line in lines)
    for value in ("192.168.100.101:2181", "follower", "0x7f00000000000005"):
        assert value in lines[2]
    assert ("zab 1.0.0" in lines[2]) == (width == 200)


@pytest.mark.parametrize("width", [80, 100, 200])
def test_mixed_ensemble_shows_what_each_server_is(width: int) -> None:
    mixed = full("zk1.example:2181", 1), evolve(full("zk2.example:2181", 2), version="3.9.5-0ab1")
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(as_table(Health(mixed, (), HEALTHY), width))
    lines = console.export_text().splitlines()
    assert ["zab 1.0.0" in lines[2], "ZooKeeper 3.9.5" in lines[3]] == [True, True]
    assert all(len(each.rstrip()) <= width for each in lines)
    told = json.loads(status_command.as_json(Health(mixed, (), HEALTHY)))
    assert [each["software"] for each in told["servers"]] == ["zab 1.0.0", "ZooKeeper 3.9.5"]
