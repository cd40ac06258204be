"""Groups in the cores world: who commits where it is, coordinators that come and go, and the topic that is cleaned."""

from __future__ import annotations

from attrs import evolve

from harness.checkers.transactions import TransactionOutcome
from harness.faults import (
    OFFSETS,
    BounceBroker,
    CommitPositions,
    Consume,
    CreateTopic,
    CutBroker,
    ElectPreferred,
    KillBroker,
    Op,
    PauseBroker,
    Produce,
    Reassign,
    Replication,
    Script,
    Transact,
)
from harness.script.names import TRANSACTIONS
from harness.worlds.cores.partitions.committers import MemberRecorder
from harness.worlds.cores.partitions.simulator import with_members
from harness.worlds.cores.partitions.world import PartitionsWorld
from kraft_controller.core.names import OFFSETS_TOPIC, TopicPartition
from replica.core.errors import ErrorCode
from replica.core.groups.group_messages import Commit, Committed, GroupIdentity, OffsetAndMetadata

VALID = CreateTopic(400, OFFSETS, 1, 3)
"""The topic of positions, in one partition, of which broker 3 is preferred to lead."""
WHERE = TopicPartition(OFFSETS_TOPIC, 0)


def played(*ops: Op, length_ms: int = 2_500) -> tuple[PartitionsWorld, dict[str, int]]:
    """The world when all is over, and what happened in it."""
    ops = tuple(sorted(ops, key=lambda op: op.at))
    script = Script(1, voters=1, machine="partitions", brokers=3, ops=ops, length_ms=length_ms)
    made = PartitionsWorld(evolve(script, knobs=evolve(script.knobs, segment_bytes=400)))
    outcome = made.run()
    assert outcome.valid, f"{outcome.invariant}: {outcome.what}"
    return made, dict(outcome.counts)


def test_next_coordinator_has_committed_offsets() -> None:
    _, counts = played(
        VALID,
        CommitPositions(700, 1, 1, "alone", 5),
        CommitPositions(700, 2, 1, "alone", 5),
        KillBroker(900, 600, 3),
        CommitPositions(1_500, 1, 1, "alone", 5),
        ElectPreferred(1_900, OFFSETS, 0, "call"),
        CommitPositions(2_000, 2, 1, "alone", 5),
    )
    assert counts["positions acknowledged"] >= 20
    assert counts["positions shown"] >= 4
    assert counts["groups loaded"] >= 2


def test_members_take_partitions_over_and_who_is_none_any_more_commits_nothing() -> None:
    _, counts = played(
        VALID,
        *(CommitPositions(700 + 100 * number, number, 1, "member", 30) for number in (1, 2, 3)),
        PauseBroker(1_300, 500, 3),
        CutBroker(1_500, 400, 2),
    )
    assert counts["positions acknowledged"] >= 90
    assert counts["partitions taken over"] >= 6
    assert counts["groups rebalancing"] >= 3
    assert counts["commit UNKNOWN_MEMBER_ID"] + counts.get("commit ILLEGAL_GENERATION", 0) >= 1


def test_compaction_keeps_newest_offsets_for_moved_replica() -> None:
    made, counts = played(
        VALID,
        *(CommitPositions(at, client, 1, "alone", 6) for client in (1, 2) for at in range(700, 1_700, 200)),
        Reassign(1_800, OFFSETS, 0, 1, 3, "call"),
        BounceBroker(2_000, 3),
        *(CommitPositions(2_300, client, 1, "alone", 1) for client in (1, 2)),
    )
    assert counts["positions acknowledged"] >= 62
    assert counts["records replaced"] >= 20
    committed = len(made.checkers.replicas.truth(WHERE).committed)
    for broker in made.brokers.values():
        log = broker.disk.logs.logs[WHERE.topic, WHERE.partition]
        assert log.end_offset == committed
        assert log.start_offset == 0


