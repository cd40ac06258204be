"""The plan of a migration: from the answers of servers, and from a zoo.cfg, to checks and the next step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner

from tests.unit.cli import server_answers as real
from zab.cli.migration.ensemble_config import EnsembleConfig, read_config
from zab.cli.migration.migrate_command import as_json, as_lines
from zab.cli.migration.migration_plan import Plan, make_plan
from zab.cli.migration.server_answers import Answers, ServerState, newest_zxid, state_of, with_distances
from zab.cli.migration.server_survey import addresses_of
from zab.cli.root import zab
from zab.cli.status.server_software import Software, software_of
from zab.config.config_source import BadConfig
from zab.core.ensemble import parse_server
from zab.runtime.admin.report import VERSION

ROOT = Path(__file__).resolve().parents[3]
SERVERS = "".join(f"server.{sid}=zk{sid}:2888:3888\n" for sid in (1, 2, 3))
BASE = f"tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir=/data/zk\nclientPort=2181\n{SERVERS}"
ZOOKEEPER, ZAB = Software("ZooKeeper", "3.9.5"), Software("zab", "1.0.0")
ZXID = 0x500000007


def config(folder: Path, more: str = "", text: str = BASE) -> EnsembleConfig:
    path = folder / "zoo.cfg"
    path.write_text(text + more)
    return read_config(path)


def member(sid: int, mode: str, software: Software = ZOOKEEPER) -> ServerState:
    return ServerState(
        sid,
        f"zk{sid}:2181",
        mode != "observer",
        software,
        mode,
        ZXID,
        0,
        0,
        2 if mode == "leader" else None,
        speaks_zookeeper=software == ZAB,
        reported_id=sid,
    )


def trio_of(*kinds: tuple[str, Software]) -> list[ServerState]:
    return [member(sid, mode, software) for sid, (mode, software) in enumerate(kinds, start=1)]


THEIRS = trio_of(("follower", ZOOKEEPER), ("leader", ZOOKEEPER), ("follower", ZOOKEEPER))


def failed(plan: Plan) -> list[str]:
    return [each.name for each in plan.checks if not each.holds]


def commands(plan: Plan) -> str:
    assert plan.step is not None
    return "\n".join(line for part in plan.step.parts for line in part.lines)


# -- answers of real servers ---------------------------------------------------------------------------


def line(sid: int) -> object:
    return next(each for each in real.CONF_ZOOKEEPER.splitlines() if each.startswith(f"server.{sid}="))


def test_leader_of_zookeeper_is_read_from_words() -> None:
    found = state_of(
        parse_server(str(line(real.LEADER))),
        "zk",
        Answers(real.SRVR_LEADER, real.MNTR_LEADER, real.CONF_ZOOKEEPER),
    )
    assert found.software == ZOOKEEPER
    assert (found.mode, found.zxid, found.digest_mismatches) == ("leader", real.ZXID, 0)
    assert (found.synced_followers, found.learners, found.reported_id) == (2, 2, real.LEADER)
    assert {item[0] for item in found.members or ()} == {1, 2, 3}
    assert (found.problem, found.is_ours, found.serves) == ("", False, True)


def test_follower_of_zab_is_read_from_words() -> None:
    found = state_of(parse_server(str(line(real.OURS))), "zk", Answers(real.SRVR_ZAB, real.MNTR_ZAB, real.CONF_ZAB))
    assert found.software == ZAB
    assert (found.mode, found.zxid, found.digest_mismatches) == ("follower", real.ZXID, 0)
    assert (found.reported_id, found.is_ours, found.speaks_zookeeper) == (real.OURS, True, True)
    assert (
        found.members
        == state_of(
            parse_server(str(line(real.LEADER))), "zk", Answers(real.SRVR_LEADER, conf=real.CONF_ZOOKEEPER)
        ).members
    ), "both kinds report the same membership"


def test_default_whitelist_leaves_numbers_unknown() -> None:
    """ZooKeeper allows only srvr by default."""
    refused = "{} is not executed because it is not in the whitelist."
    answers = Answers(real.SRVR_LEADER, refused.format("mntr"), refused.format("conf"))
    assert (answers.lacks_state, answers.lacks_numbers) == (False, True)
    found = state_of(parse_server(str(line(real.LEADER))), "zk", answers)
    assert (found.mode, found.software) == ("leader", ZOOKEEPER)
    assert (found.digest_mismatches, found.synced_followers, found.reported_id, found.members) == (None,) * 4


def admin(sid: int) -> Answers:
    monitor = {"version": "3.9.5-abc, built on x", "server_state": "leader", "synced_followers": 2, "learners": 3}
    return Answers(
        "srvr is not executed because it is not in the whitelist.",
        monitor={**monitor, "digest_mismatches_count": 0},
        statistics={"server_stats": {"last_processed_zxid": ZXID}},
        configuration={"server_id": sid},
    )


def test_admin_port_takes_the_place_of_refused_words() -> None:
    found = state_of(parse_server("server.2=a:1:2"), "a:3", admin(2))
    assert (found.software, found.mode, found.zxid) == (ZOOKEEPER, "leader", ZXID)
    assert (found.digest_mismatches, found.synced_followers, found.learners, found.reported_id) == (0, 2, 3, 2)


def test_admin_port_of_another_server_is_ignored() -> None:
    found = state_of(parse_server("server.1=a:1:2"), "a:3", admin(2))
    assert "server 2 uses that admin port" in found.problem
    assert "4lw.commands.whitelist=srvr,mntr,conf" in found.remedy


@pytest.mark.parametrize(
    ("answers", "mode", "problem"),
    [
        (Answers("This ZooKeeper instance is not currently serving requests"), "looking", "does not serve"),
        (Answers(monitor={"error": "This ZooKeeper instance is not serving"}), "looking", "does not serve"),
        (Answers(real.SRVR_LEADER.replace("leader", "standalone")), "standalone", "it is standalone"),
        (Answers(real.SRVR_LEADER.replace("leader", "read-only")), "read-only", "serves only reads"),
        (Answers("220 mail.example"), "unreachable", "the reply to srvr is '220 mail.example'"),
        (Answers(failure="it cannot be reached: refused"), "unreachable", "it cannot be reached: refused"),
        (Answers(monitor={"server_state": "?"}), "unreachable", "the server_state '?'"),
    ],
)
def test_server_that_does_not_take_part_has_a_problem_and_a_remedy(answers: Answers, mode: str, problem: str) -> None:
    found = state_of(parse_server("server.1=a:1:2"), "a:3", answers)
    assert (found.mode, found.serves) == (mode, False)
    assert problem in found.problem
    assert found.remedy


@pytest.mark.parametrize(
    ("version", "software"),
    [
        ("3.9.5-0ab1, built on 2026-01-01 00:00 UTC", "ZooKeeper 3.9.5"),
        ("3.4.14-4c25d4, built on 03/06/2019 16:18 GMT", "ZooKeeper 3.4.14"),
        (VERSION, "zab 1.0.0"),
        ("3.9.5-zab, built on 11/20/2026 00:00 UTC", "zab"),
        ("", "None"),
    ],
)
def test_software_is_known_by_its_version(version: str, software: str) -> None:
    assert str(software_of(version)) == software


def test_reported_release_is_that_of_the_package() -> None:
    assert f'\nversion = "{(software_of(VERSION) or ZAB).release}"\n' in (ROOT / "pyproject.toml").read_text()


# -- distances -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zxids", "behind"),
    [
        ((0x500000007, 0x500000005), [0, 2]),
        ((0x600000000, 0x500000007), [0, 0]),  # the leader of epoch 6 has proposed nothing
        ((0x600000001, 0x500000007), [0, None]),
        ((0x600000001, 0x600000000), [0, 1]),
        ((0x100000000, 0x0), [0, 0]),
    ],
)
def test_distance_is_measured_within_an_epoch(zxids: Sequence[int], behind: list[int | None]) -> None:
    states = [ServerState(sid, "", zxid=zxid) for sid, zxid in enumerate(zxids)]
    assert [each.behind for each in with_distances(states, newest_zxid(states))] == behind


# -- the order of the steps ----------------------------------------------------------------------------


def test_followers_come_first_and_the_leader_last(tmp_path: Path) -> None:
    read, states, order = config(tmp_path), list(THEIRS), []
    while (plan := make_plan(read, states, back=False)).step is not None:
        assert plan.may_continue
        order.append(plan.step.server)
        states[plan.step.server - 1] = evolve(states[plan.step.server - 1], software=ZAB, speaks_zookeeper=True)
    assert order == [1, 3, 2]
    assert plan.is_done
    order = []
    while (plan := make_plan(read, states, back=True)).step is not None:
        order.append(plan.step.server)
        states[plan.step.server - 1] = evolve(states[plan.step.server - 1], software=ZOOKEEPER)
    assert order == [1, 3, 2]
    assert "All servers are Apache ZooKeeper" in plan.closing[0]


def test_observers_come_before_followers(tmp_path: Path) -> None:
    read = config(tmp_path, "server.4=zk4:2888:3888:observer\n")
    plan = make_plan(read, [*THEIRS, member(4, "observer")], back=False)
    assert plan.step is not None
    assert (plan.step.server, plan.may_continue) == (4, True)


def test_step_names_its_election(tmp_path: Path) -> None:
    states = trio_of(("follower", ZAB), ("leader", ZOOKEEPER), ("follower", ZAB))
    plan = make_plan(config(tmp_path), states, back=False)
    assert plan.step is not None
    assert "server 2 (leader, ZooKeeper 3.9.5) by zab; its stop causes an election" in plan.step.title


def test_commands_forwards_check_the_file_before_the_stop(tmp_path: Path) -> None:
    read = config(tmp_path, "dataLogDir=/log/zk\n4lw.commands.whitelist=srvr, dump\n")
    said = commands(make_plan(read, THEIRS, back=False))
    wanted = [
        "mkdir /data/zk-zab /log/zk-zab", "cp /data/zk/myid /data/zk-zab/", "dataDir=/data/zk-zab",
        "dataLogDir=/log/zk-zab", "peerProtocol=zookeeper", "4lw.commands.whitelist=dump,srvr,conf,mntr,ruok",
        f"zab serve --check {tmp_path}/zab.cfg", f"bin/zkServer.sh stop {tmp_path}/zoo.cfg",
        "zab import /data/zk /data/zk-zab --log-dir /log/zk &&\n", f"zab serve {tmp_path}/zab.cfg",
    ]  # fmt: skip
    assert sorted(wanted, key=said.index) == wanted


def test_commands_backwards_put_the_old_directory_aside(tmp_path: Path) -> None:
    states = trio_of(("follower", ZAB), ("leader", ZAB), ("follower", ZAB))
    plan = make_plan(config(tmp_path), states, back=True, target=Path("/new"))
    said = commands(plan)
    wanted = [
        "kill -TERM", "zab export /new /data/zk.exported &&", "mv /data/zk /data/zk.$(date",
        "mv /data/zk.exported /data/zk", "mv /new /new.$(date", "bin/zkServer.sh start",
    ]  # fmt: skip
    assert sorted(wanted, key=said.index) == wanted
    assert "peerProtocol=zookeeper" in make_plan(config(tmp_path), states, back=False).closing[-1]


def test_own_protocol_ends_the_way_back_without_a_stop(tmp_path: Path) -> None:
    states = [evolve(each, software=ZAB, speaks_zookeeper=False) for each in THEIRS]
    plan = make_plan(config(tmp_path), states, back=True)
    assert set(failed(plan)) == {"protocol"}
    assert "speaks zab's own protocol" in plan.checks[-2].text
    assert make_plan(config(tmp_path), states, back=False).closing == (
        "All servers are zab, and speak their own protocol with each other.",
    )


def test_way_back_changes_once_zab_has_served(tmp_path: Path) -> None:
    plan = make_plan(config(tmp_path), THEIRS, back=False)
    assert plan.step is not None
    before, stopped, served = plan.step.way_back
    assert "nothing has changed" in before
    assert "start ZooKeeper again" in stopped
    assert "plan --back. Do not start ZooKeeper on the old /data/zk" in served


# -- checks --------------------------------------------------------------------------------------------


def changed(sid: int, **values: Any) -> list[ServerState]:
    return [evolve(each, **values) if each.id == sid else each for each in THEIRS]


@pytest.mark.parametrize(
    ("states", "check", "text"),
    [
        (
            changed(1, mode="looking", problem="it does not serve", remedy="wait"),
            "answers",
            "server 1 at zk1:2181: it does not serve",
        ),
        (changed(1, reported_id=3), "membership", "zk1:2181 is server 3, and not server 1"),
        (changed(1, where="zk2:2181"), "membership", "servers 1 and 2 have the same client address"),
        (changed(1, members=frozenset({(1, 2888, 3888, "participant")})), "membership", "server.2, server.3 differs"),
        (changed(1, mode="observer"), "membership", "a participant in the file, and its mode is observer"),
        (changed(1, software=Software("ZooKeeper", "3.4.14")), "versions", "the oldest supported version is 3.5"),
        (changed(1, software=None), "versions", "reports no version"),
        (changed(2, mode="follower"), "leader", "no server leads"),
        (changed(1, mode="leader"), "leader", "servers 1 and 2 lead"),
        (changed(2, synced_followers=1), "leader", "1 of 2 followers are in sync"),
        (changed(3, behind=4), "lag", "server 3 at zk3:2181 is 4 transactions behind"),
        (changed(3, behind=None), "lag", "in an older epoch than the leader"),
        (changed(3, zxid=None, behind=None), "lag", "without a zxid"),
        (changed(3, digest_mismatches=1), "digests", "found 1 difference between its tree and the leader's"),
        (changed(3, software=ZAB, digest_mismatches=None), "digests", "mntr is not allowed"),
    ],
)
def test_failed_check_stops_the_move_and_names_the_remedy(
    tmp_path: Path, states: list[ServerState], check: str, text: str
) -> None:
    read = config(tmp_path)
    plan = make_plan(read, states, back=False)
    assert not plan.may_continue
    (found,) = [each for each in plan.checks if text in each.text]
    assert (found.name, found.holds) == (check, False)
    assert found.remedy
    said = "\n".join(as_lines(plan, read))
    assert f"-> {found.remedy}" in said
    assert "Take no step" in said
    assert as_json(plan)["next"] is None


def test_quorum_must_remain_without_the_server(tmp_path: Path) -> None:
    two = BASE.replace("server.3=zk3:2888:3888\n", "")
    states = [evolve(each, synced_followers=1) if each.mode == "leader" else each for each in THEIRS[:2]]
    plan = make_plan(config(tmp_path, text=two), states, back=False)
    assert failed(plan) == ["quorum"]
    assert "without server 1 there is no quorum: 2 voters, of which server 2 would remain" in plan.checks[-1].text
    assert "add a voter" in plan.checks[-1].remedy


def test_stopped_server_may_finish_its_step(tmp_path: Path) -> None:
    states = changed(1, mode="unreachable", software=None, zxid=None, behind=None, reported_id=None, problem="down")
    states[1] = evolve(states[1], synced_followers=1)
    read = config(tmp_path)
    for back, command in (
        (False, "zab import /data/zk /data/zk-zab"),
        (True, "zab export /data/zk-zab /data/zk.exported"),
    ):
        plan = make_plan(read, states, back=back)
        assert not plan.may_continue
        assert plan.begun is not None
        assert command in "\n".join(as_lines(plan, read))
        assert plan.begun.way_back


def test_unknown_numbers_of_zookeeper_are_a_warning(tmp_path: Path) -> None:
    states = [evolve(each, digest_mismatches=None, synced_followers=None, reported_id=None) for each in THEIRS]
    plan = make_plan(config(tmp_path), states, back=False)
    assert plan.may_continue
    assert any("servers 1, 2 and 3: digest mismatches" in each and "whitelist" in each for each in plan.warnings)


def test_version_that_was_not_tested_is_a_warning(tmp_path: Path) -> None:
    for release, is_known in (("3.5.10", True), ("3.7.2", True), ("3.10.0", False), ("4.0.0", False)):
        plan = make_plan(config(tmp_path), changed(1, software=Software("ZooKeeper", release)), back=False)
        assert plan.may_continue
        assert any("was tested with 3.5 to 3.9" in each for each in plan.warnings) != is_known


def test_release_without_digests_is_a_warning(tmp_path: Path) -> None:
    old = changed(1, software=Software("ZooKeeper", "3.5.10"), digest_mismatches=None)
    plan = make_plan(config(tmp_path), old, back=False)
    assert plan.may_continue
    assert [each for each in plan.warnings if "digest" in each] == [
        "server 1: ZooKeeper has no digests before 3.6. While such a server leads, no difference of trees is noticed"
    ]


def test_plan_as_json_is_plain(tmp_path: Path) -> None:
    told = json.loads(json.dumps(as_json(make_plan(config(tmp_path), THEIRS, back=False))))
    assert (told["may_continue"], told["done"], told["next"]["server"]) == (True, False, 1)
    assert [each["software"] for each in told["servers"]] == ["ZooKeeper 3.9.5"] * 3


# -- the zoo.cfg ---------------------------------------------------------------------------------------


def test_client_addresses_come_from_lines_keys_and_options(tmp_path: Path) -> None:
    text = BASE.replace("zk2:2888:3888", "zk2:2888:3888;c2:2182").replace("zk3:2888:3888", "zk3:2888:3888;2183")
    found = addresses_of(config(tmp_path, text=text), {1: ("other", 5)})
    assert [each.client for each in found] == [("other", 5), ("c2", 2182), ("zk3", 2183)]
    assert {each.admin for each in found} == {(f"zk{sid}", 8080) for sid in (1, 2, 3)}
    none = config(tmp_path, "admin.enableServer=false\n", BASE.replace("clientPort=2181\n", "secureClientPort=2281\n"))
    assert {(each.client, each.admin) for each in addresses_of(none, {})} == {(None, None)}


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ("quorum.auth.enableSasl=true\n", "the passwords of servers are in a JAAS file"),
        ("requireKerberosConfig=true\n", "clients or servers log in with Kerberos"),
        ("group.1=1:2:3\n", "group.N or weight.N"),
        ("authProvider.1=org.example.Custom\n", "a Java class cannot be loaded"),
    ],
)
def test_unsupported_setting_is_reported_before_any_step(tmp_path: Path, more: str, text: str) -> None:
    plan = make_plan(config(tmp_path, more), THEIRS, back=False)
    assert failed(plan) == ["configuration"]
    assert text in plan.checks[0].text
    assert plan.checks[0].remedy
    assert plan.begun is None


def test_several_addresses_of_a_server_are_reported_before_any_step(tmp_path: Path) -> None:
    text = BASE.replace("zk3:2888:3888", "zk3:2888:3888|zk3b:2888:3888")
    plan = make_plan(config(tmp_path, text=text), THEIRS, back=False)
    assert failed(plan) == ["configuration"]
    assert "several addresses of a server" in plan.checks[0].text


def test_login_module_of_kerberos_is_found_in_its_file(tmp_path: Path) -> None:
    jaas = tmp_path / "jaas.conf"
    jaas.write_text("Server { com.sun.security.auth.module.Krb5LoginModule required; };")
    read = config(tmp_path, f"java.security.auth.login.config={jaas}\n")
    assert [each.text for each in read.obstacles] == [
        f"{tmp_path}/zoo.cfg: clients or servers log in with Kerberos, which servers of zab do not support"
    ]
    jaas.unlink()
    assert any("not on this machine" in each for each in read_config(tmp_path / "zoo.cfg").warnings)


def test_settings_without_effect_and_reconfig_are_warnings(tmp_path: Path) -> None:
    read = config(tmp_path, "reconfigEnabled=true\nadmin.forceHttps=true\n")
    assert any("reconfigure nothing during a step" in each for each in read.warnings)
    assert any("admin.forceHttps" in each for each in read.warnings)
    assert make_plan(read, THEIRS, back=False).may_continue


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (BASE.replace("dataDir=/data/zk\n", ""), "dataDir is missing"),
        (BASE + "peerProtocol=zookeeper\n", "this is a file for `zab serve`"),
        (BASE + "server.4=zk4\n", "server.4"),
    ],
)
def test_mistake_in_the_file_is_reported_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(BadConfig, match=problem):
        config(tmp_path, text=text)


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(zab, ["migrate", "plan", *words], catch_exceptions=False)
    return done.exit_code, done.output


def test_missing_file_and_wrong_options_are_misuse(tmp_path: Path) -> None:
    status, output = run(str(tmp_path / "none.cfg"))
    assert (status, "none.cfg: cannot be read" in output) == (2, True)
    config(tmp_path)
    for server, said in (("x", "expected N=HOST:PORT"), ("9=a:1", "has no line server.9"), ("1=a", "is not HOST:PORT")):
        status, output = run(str(tmp_path / "zoo.cfg"), "--server", server)
        assert (status, said in output.replace("\n", " ")) == (2, True), output


def test_standalone_server_is_a_failed_check(tmp_path: Path) -> None:
    config(tmp_path, text="dataDir=/data/zk\nclientPort=2181\n")
    status, output = run(str(tmp_path / "zoo.cfg"))
    assert status == 1
    assert "a standalone server cannot be replaced while it runs" in output
    assert json.loads(run(str(tmp_path / "zoo.cfg"), "--json")[1])["may_continue"] is False
