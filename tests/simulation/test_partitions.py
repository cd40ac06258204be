"""Partitions in the cores world: brokers with data, on disks that fail, under a controller that fails with them."""

from __future__ import annotations

import pytest
from attrs import evolve

from harness.checkers.partitions.lag import LEAVES
from harness.checkers.partitions.producers import REPLIES
from harness.draw import script_from_seed
from harness.faults import (
    AllowUnclean,
    Blackout,
    BounceBroker,
    BreakDisk,
    Consume,
    CreateTopic,
    CutBroker,
    DeleteRecords,
    KillBroker,
    LosePower,
    Op,
    PartBrokers,
    Produce,
    Replication,
    Script,
    ThrottleReplica,
    WipeBroker,
)
from harness.outcome import Outcome
from harness.script.checks import ScriptError, check
from harness.worlds.cores.partitions.world import PartitionsWorld
from harness.worlds.cores.world import run
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.fetching.follower_fetch_sessions import FollowerFetchSession
from replica.storage.producer_state import ProducerStateManager
from replica.wire.batch import Header
from tests.simulation.elsewhere import printed

SEEDS = range(12)
T0 = TopicPartition("t1", 0)
WRITTEN = (CreateTopic(400, 1, 1, 3), Consume(550, 1, 1, 0), Produce(700, 1, 1, 0, 4))
"""Three replicas, of which broker 1 is preferred to lead, and a few records."""


def script(*ops: Op, voters: int = 1, brokers: int = 3, length_ms: int = 2_000) -> Script:
    ops = tuple(sorted(ops, key=lambda op: op.at))
    return Script(1, voters=voters, machine="partitions", brokers=brokers, ops=ops, length_ms=length_ms)


def played(*ops: Op, brokers: int = 3, length_ms: int = 2_000) -> tuple[PartitionsWorld, dict[str, int]]:
    """The world when all is over, and what happened in it."""
    made = PartitionsWorld(script(*ops, brokers=brokers, length_ms=length_ms))
    return made, healthy(made.run())


def healthy(outcome: Outcome) -> dict[str, int]:
    assert outcome.valid, f"{outcome.invariant}: {outcome.what}"
    return dict(outcome.counts)


def committed(made: PartitionsWorld) -> list[bytes]:
    return [record.value for record in made.checkers.replicas.truth(T0).committed]


def test_written_records_are_on_all_replicas_and_read() -> None:
    made, counts = played(*WRITTEN)
    assert counts["acknowledged all"] == 4
    assert len(committed(made)) == len(set(committed(made))) >= 4
    assert counts["reads"] >= 1
    for broker in made.brokers.values():
        assert [record.value for record in made.checkers.replicas.copies[broker.id][T0].records] == committed(made)


def test_the_leader_is_killed_and_nothing_is_lost_or_twice() -> None:
    made, counts = played(*WRITTEN, Produce(1_000, 1, 1, 0, 8), KillBroker(1_004, 900, 1), Produce(1_300, 1, 1, 0, 3))
    assert counts["acknowledged all"] == 15
    assert counts["replica leads"] >= 2
    assert len(set(committed(made))) == len(committed(made))


def test_a_late_repeat_after_a_restart_is_recognized_or_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    given = (Produce(990 + 2 * number, 2, 1, 0, 1) for number in range(8))
    ops = (CreateTopic(400, 1, 1, 1), *given, BounceBroker(1_012, 300))
    _, counts = played(*ops, brokers=1)
    assert counts["batches repeated"] >= 1
    monkeypatch.setattr(ProducerStateManager, "check", _forgets_the_oldest)
    outcome = PartitionsWorld(script(*ops, brokers=1)).run()
    assert outcome.invariant == REPLIES, outcome.what


def _forgets_the_oldest(self: ProducerStateManager, header: Header) -> object:
    known = self.last_entry(header.producer_id)
    if known is not None and header.last_sequence < known.last_sequence:
        raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "planted")
    return None


def test_disconnected_replica_leaves_isr_and_returns() -> None:
    _, counts = played(*WRITTEN, CutBroker(900, 700, 3), Produce(1_000, 1, 1, 0, 4))
    assert counts["replica isr_changed"] >= 2
    assert counts["acknowledged all"] == 8


RETURNED = (
    Replication(0, lag_ms=150),
    CreateTopic(400, 1, 2, 3),
    *(Produce(700, 1, 1, partition, 2) for partition in (0, 1)),
    *(KillBroker(900, 200, broker) for broker in (2, 3)),
    *(Produce(at, 1, 1, partition, 1) for at in (1_500, 1_560, 2_000, 2_060) for partition in (0, 1)),
)
"""Broker 1 leads two partitions, and the other brokers return to both ISRs, where throttles apply to them."""


