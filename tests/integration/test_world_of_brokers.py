"""Real brokers on a store of real servers, under a script: the histories of the clients are judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.checkers.records import loads
from harness.checkers.records.history import Assigned, Committed, Committing, Found, Polled, Trimmed
from harness.cli import main
from harness.faults import (
    LEADER,
    AllowUnclean,
    BreakDisk,
    Consume,
    Crash,
    CreateTopic,
    CutBroker,
    DeleteRecords,
    Depart,
    JoinGroup,
    KillBroker,
    LoseStore,
    Op,
    PartBrokers,
    PauseBroker,
    Produce,
    Replication,
    Script,
    WipeBroker,
)
from harness.scripts import dumps
from harness.worlds.processes.brokers.workload import MEMBERS

pytestmark = pytest.mark.slow
LENGTH_MS = 4_500


def under_load(*more: Op) -> tuple[Op, ...]:
    ops: list[Op] = [Replication(0, in_sync=2), CreateTopic(0, 1, 2, 3), Consume(200, 1, 1, 0), Consume(200, 2, 1, 1)]
    ops += [Produce(at, 1 + at // 100 % 3, 1, at // 100 % 2, 2) for at in range(300, LENGTH_MS, 100)]
    return tuple(sorted((*ops, *more), key=lambda op: op.at))


def told(path: Path, script: Script, capsys: pytest.CaptureFixture[str], commit: type = Committing) -> dict[str, int]:
    """Return the counts of a valid run. `commit`: Committed, if no fault may spoil all commits of a slow machine."""
    (path / "script").write_text(dumps(script))
    history = path / "history"
    arguments = ["--script", str(path / "script"), "--world", "processes", "--history", str(history)]
    code = main(["replay", "--json", *arguments])
    found = json.loads(capsys.readouterr().out)
    assert (code, found["valid"]) == (0, True), found["what"]
    assert main(["check", str(history)]) == 0
    kinds = {type(event) for event in loads(history.read_text()).events}
    assert kinds >= {Polled, commit, Found}
    counts: dict[str, int] = found["counts"]
    return counts


def test_rolling_restart_fails_no_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    departs = (Depart(800, 200, 1), Depart(900, 200, 2), Depart(1_000, 200, 3))
    script = Script(1, machine="partitions", brokers=3, length_ms=LENGTH_MS, ops=under_load(*departs))
    counts = told(tmp_path, script, capsys, Committed)
    assert counts["hit Depart"] == 3
    assert counts["records sent"] == counts["records acknowledged"] == counts["records read"] > 50
    assert counts["records failed"] == counts["records unknown"] == counts["records repeated"] == 0


def test_acknowledged_records_survive_kills_pauses_and_partitions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trouble = (
        KillBroker(700, 300, 1),
        LoseStore(1_500, 2_500, 2),
        PartBrokers(2_000, 800, 1, 3),
        CutBroker(3_000, 800, 3),
        PauseBroker(2_500, 2_000, 0),
    )
    script = Script(
        2,
        machine="partitions",
        brokers=3,
        length_ms=LENGTH_MS,
        ops=under_load(*trouble),
        faults=(Crash(1_000, 300, LEADER),),
    )
    counts = told(tmp_path, script, capsys)
    hits = {name for name in counts if name.startswith("hit ")} | {"hit PauseBroker"}
    assert hits == {f"hit {type(each).__name__}" for each in trouble}, "the pause may find no controller"
    assert counts["records acknowledged"] > 10, "too few records for a test; the number depends on the machine"


def test_acknowledged_records_survive_lost_and_failing_disks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trouble = (
        AllowUnclean(400, 1),
        WipeBroker(700, 300, 1),
        DeleteRecords(1_500, 1, 0, 50),
        BreakDisk(3_000, 800, 3, "write", 2),
    )
    ops = under_load(*trouble)
    script = Script(4, voters=1, machine="partitions", brokers=3, length_ms=LENGTH_MS, ops=ops)
    counts = told(tmp_path, script, capsys)
    assert {name for name in counts if name.startswith("hit ")} == {"hit WipeBroker", "hit BreakDisk"}
    assert counts["records acknowledged"] > 10, "too few records for a test; the number depends on the machine"
    assert any(isinstance(event, Trimmed) for event in loads((tmp_path / "history").read_text()).events)


def test_group_of_foreign_clients_rebalances_and_reads_every_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The members use two client libraries. One member and one broker are killed."""
    members = (
        JoinGroup(400, 4_000, 1, 1, "confluent"),
        JoinGroup(600, 1_000, 2, 1, "python", "killed"),
        JoinGroup(800, 4_000, 3, 1, "python"),
    )
    ops = under_load(*members, KillBroker(3_000, 300, 2))
    script = Script(3, voters=1, machine="partitions", brokers=3, length_ms=LENGTH_MS, ops=ops)
    counts = told(tmp_path, script, capsys)
    assert (counts["member confluent"], counts["member python"]) == (1, 3)  # one of them is there to read the rest
    seen = [event for event in loads((tmp_path / "history").read_text()).events if event.client >= MEMBERS]
    given = [event for event in seen if isinstance(event, Assigned) and event.begins]
    assert len({event.generation for event in given}) > 2
    assert len({event.client for event in seen if isinstance(event, Polled)}) > 2
    assert {type(event) for event in seen} >= {Polled, Committed, Found}
    assert sum(isinstance(event, Polled) for event in seen) >= counts["records acknowledged"]
