"""Brokers as shipped and their clients on virtual time: the histories of the clients are judged."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from harness.checkers.records.history import Acked, Committed, Found, Polled, Sought, Trimmed, Undone
from harness.faults import (
    LEADER,
    AllowUnclean,
    Blackout,
    BreakDisk,
    Consume,
    Crash,
    CreateTopic,
    CutBroker,
    DeleteRecords,
    Depart,
    KillBroker,
    LoseStore,
    Op,
    PartBrokers,
    PauseBroker,
    Produce,
    Replication,
    Script,
    Transact,
    WipeBroker,
)
from harness.outcome import Outcome
from harness.worlds.stack.world import run


def script(*more: Op, length_ms: int = 2_500, durability: str = "cache", every_ms: int = 60) -> Script:
    """Return a script with three brokers, a partition of three replicas, producers of each kind, and a consumer."""
    ops: list[Op] = [Replication(0, in_sync=2, durability=durability), CreateTopic(200, 1, 1, 3), Consume(400, 1, 1, 0)]
    ops += [Produce(at, 1 + at // 60 % 2, 1, 0, 2) for at in range(400, length_ms, every_ms)]
    ops += [Produce(at, 3, 1, 0, 1, "one") for at in range(400, length_ms, 200)]
    ops = sorted((*ops, *more), key=lambda op: op.at)
    return Script(1, machine="partitions", brokers=3, length_ms=length_ms, ops=tuple(ops))


def counts(outcome: Outcome) -> dict[str, int]:
    return dict(outcome.counts)


def test_rolling_restart_under_load_fails_no_request() -> None:
    departs = (Depart(800, 100, 1), Depart(1_800, 100, 2), Depart(2_800, 100, 3))
    outcome = run(script(*departs, length_ms=3_800))
    assert outcome.valid, outcome.what
    found = counts(outcome)
    assert found["hit Depart"] == 3
    assert found["broker logs serves"] == 6
    assert found["records sent"] == found["records acknowledged"] > 100
    assert found["records failed"] == found["records unknown"] == found["records unread"] == 0


def test_acknowledged_records_survive_kills_pauses_and_partitions() -> None:
    trouble = (KillBroker(700, 300, 1), LoseStore(1_000, 900, 2), CutBroker(1_300, 400, 0), PauseBroker(1_700, 900, 3))
    tried = evolve(script(*trouble, PartBrokers(600, 500, 2, 3)), faults=(Crash(1_500, 200, LEADER),))
    outcome = run(tried, trace=True)
    assert outcome.valid, outcome.what
    assert counts(outcome)["records acknowledged"] > 50
    history = outcome.records
    assert history is not None
    assert history.complete
    seen = {type(event) for event in history.events}
    assert seen >= {Acked, Polled, Committed, Found}
    again = run(tried, trace=True)
    assert outcome.trace is not None
    assert again.trace is not None
    assert outcome.trace.hash() == again.trace.hash()
    assert outcome == evolve(again, trace=outcome.trace)


@pytest.mark.parametrize("durability", ["each", "before"])
def test_records_flushed_before_acknowledgement_survive_loss_of_all_power(durability: str) -> None:
    outcome = run(script(Blackout(900, 100, "lose"), length_ms=1_600, durability=durability))
    assert outcome.valid, outcome.what
    assert counts(outcome)["records acknowledged"] > 20


# -- disks, and records that may be lost -----------------------------------------------------------------


def test_acknowledged_records_survive_lost_and_failing_disks() -> None:
    """A broker that lost its disk leaves the ISR before it could be elected with an empty log."""
    trouble = WipeBroker(700, 500, 1), BreakDisk(800, 1_400, 3, "write", 3), DeleteRecords(1_000, 1, 0, 50)
    outcome = run(script(*trouble, Consume(1_500, 2, 1, 0), length_ms=2_300, every_ms=100))
    assert outcome.valid, outcome.what
    found = counts(outcome)
    assert found["broker logs log_failed"] >= 1
    assert found["broker logs serves"] >= 5
    assert found["records acknowledged"] > 30
    assert outcome.records is not None
    [trimmed] = [event for event in outcome.records.events if isinstance(event, Trimmed)]
    assert trimmed.upto > 0
    late = [event for event in outcome.records.events if isinstance(event, Sought)]
    assert {event.offset for event in late} == {trimmed.upto}
    assert undone(outcome) == set()


def test_records_lost_by_an_unclean_leader_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broker 3 lacks records of brokers 1 and 2, which are killed."""
    monkeypatch.chdir(tmp_path)
    away = CutBroker(600, 900, 3), KillBroker(1_500, 1_500, 1), KillBroker(1_501, 1_500, 2)
    outcome = run(script(AllowUnclean(450, 1), *away, length_ms=2_600, every_ms=100))
    assert outcome.valid, outcome.what
    assert undone(outcome) == {"t1-0"}
    assert list(tmp_path.iterdir()) == [], "a run leaves no files in the working directory"


def undone(outcome: Outcome) -> set[str]:
    assert outcome.records is not None
    return {event.partition for event in outcome.records.events if isinstance(event, Undone)}


def test_transactions_are_atomic_while_brokers_are_killed() -> None:
    ops: list[Op] = [Replication(0, in_sync=2), CreateTopic(200, 8, 2, 3), Consume(500, 1, 8, 0), Produce(900, 5, 8)]
    fates = ("commits", "vanishes", "aborts")
    ops += [Transact(600 + 90 * each, 1 + each % 2, 8, fate=fates[each // 2 % 3]) for each in range(12)]
    ops = sorted((*ops, KillBroker(900, 200, 1), KillBroker(1_400, 200, 2)), key=lambda op: op.at)
    outcome = run(Script(1, machine="partitions", brokers=3, length_ms=1_800, ops=tuple(ops)))
    assert outcome.valid, outcome.what
    found = counts(outcome)
    assert found["transactions committed"] >= 2
    assert found["transactions open"] >= 2
    assert found["records sent"] == 0