@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_throttled_replica_leaves_isr_and_returns(nth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _, before = played(*RETURNED, length_ms=3_000)
    _, counts = played(*RETURNED, ThrottleReplica(1_900, 900, nth), length_ms=3_000)
    assert counts["hit ThrottleReplica"] == 1
    assert counts["replica isr_changed"] == before["replica isr_changed"] + 2
    monkeypatch.setattr(FollowerFetchSession, "rouse", lambda self, where: None)
    outcome = PartitionsWorld(script(*RETURNED, ThrottleReplica(1_900, 900, nth), length_ms=3_000)).run()
    assert outcome.invariant == LEAVES, outcome.what


def test_no_replica_is_throttled_if_none_has_returned() -> None:
    _, counts = played(*WRITTEN, ThrottleReplica(900, 500, 1))
    assert "hit ThrottleReplica" not in counts


def test_acknowledgement_needs_min_insync_replicas() -> None:
    apart = (PartBrokers(900, 900, 1, 2), PartBrokers(900, 900, 1, 3), Produce(950, 2, 1, 0, 1))
    _, counts = played(Replication(0, in_sync=2), *WRITTEN, *apart, Produce(1_500, 1, 1, 0, 2))
    assert counts["produce NOT_ENOUGH_REPLICAS"] >= 1
    assert counts["acknowledged all"] == 7


# -- what is lost, and what is not -----------------------------------------------------------------------


def test_power_takes_what_the_disk_has_not_and_the_others_bring_it_back() -> None:
    made, counts = played(*WRITTEN, LosePower(800, 300, 1))
    assert counts["committed records lost by a disk"] == 1
    assert counts.get("lost by disks", 0) == 0
    assert len(committed(made)) >= 4


def test_an_empty_disk_is_filled_again() -> None:
    made, _ = played(*WRITTEN, WipeBroker(900, 200, 3))
    assert len(made.checkers.replicas.copies[3][T0].records) == len(committed(made)) >= 4


def test_a_disk_that_breaks_takes_its_leader_out() -> None:
    """The controller hears of it, and somebody else leads."""
    _, counts = played(*WRITTEN, BreakDisk(900, 800, 1), Produce(1_000, 1, 1, 0, 4))
    assert counts["replica log_failed"] >= 1
    assert counts["acknowledged all"] == 8


@pytest.mark.parametrize("durability", ["each", "before"])
def test_durable_records_survive_blackout(durability: str) -> None:
    made, counts = played(Replication(0, durability), *WRITTEN, Blackout(1_000, 100))
    assert len(committed(made)) >= 4
    assert counts.get("lost by disks", 0) == 0


def test_cached_records_may_be_lost_by_blackout() -> None:
    made, counts = played(*WRITTEN, Blackout(720, 100))
    assert counts["lost by disks"] >= 1
    assert len(committed(made)) < 4


def test_an_unclean_leader_takes_with_it_what_it_lacks_and_no_more() -> None:
    """Broker 3 misses the second half; those who have it go, and it leads."""
    made, counts = played(
        *WRITTEN,
        AllowUnclean(600, 1),
        CutBroker(800, 900, 3),
        Produce(900, 1, 1, 0, 4),
        KillBroker(1_600, 3_000, 1),
        KillBroker(1_600, 3_000, 2),
        Produce(2_500, 2, 1, 0, 2),
        length_ms=3_500,
    )
    assert counts["point: elected unclean"] >= 1
    assert counts["lost by an unclean election"] >= 4
    assert b"1.all.1" in committed(made)
    assert b"2.all.1" in committed(made)


def test_a_leader_that_lost_records_between_two_controllers_leads_in_another_epoch() -> None:
    """The controller goes with it, so nobody has seen it go. In its old leader epoch it would write other records under
    the offsets of those that it lost, and followers that have them would never know."""
    made, _ = played(
        CreateTopic(400, 2, 1, 3),
        Produce(700, 1, 2, 0, 4),
        Blackout(800, 1, "tear"),
        Produce(850, 2, 2, 0, 4, "one"),
    )
    where = TopicPartition("t2", 0)
    assert made.checkers.replicas.truth(where).led > 0


# -- what goes because it may ----------------------------------------------------------------------------


def test_deleted_records_are_gone_on_all_replicas() -> None:
    """Also with a replica that was not there when it was asked for."""
    gone = DeleteRecords(1_000, 1, 0, 50)
    late = Consume(1_500, 2, 1, 0)
    made, counts = played(*WRITTEN, KillBroker(950, 400, 3), gone, Produce(1_300, 1, 1, 0, 3), late)
    assert counts["delete records NONE"] >= 1
    starts = {made.checkers.replicas.copies[broker][T0].start for broker in made.brokers}
    assert len(starts) == 1
    assert 0 < starts.pop() < len(committed(made))
    assert counts["acknowledged all"] == 7


def test_a_log_that_is_too_long_loses_its_oldest_records_and_comes_back_without_them() -> None:
    many = (Produce(at, 2, 1, 0, 8) for at in range(800, 1_600, 100))
    made, counts = played(Replication(0, retention_bytes=600), *WRITTEN, *many, KillBroker(1_700, 200, 2))
    assert counts["acknowledged all"] == 68
    for broker in made.brokers:
        assert 0 < made.checkers.replicas.copies[broker][T0].start <= len(committed(made))


# -- many ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn(seed: int) -> None:
    healthy(run(script_from_seed(seed, voters=1 + seed % 2 * 2, machine="partitions")))


PROGRAM = """
from harness.draw import script_from_seed
from harness.worlds.cores.world import run
for seed in (1, 5):
    print(run(script_from_seed(seed, voters=1, machine="partitions"), trace=True).trace.hash())
"""


def test_equal_in_another_process_under_another_hash_seed() -> None:
    here = []
    for seed in (1, 5):
        trace = run(script_from_seed(seed, voters=1, machine="partitions"), trace=True).trace
        assert trace is not None
        here.append(trace.hash())
    assert here[0] != here[1]
    assert printed(PROGRAM, "4711") == here


def test_there_are_brokers_to_hold_them() -> None:
    check(script())
    with pytest.raises(ScriptError, match="brokers"):
        check(evolve(script(), brokers=0))
