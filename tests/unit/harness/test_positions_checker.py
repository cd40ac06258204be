"""The checker of committed offsets: it compares a coordinator's replies with the committed records of its partition."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import pytest
from attrs import evolve

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.copies import CONTROL, GONE, TRANSACTIONAL, Record
from harness.checkers.partitions.positions import (
    FENCED,
    FENCED_PRODUCER,
    KEPT,
    REPLACED,
    SHOWN,
    STABLE,
    STANDS,
    WITH_MARKER,
    Positions,
)
from kraft_controller.core.names import OFFSETS_TOPIC, TopicPartition
from replica.core.errors import ErrorCode
from replica.core.groups.group_coordinator import GroupCoordinator
from replica.core.groups.group_effects import GroupRecord, OffsetRecord, SavedGroup
from replica.core.groups.group_effects import Record as Entry
from replica.core.groups.group_messages import (
    Commit,
    CommitInTransaction,
    Committed,
    GroupIdentity,
    Heartbeat,
    HeartbeatAnswered,
    OffsetAndMetadata,
    OffsetFetch,
    OffsetsFetched,
)
from replica.core.groups.group_settings import GroupSettings
from replica.wire import group_records
from tests.histories.partitions.led_replica import LedReplica

WHERE = TopicPartition("data", 0)
FIRST, SECOND = OffsetAndMetadata(7, metadata="first"), OffsetAndMetadata(5, metadata="second")
"""Two positions of group g. The second one was committed later, though its offset is smaller."""
RETENTION_MS = 100
COMMIT = Commit(GroupIdentity("g", "m", 1, "instance"), {WHERE: SECOND})


def stored(entry: Entry) -> Record:
    return Record(3, group_records.encode_value(entry) or b"", -1, -1, group_records.encode_key(entry))


def position(at: OffsetAndMetadata | None, group: str = "g") -> Record:
    return stored(OffsetRecord(group, WHERE, at))


def generation(number: int, group: str = "g") -> Record:
    return stored(GroupRecord(group, SavedGroup("consumer", number, None, None, 0)))


ANN, BOB = 7, 8
"""Two transactional producers."""


def pending(at: OffsetAndMetadata, producer: int = ANN, epoch: int = 0) -> Record:
    """Return a position that a producer commits in a transaction."""
    return position(at)._replace(producer=producer, producer_epoch=epoch, attributes=TRANSACTIONAL)


def marker(producer: int = ANN, epoch: int = 0, *, commit: bool = True) -> Record:
    key = b"\0\0\0\1" if commit else b"\0\0\0\0"
    return Record(3, b"\0\0\0\0\0\0", producer, -1, key, -1, epoch, TRANSACTIONAL | CONTROL)


LOG = [generation(1), position(FIRST), position(SECOND)]


def coordinator() -> GroupCoordinator:
    """Return the coordinator that serves the only partition in epoch 3."""
    made = GroupCoordinator(GroupSettings(), 0, lambda: "", group_records.topics_of)
    made.topic.partitions = 1
    made.topic.epochs[0] = 3
    return made


class Scenario(LedReplica):
    """A broker that leads the partition of group g, with these committed records."""

    def __init__(self, *records: Record) -> None:
        super().__init__(TopicPartition(OFFSETS_TOPIC, 0), records or LOG)
        self.positions = Positions(self.replicas)
        self.broker.groups = SimpleNamespace(coordinator=coordinator(), retention_ms=RETENTION_MS)

    def acknowledges(self, commit: Commit, error: ErrorCode = ErrorCode.NONE) -> None:
        self.positions.answered(self.broker, commit, Committed(dict.fromkeys(commit.positions, error)))

    def commits(self, at: OffsetAndMetadata, number: int = -1) -> None:
        self.acknowledges(Commit(GroupIdentity("g", generation=number), {WHERE: at}))

    def commits_in_transaction(
        self, at: OffsetAndMetadata, producer: int = ANN, epoch: int = 0, number: int = -1
    ) -> None:
        ask = CommitInTransaction(GroupIdentity("g", generation=number), producer, epoch, {WHERE: at})
        self.positions.answered(self.broker, ask, Committed({WHERE: ErrorCode.NONE}))

    def ends(self, offset: int, producer: int = ANN) -> None:
        """Acknowledge the marker at this offset."""
        self.positions.ended(self.broker, 0, producer, offset)

    def shows(
        self, at: OffsetAndMetadata | ErrorCode | None, error: ErrorCode = ErrorCode.NONE, *, stable: bool = False
    ) -> None:
        ask = OffsetFetch("g", stable=stable)
        self.positions.answered(self.broker, ask, OffsetsFetched(error, {WHERE: at}))


def violates(invariant: str, act: Callable[[], None]) -> str:
    with pytest.raises(Violation) as found:
        act()
    assert found.value.invariant == invariant
    return str(found.value)


# -- commits -----------------------------------------------------------------------------------------------


def test_acknowledged_commit_is_counted() -> None:
    scenario = Scenario()
    scenario.commits(SECOND)
    assert scenario.counts == ["positions acknowledged"]


@pytest.mark.parametrize("records", [[], [generation(1)], [position(None)], [position(FIRST)], [position(SECOND, "h")]])
def test_acknowledged_commit_is_a_committed_record(records: list[Record]) -> None:
    scenario = Scenario()
    scenario.truth.committed = records
    violates(STANDS, lambda: scenario.commits(SECOND))


@pytest.mark.parametrize("at", [evolve(SECOND, offset=6), evolve(SECOND, metadata="other")])
def test_offset_and_metadata_are_those_of_the_commit(at: OffsetAndMetadata) -> None:
    violates(STANDS, lambda: Scenario().commits(at))


def test_refused_commit_need_not_be_a_record() -> None:
    Scenario(generation(1)).acknowledges(COMMIT, ErrorCode.REBALANCE_IN_PROGRESS)


def test_commit_of_a_newer_generation_follows_it() -> None:
    Scenario(generation(1), position(FIRST), generation(2)).commits(FIRST, 1)
    Scenario(generation(1), position(FIRST)).commits(FIRST, 1)
    Scenario(generation(2, "h"), stored(GroupRecord("g", None)), position(FIRST)).commits(FIRST, 1)


def test_deleted_group_begins_its_generations_anew() -> None:
    deleted = stored(GroupRecord("g", None))
    Scenario(generation(2), deleted, generation(1), position(FIRST)).commits(FIRST, 1)
    scenario = Scenario(generation(1), deleted, generation(3), generation(2), position(FIRST))
    violates(FENCED, lambda: scenario.commits(FIRST, 2))


@pytest.mark.parametrize("number", [0, 1])
def test_commit_of_a_former_generation_is_a_violation(number: int) -> None:
    scenario = Scenario(generation(2), position(FIRST))
    what = violates(FENCED, lambda: scenario.commits(FIRST, number))
    assert what.endswith(f"accepts a commit of generation {number} of g, which is in generation 2")


def test_commit_without_a_generation_is_of_no_former_one() -> None:
    Scenario(generation(2), position(FIRST)).commits(FIRST, -1)


def test_other_replies_are_not_judged() -> None:
    scenario = Scenario()
    scenario.positions.answered(scenario.broker, Heartbeat(COMMIT.identity), HeartbeatAnswered(ErrorCode.NONE))


# -- replaced members --------------------------------------------------------------------------------------


def test_replaced_member_commits_no_offset() -> None:
    scenario = Scenario()
    scenario.positions.replaced(scenario.broker, COMMIT)
    scenario.positions.replaced(scenario.broker, evolve(COMMIT))
    what = violates(REPLACED, lambda: scenario.acknowledges(COMMIT))
    assert what.endswith("broker 1 accepts a commit of m in g, which was replaced as instance")


def test_equal_commit_before_the_replacement_is_accepted() -> None:
    scenario = Scenario()
    scenario.positions.replaced(scenario.broker, evolve(COMMIT))
    scenario.acknowledges(COMMIT)


def restarts(scenario: Scenario) -> None:
    scenario.broker.groups.coordinator = coordinator()


def leads_again(scenario: Scenario) -> None:
    scenario.broker.groups.coordinator.topic.epochs[0] = 4


def resigns(scenario: Scenario) -> None:
    del scenario.broker.groups.coordinator.topic.epochs[0]


def forgets_the_count(scenario: Scenario) -> None:
    scenario.broker.groups.coordinator.topic.partitions = None


@pytest.mark.parametrize("change", [restarts, leads_again, resigns])
def test_another_coordinator_may_not_have_the_replacement(change: Callable[[Scenario], None]) -> None:
    scenario = Scenario()
    scenario.positions.replaced(scenario.broker, COMMIT)
    change(scenario)
    scenario.acknowledges(COMMIT)


@pytest.mark.parametrize("change", [resigns, forgets_the_count])
def test_broker_that_does_not_serve_the_group_replaces_no_member(change: Callable[[Scenario], None]) -> None:
    scenario = Scenario()
    change(scenario)
    scenario.positions.replaced(scenario.broker, COMMIT)
    scenario.broker.groups.coordinator.topic.partitions = 1
    scenario.acknowledges(COMMIT)


# -- fetches -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [FIRST, SECOND, None])
def test_committed_position_is_shown(at: OffsetAndMetadata | None) -> None:
    scenario = Scenario()
    scenario.shows(at)
    assert scenario.counts == ["positions shown"]
    assert not scenario.positions.doubtful("g")


def test_uncommitted_position_is_not_shown() -> None:
    what = violates(SHOWN, lambda: Scenario(generation(1)).shows(FIRST))
    assert "returns uncommitted OffsetAndMetadata(offset=7" in what


def test_error_is_not_judged() -> None:
    scenario = Scenario(generation(1))
    scenario.shows(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    scenario.shows(ErrorCode.GROUP_AUTHORIZATION_FAILED, stable=True)
    scenario.shows(FIRST, ErrorCode.NOT_COORDINATOR)


@pytest.mark.parametrize(("at", "place"), [(FIRST, 1), (None, -1)])
def test_acknowledged_position_is_not_set_back(at: OffsetAndMetadata | None, place: int) -> None:
    scenario = Scenario()
    scenario.commits(SECOND)
    scenario.shows(SECOND)
    what = violates(KEPT, lambda: scenario.shows(at))
    assert f"committed at offset {place}, but" in what


def test_newest_acknowledged_position_counts() -> None:
    scenario = Scenario()
    scenario.commits(SECOND)
    scenario.commits(FIRST)
    violates(KEPT, lambda: scenario.shows(FIRST))


def test_position_is_the_newest_of_equal_records() -> None:
    scenario = Scenario(position(SECOND), position(FIRST), position(SECOND))
    scenario.commits(FIRST)
    scenario.shows(SECOND)


@pytest.mark.parametrize(("start", "kept"), [(2, True), (3, False)])
def test_position_may_be_gone_with_its_record(start: int, kept: bool) -> None:
    scenario = Scenario()
    scenario.commits(SECOND)
    scenario.copy.start = start
    if kept:
        violates(KEPT, lambda: scenario.shows(None))
    else:
        scenario.shows(None)


def expiring(after_ms: int, *later: Record) -> Scenario:
    """Return a scenario whose acknowledged position was deleted so much later than it was committed."""
    deleted = position(None)._replace(time=40 + after_ms)
    scenario = Scenario(generation(1), position(SECOND)._replace(time=40), deleted, *later)
    scenario.commits(SECOND)
    return scenario


def test_old_position_may_be_deleted() -> None:
    scenario = expiring(RETENTION_MS)
    scenario.shows(None)
    assert scenario.positions.doubtful("g")
    assert not scenario.positions.doubtful("h")
    expiring(RETENTION_MS, position(None), position(FIRST, "h")).shows(None)


@pytest.mark.parametrize("later", [(), (position(None)._replace(time=40 + RETENTION_MS),)])
def test_young_position_is_not_deleted(later: tuple[Record, ...]) -> None:
    scenario = expiring(RETENTION_MS - 1, *later)
    violates(KEPT, lambda: scenario.shows(None))


def test_position_committed_after_the_deletion_is_kept() -> None:
    scenario = expiring(RETENTION_MS, position(FIRST)._replace(time=40 + RETENTION_MS))
    scenario.commits(FIRST)
    violates(KEPT, lambda: scenario.shows(None))


def test_deletion_of_an_unknown_position_is_as_good_as_none() -> None:
    scenario = Scenario(generation(1), position(None))
    scenario.shows(None)
    assert scenario.counts == ["positions shown"]


def test_unclean_election_may_lose_an_acknowledged_position() -> None:
    scenario = Scenario()
    scenario.commits(SECOND)
    scenario.truth.fork = scenario.copy.epoch
    scenario.shows(FIRST)
    scenario.commits(SECOND)
    violates(KEPT, lambda: scenario.shows(FIRST))


# -- former leaders ----------------------------------------------------------------------------------------


def no_replica(scenario: Scenario) -> None:
    scenario.replicas.copies.clear()


def disk_failed(scenario: Scenario) -> None:
    scenario.loses_replica()


def led_before_an_unclean_election(scenario: Scenario) -> None:
    scenario.truth.fork = scenario.copy.epoch + 1


def follows(scenario: Scenario) -> None:
    scenario.copy.leads = False


def another_leader_was_elected(scenario: Scenario) -> None:
    scenario.truth.state = SimpleNamespace(leader=2, leader_epoch=4)  # type: ignore[assignment]


def topic_was_deleted(scenario: Scenario) -> None:
    scenario.truth.state = None


@pytest.mark.parametrize("change", [no_replica, disk_failed, led_before_an_unclean_election])
def test_commit_that_an_unclean_election_loses_is_not_judged(change: Callable[[Scenario], None]) -> None:
    scenario = Scenario(generation(1))
    change(scenario)
    scenario.commits(FIRST)
    assert scenario.counts == []


def test_commit_at_the_leader_of_an_unclean_election_is_judged() -> None:
    scenario = Scenario(generation(1))
    scenario.truth.fork = scenario.copy.epoch
    violates(STANDS, lambda: scenario.commits(FIRST))


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (no_replica, []),
        (disk_failed, []),
        (led_before_an_unclean_election, ["positions shown by a former leader"]),
        (follows, ["positions shown by a former leader"]),
        (another_leader_was_elected, ["positions shown by a former leader"]),
        (topic_was_deleted, ["positions shown by a former leader"]),
    ],
)
def test_former_leader_may_return_an_old_position(change: Callable[[Scenario], None], counts: list[str]) -> None:
    scenario = Scenario(generation(1))
    change(scenario)
    scenario.shows(FIRST)
    assert scenario.counts == counts
    assert scenario.positions.doubtful("g")
    scenario.truth.fork = -1
    assert not scenario.positions.doubtful("h")


# -- transactions ------------------------------------------------------------------------------------------

UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_position_is_shown_after_its_transaction_committed() -> None:
    scenario = Scenario(position(SECOND), pending(FIRST), marker())
    scenario.commits_in_transaction(FIRST)
    scenario.shows(FIRST)
    scenario.ends(2)
    scenario.shows(FIRST)
    assert scenario.counts == [
        "positions acknowledged in transactions", "positions shown", "markers of positions", "positions shown",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("records", "state"),
    [
        ([pending(FIRST)], "is open"),
        ([pending(FIRST), marker(BOB)], "is open"),
        ([marker(), pending(FIRST)], "is open"),
        ([pending(FIRST), marker(commit=False)], "was aborted"),
        ([pending(FIRST), marker(commit=False), marker()], "was aborted"),
    ],
)
def test_position_is_not_shown_unless_its_transaction_committed(records: list[Record], state: str) -> None:
    what = violates(WITH_MARKER, lambda: Scenario(*records).shows(FIRST))
    assert what.endswith(f"of g in data-0, whose transaction {state}")


def test_position_of_a_deleted_transaction_is_not_judged() -> None:
    Scenario(GONE, pending(FIRST)).shows(FIRST)


def test_repeated_commit_is_shown_if_one_of_them_counts() -> None:
    Scenario(pending(FIRST), marker(), pending(FIRST)).shows(FIRST)


@pytest.mark.parametrize("at", [SECOND, None])
def test_position_is_not_lost_after_its_marker_was_acknowledged(at: OffsetAndMetadata | None) -> None:
    scenario = Scenario(position(SECOND), pending(FIRST), marker())
    scenario.shows(at)
    scenario.ends(2)
    what = violates(WITH_MARKER, lambda: scenario.shows(at))
    assert what.endswith("at offset 1 was acknowledged")


def test_only_the_transaction_of_an_acknowledged_marker_must_be_shown() -> None:
    scenario = Scenario(pending(FIRST), pending(SECOND, BOB), marker(), marker(BOB, commit=False))
    scenario.shows(None)
    scenario.ends(3, BOB)
    scenario.shows(None)
    scenario.ends(2)
    violates(WITH_MARKER, lambda: scenario.shows(None))


def test_markers_of_two_transactions_are_acknowledged_in_turn() -> None:
    scenario = Scenario(pending(FIRST), marker(), marker(), pending(SECOND), marker())
    for offset in (1, 4, 2):
        scenario.ends(offset)
    violates(WITH_MARKER, lambda: scenario.shows(FIRST))


def test_acknowledged_marker_of_an_aborted_transaction_changes_no_position() -> None:
    scenario = Scenario(position(SECOND), pending(FIRST), marker(commit=False))
    scenario.commits(SECOND)
    scenario.ends(2)
    scenario.shows(SECOND)
    violates(KEPT, lambda: scenario.shows(None))


def test_later_record_is_the_newer_position() -> None:
    """The commit outside of the transaction comes between the one in it and the marker."""
    scenario = Scenario(pending(FIRST), position(SECOND), marker())
    scenario.ends(2)
    scenario.shows(FIRST)
    scenario.commits(SECOND)
    scenario.shows(SECOND)
    violates(KEPT, lambda: scenario.shows(FIRST))


def test_old_position_of_a_transaction_may_be_deleted() -> None:
    for commit, age_ms in ((True, RETENTION_MS), (False, RETENTION_MS - 1), (True, RETENTION_MS - 1)):
        deleted = position(None)._replace(time=40 + age_ms)
        scenario = Scenario(pending(SECOND)._replace(time=40), marker(commit=commit), deleted)
        scenario.ends(1)
        if commit and age_ms < RETENTION_MS:
            violates(WITH_MARKER, partial(scenario.shows, None))
        else:
            scenario.shows(None)


@pytest.mark.parametrize("record", [position(FIRST), pending(FIRST, BOB), pending(SECOND)])
def test_commit_in_a_transaction_is_a_record_of_its_producer(record: Record) -> None:
    what = violates(STANDS, lambda: Scenario(record).commits_in_transaction(FIRST))
    assert what.endswith("of g in data-0 in a transaction of producer 7, which is not committed")


def test_commit_outside_of_transactions_is_a_record_of_none() -> None:
    what = violates(STANDS, lambda: Scenario(pending(FIRST)).commits(FIRST))
    assert what.endswith("of g in data-0, which is not committed")


def test_commit_in_a_transaction_is_refused_to_a_former_generation() -> None:
    Scenario(generation(1), pending(FIRST)).commits_in_transaction(FIRST, number=1)
    Scenario(generation(2), pending(FIRST)).commits_in_transaction(FIRST)
    violates(FENCED, lambda: Scenario(generation(2), pending(FIRST)).commits_in_transaction(FIRST, number=1))


@pytest.mark.parametrize("before", [marker(epoch=1), marker(BOB, epoch=3), pending(SECOND, epoch=3), position(SECOND)])
def test_commit_of_the_present_producer_is_accepted(before: Record) -> None:
    Scenario(before, pending(FIRST, epoch=1), marker(epoch=2)).commits_in_transaction(FIRST, epoch=1)


def test_commit_of_a_fenced_producer_is_refused() -> None:
    scenario = Scenario(marker(epoch=2), pending(FIRST, epoch=1))
    what = violates(FENCED_PRODUCER, lambda: scenario.commits_in_transaction(FIRST, epoch=1))
    assert what.endswith("accepts a commit of epoch 1 of producer 7 in g, but epoch 2 has a marker at offset 0")


@pytest.mark.parametrize("change", [no_replica, disk_failed, led_before_an_unclean_election])
def test_marker_at_a_former_leader_counts_for_nothing(change: Callable[[Scenario], None]) -> None:
    scenario = Scenario(pending(FIRST), marker())
    change(scenario)
    scenario.ends(1)
    assert scenario.counts == []


def test_marker_at_the_leader_of_an_unclean_election_counts() -> None:
    scenario = Scenario(pending(FIRST), marker())
    scenario.truth.fork = scenario.copy.epoch
    scenario.ends(1)
    violates(WITH_MARKER, lambda: scenario.shows(None))


def test_acknowledged_marker_says_nothing_about_the_next_transaction() -> None:
    scenario = Scenario(pending(FIRST), marker(), pending(SECOND), marker())
    scenario.ends(1)
    scenario.shows(FIRST)


def test_aborted_commit_does_not_hide_that_the_position_was_deleted() -> None:
    expiring(RETENTION_MS, pending(FIRST)._replace(time=500), marker(commit=False)).shows(None)
    expiring(RETENTION_MS, pending(FIRST)._replace(time=500)).shows(None)


def test_coordinator_without_the_number_of_partitions_is_not_judged() -> None:
    scenario = Scenario(pending(FIRST))
    forgets_the_count(scenario)
    scenario.shows(FIRST)
    assert scenario.positions.led(scenario.broker, "g") is None


def test_unclean_election_may_lose_an_acknowledged_transaction() -> None:
    scenario = Scenario(pending(FIRST), marker())
    scenario.ends(1)
    scenario.truth.fork = scenario.copy.epoch
    scenario.shows(None)


# -- stable positions --------------------------------------------------------------------------------------


def test_stable_position_is_refused_while_a_transaction_may_replace_it() -> None:
    scenario = Scenario(position(SECOND), pending(FIRST))
    scenario.commits_in_transaction(FIRST)
    scenario.shows(UNSTABLE, stable=True)
    assert scenario.counts[-1] == "positions unstable"
    scenario.shows(ErrorCode.GROUP_AUTHORIZATION_FAILED, stable=True)
    scenario.shows(SECOND)
    what = violates(STABLE, lambda: scenario.shows(SECOND, stable=True))
    assert what.endswith("at offset 1 waits for the end of its transaction")


@pytest.mark.parametrize("commit", [True, False])
def test_stable_position_is_shown_after_the_end(commit: bool) -> None:
    scenario = Scenario(position(SECOND), pending(FIRST))
    scenario.commits_in_transaction(FIRST)
    scenario.truth.committed = [*scenario.truth.committed, marker(commit=commit)]
    scenario.ends(2)
    scenario.shows(FIRST if commit else SECOND, stable=True)
    assert scenario.counts[-1] == "stable positions shown"
    what = violates(STABLE, lambda: scenario.shows(UNSTABLE, stable=True))
    assert what.endswith("refuses g in data-0 as unstable, but no transaction may replace it")


def test_marker_without_an_acknowledgement_leaves_both_replies() -> None:
    scenario = Scenario(position(SECOND), pending(FIRST), marker())
    scenario.commits_in_transaction(FIRST)
    scenario.shows(SECOND, stable=True)
    scenario.shows(UNSTABLE, stable=True)
    scenario.shows(FIRST, stable=True)


def test_commit_without_an_acknowledgement_leaves_both_replies() -> None:
    scenario = Scenario(position(SECOND), pending(FIRST))
    scenario.shows(SECOND, stable=True)
    scenario.shows(UNSTABLE, stable=True)


def test_uncommitted_record_of_a_transaction_leaves_both_replies() -> None:
    scenario = Scenario(position(SECOND))
    scenario.copy.records = [position(SECOND), pending(FIRST)]
    scenario.shows(SECOND, stable=True)
    scenario.shows(UNSTABLE, stable=True)


@pytest.mark.parametrize(
    "others", [[], [position(FIRST)], [position(FIRST, "h")._replace(producer=ANN, attributes=TRANSACTIONAL)]]
)
def test_stable_position_is_not_refused_without_a_transaction(others: list[Record]) -> None:
    scenario = Scenario(position(SECOND), *others)
    scenario.shows(SECOND, stable=True)
    violates(STABLE, lambda: scenario.shows(UNSTABLE, stable=True))


def test_next_transaction_of_a_producer_makes_the_position_unstable_again() -> None:
    scenario = Scenario(pending(FIRST), marker())
    scenario.ends(1)
    scenario.shows(FIRST, stable=True)
    scenario.truth.committed = [*scenario.truth.committed, pending(SECOND)]
    scenario.shows(UNSTABLE, stable=True)


def test_position_is_not_refused_to_a_request_that_does_not_wait() -> None:
    what = violates(STABLE, lambda: Scenario(pending(FIRST)).shows(UNSTABLE))
    assert what.endswith("refuses g in data-0 as unstable, but the request does not wait for transactions")


@pytest.mark.parametrize("change", [no_replica, follows, another_leader_was_elected, topic_was_deleted])
def test_former_leader_may_return_an_unstable_position(change: Callable[[Scenario], None]) -> None:
    scenario = Scenario(position(SECOND), pending(FIRST))
    scenario.commits_in_transaction(FIRST)
    change(scenario)
    scenario.shows(SECOND, stable=True)
    scenario.shows(UNSTABLE)


def test_unclean_election_may_lose_an_unstable_position() -> None:
    scenario = Scenario(position(SECOND), pending(FIRST))
    scenario.commits_in_transaction(FIRST)
    scenario.truth.fork = 2
    scenario.shows(UNSTABLE)


# -- after the run -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("topic", "doubtful"), [(OFFSETS_TOPIC, True), ("data", False)])
def test_positions_are_doubtful_after_lost_records_of_their_topic(topic: str, doubtful: bool) -> None:
    scenario = Scenario()
    scenario.adds(TopicPartition(topic, 1)).fork = 0
    assert scenario.positions.doubtful("g") is doubtful


def leader_is_gone(scenario: Scenario) -> None:
    scenario.world.brokers.clear()


@pytest.mark.parametrize("change", [resigns, leads_again, leader_is_gone])
def test_leader_must_serve_the_groups_with_commits(change: Callable[[Scenario], None]) -> None:
    scenario = Scenario(position(FIRST))
    scenario.commits(FIRST)
    assert scenario.positions.unsettled() is None
    change(scenario)
    assert scenario.positions.unsettled() == "broker 1 does not serve the groups of __consumer_offsets-0"


def test_leader_need_not_serve_groups_without_commits() -> None:
    scenario = Scenario()
    scenario.shows(FIRST)
    resigns(scenario)
    assert scenario.positions.unsettled() is None


def test_deleted_topic_need_not_be_served() -> None:
    scenario = Scenario()
    scenario.commits(FIRST)
    topic_was_deleted(scenario)
    assert scenario.positions.unsettled() is None


@pytest.mark.parametrize(
    ("records", "offset"),
    [
        ([], None),
        ([position(FIRST)], 7),
        ([position(FIRST), position(SECOND)], 5),
        ([position(FIRST), position(SECOND, "h")], 7),
        ([position(FIRST), position(None)], None),
        ([position(FIRST), pending(SECOND), marker()], 5),
        ([position(FIRST), pending(SECOND)], 7),
        ([position(FIRST), pending(SECOND), marker(commit=False)], 7),
    ],
)
def test_final_position_is_the_newest_that_counts(records: list[Record], offset: int | None) -> None:
    scenario = Scenario(generation(1))
    scenario.truth.committed = records
    scenario.adds(TopicPartition("data", 0)).committed = [position(SECOND)]
    assert scenario.positions.final("g", WHERE) == offset
    assert scenario.positions.deleted("g", WHERE) is (position(None) in records)
