"""Situations that must occur: they are seen where they are, a campaign that misses one says so, and pages list them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import probes
from harness.checkers import Judge, OracleState
from harness.cli import main
from harness.draw import script_from_seed
from harness.history import History, Info, Invoke, Reply, Request, Response, SessionEvent, WatchFired
from harness.members import member
from harness.probes import OF_PARTITIONS, OF_SERVERS, PREFIX, Probe, missed, probes_of
from harness.probes.observer import Probes, probes_hit
from harness.profiles import BY_NAME
from harness.worlds.cores.world import run
from zab.core.batch import pack
from zab.core.ensemble import Ensemble
from zab.core.messages import Ack, NewLeader, State
from zab.core.ready import Append, Recovered, SaveEpochs, Truncate
from zab.core.zxid import NOTHING, Epoch, ServerId, make

ONE, TWO, THREE = ServerId(1), ServerId(2), ServerId(3)
ENSEMBLE = Ensemble((member(ONE), member(TWO), member(THREE)))
PAGE = Path(__file__).parents[2] / "docs" / "harness-verdicts.md"


@pytest.fixture
def judge() -> Judge:
    judge = Judge(OracleState(ENSEMBLE, 3), [Probes])
    for sid in (ONE, TWO, THREE):
        judge.started(sid, Recovered(Epoch(0), Epoch(0)), NOTHING)
    return judge


def hits(judge: Judge) -> set[str]:
    points = judge.checkers[0]
    assert isinstance(points, Probes)
    return set(points.hits)


def leads(judge: Judge, sid: ServerId, epoch: int) -> None:
    judge.role(sid, State.LEADING, judge.ghost.servers[sid].epoch, sid, False)
    judge.role(sid, State.LEADING, Epoch(epoch), sid, False)
    judge.role(sid, State.LEADING, Epoch(epoch), sid, True)


def test_a_leader_dies_between_the_quorum_and_the_commit(judge: Judge) -> None:
    leads(judge, THREE, 1)
    batch = pack(make(1, 1), [b"x"])
    judge.appended(THREE, batch)
    judge.appended(ONE, batch)
    judge.durable_append(THREE, batch)
    judge.durable_append(ONE, batch)
    judge.crashed(THREE)
    assert hits(judge) == {"quorum acked, leader dies"}


def test_it_is_another_matter_when_only_the_leader_has_it(judge: Judge) -> None:
    leads(judge, THREE, 1)
    batch = pack(make(1, 1), [b"x"])
    judge.appended(THREE, batch)
    judge.durable_append(THREE, batch)
    judge.crashed(THREE)
    assert hits(judge) == {"unacked, leader dies"}


def test_newleader_is_lost_with_its_learner(judge: Judge) -> None:
    leads(judge, THREE, 1)
    judge.said[NewLeader](THREE, ONE, NewLeader(Epoch(1), ENSEMBLE))
    judge.crashed(ONE)
    assert hits(judge) == {"NEWLEADER unanswered"}


def test_a_late_voter_and_a_deposed_leader(judge: Judge) -> None:
    leads(judge, THREE, 1)
    judge.role(ONE, State.FOLLOWING, Epoch(0), THREE, False)
    assert hits(judge) == {"late voter"}
    judge.role(TWO, State.LEADING, Epoch(0), TWO, False)
    judge.role(TWO, State.LEADING, Epoch(2), TWO, False)
    judge.barrier_asked(THREE, 1)
    judge.role(THREE, State.LOOKING, Epoch(1), None, False)
    assert {"two candidates", "deposed leader serves", "deposed leader gets barrier"} <= hits(judge)


def test_deaths_with_writes_on_their_way(judge: Judge) -> None:
    batch = pack(make(1, 1), [b"x"])
    judge.crashed(ONE, [Append(1, batch), SaveEpochs(2, Epoch(1), Epoch(1), ENSEMBLE)])
    judge.truncated(TWO, NOTHING)
    judge.crashed(TWO, [Truncate(1, NOTHING)])
    assert hits(judge) == {"dies at adoption", "dies after a truncation"}


def test_an_acknowledgement_that_comes_late(judge: Judge) -> None:
    leads(judge, THREE, 1)
    batch = pack(make(1, 1), [b"x"])
    for sid in (THREE, ONE, TWO):
        judge.appended(sid, batch)
        judge.durable_append(sid, batch)
    judge.said[Ack](ONE, THREE, Ack(batch.last))
    assert not hits(judge)
    judge.committed(THREE, batch.last, True)
    judge.said[Ack](TWO, THREE, Ack(batch.last))
    assert hits(judge) == {"late acknowledgement"}


def test_probes_in_history_of_clients() -> None:
    create = Request("create", "/a", b"1")
    multi = Request("multi", parts=(create, create))
    history = History(
        (
            SessionEvent(1, 1, 7, "connected", 1, 100),
            Invoke(2, 1, 7, 1, 1, multi),
            Response(3, 1, 7, 1, Reply("NODE_EXISTS", 1, parts=(Reply(), Reply("NODE_EXISTS")))),
            Invoke(4, 1, 7, 2, 1, create),
            Info(5, 1, 7, 2),
            SessionEvent(5, 1, 7, "disconnected", 1, 100),
            SessionEvent(6, 1, 7, "connected", 2, 100),
            WatchFired(7, 1, 7, "data", "/a", 0),
            SessionEvent(8, 1, 7, "disconnected", 2, 100),
            SessionEvent(9, 1, 7, "expired", 3, 100),
        )
    )
    found = probes_hit(Probes(OracleState(ENSEMBLE, 3)), {"log": 2}, history)
    assert {name.removeprefix(PREFIX) for name in found} == {
        "sync from disk",
        "multi refused in the middle",
        "unknown and undone",
        "session moves",
        "watch fires on return",
        "expiry races a create",
    }
    assert found[PREFIX + "sync from disk"] == 2


def test_a_few_runs_come_to_most_of_them() -> None:
    """And what a run came to is in its counts, where campaigns add it up."""
    total: dict[str, int] = {}
    for seed in range(5):
        for name, times in run(script_from_seed(seed, voters=5)).counts:
            total[name] = total.get(name, 0) + times
    assert len(missed(total, probes_of("list"))) < 20


def test_partitions_come_to_all_of_theirs() -> None:
    """Where leaders change all the time, where logs are too long, and where somebody asks for an unclean election."""
    counts: dict[str, int] = {}
    for script in (
        BY_NAME["partition-leader-changes"].script(0, voters=1),
        BY_NAME["partition-leader-changes"].script(1, voters=1),
        BY_NAME["retention-by-size"].script(0, voters=1),
        script_from_seed(99, voters=1, machine="partitions"),
    ):
        counts |= {name: times for name, times in run(script).counts if times}
    assert missed(counts, probes_of("partitions")) == []


def test_controller_has_no_probes() -> None:
    assert probes_of("controller") == ()


ONE_KIND = ("--machine", "list", "--world", "cores", "--profile", "usual")


def test_a_campaign_that_misses_one_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    never = Probe("the moon falls", "nothing of the kind", 2)
    later = Probe("the sun falls", "nor of this kind", 3)
    monkeypatch.setattr(probes, "OF_SERVERS", (never, later))
    assert main(["fuzz", "--runs", "2", "--jobs", "1", *ONE_KIND]) == 1
    said = capsys.readouterr().out
    assert "OVERDUE the moon falls: nothing of the kind (once in 2 runs)" in said
    assert "never yet the sun falls" in said


def test_smaller_runs_need_not_come_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "OF_SERVERS", (Probe("the moon falls", "nothing of the kind", 1),))
    assert (
        main(
            [
                "fuzz",
                "--runs",
                "1",
                "--jobs",
                "1",
                "--faults",
                "2",
                "--machine",
                "list",
                "--world",
                "cores",
                "--profile",
                "usual",
            ]
        )
        == 0
    )


def test_the_page_lists_them_as_they_are() -> None:
    rows = [
        f"| {point.name} | {point.what} | {point.budget}{' (store)' if point.store else ''} |" for point in OF_SERVERS
    ]
    rows_of_partitions = [f"| {point.name} | {point.what} | {point.budget} |" for point in OF_PARTITIONS]
    assert "\n".join(rows_of_partitions) in PAGE.read_text()
    assert "\n".join(rows) in PAGE.read_text()