def test_offsets_need_their_topic() -> None:
    _, counts = played(CommitPositions(700, 1, 1, "alone", 2), CommitPositions(700, 1, 1, "member", 2))
    assert "positions acknowledged" not in counts


def test_retention_deletes_old_records_on_followers_too() -> None:
    writes = (Produce(at, 1, 1, 0, 3) for at in range(700, 1_900, 100))
    made, counts = played(
        Replication(0, retention_ms=300),
        CreateTopic(400, 1, 1, 3),
        Consume(550, 1, 1, 0),
        *writes,
        KillBroker(1_000, 500, 2),
    )
    where = TopicPartition("t1", 0)
    assert counts["acknowledged all"] == 36
    starts = [made.checkers.replicas.copies[broker][where].start for broker in made.brokers]
    assert all(0 < start <= len(made.checkers.replicas.truth(where).committed) for start in starts)


def test_late_commit_of_earlier_generation_is_refused() -> None:
    _, counts = played(
        VALID,
        *(CommitPositions(700 + 150 * number, number, 1, "hasty", 30) for number in (1, 2, 3)),
    )
    assert counts["late commits"] >= 1
    assert counts["positions acknowledged"] >= 90


def judged(*doubtful: str, begins: int, generation: int, commits: int) -> str | None:
    """A member has come to 10 in generation 1, and another one begins there and commits that; what is broken then."""
    script = Script(1, voters=1, machine="partitions", brokers=3, length_ms=600)
    world = PartitionsWorld(script)
    held = world.outcome()
    group, where = "group-1", TopicPartition("data", 0)
    for member, (round_, begin, offset) in (("a", (1, 0, 10)), ("b", (generation, begins, commits))):
        identity = GroupIdentity(group, member, round_)
        recorder = MemberRecorder(world, group)
        recorder.assigned(identity, where, begin)
        recorder.commits(Commit(identity, {where: OffsetAndMetadata(offset)}), lambda _: None)(
            Committed({where: ErrorCode.NONE})
        )
    return with_members(held, world.recorders, lambda group: group in doubtful).invariant


def test_replies_to_members_are_checked() -> None:
    assert judged(begins=10, generation=2, commits=12) is None
    assert judged(begins=0, generation=2, commits=5) == "a group's position does not decrease"
    assert judged(begins=10, generation=1, commits=12) == "one owner per partition and generation"
    assert judged("group-1", begins=0, generation=2, commits=5) is None


def transactions(*others: Op) -> tuple[PartitionsWorld, dict[str, int]]:
    """Run transactions of three ids: client 1 vanishes twice, and client 4, which has the same id, takes over."""
    fates = ((1, "commits"), (2, "aborts"), (3, "commits"), (1, "vanishes"), (2, "commits"), (4, "commits"))
    written = (
        Transact(700 + 130 * place, client, TRANSACTIONS, 0, 1, 1, fate)
        for place, (client, fate) in enumerate(fates * 2)
    )
    return played(CreateTopic(400, TRANSACTIONS, 2, 3), *written, *others, length_ms=3_000)


def test_transactions_commit_offsets_of_groups() -> None:
    made, counts = transactions(VALID, BounceBroker(1_450, 3))
    assert counts["offsets committed in transactions by members"] >= 3
    assert counts["offsets committed in transactions by others"] >= 3
    assert counts["fenced producers come back"] >= 3
    assert counts["positions unstable"] >= 3
    assert counts["stable positions shown"] >= 3
    assert counts["groups loaded"] >= 2
    assert made.journal.fenced == []
    committed = [each.positions for each in made.journal.transactions if each.outcome is TransactionOutcome.COMMITTED]
    assert len(committed) >= 6
    shown = {reply.where: reply.offset for reply in made.journal.positions}
    assert shown == {name: offset for positions in committed for name, offset in positions.items()}


def test_transactions_commit_no_offsets_without_their_topic() -> None:
    made, counts = transactions()
    assert counts["transactions committed"] >= 6
    assert "positions acknowledged in transactions" not in counts
    assert all(not each.positions for each in made.journal.transactions)
