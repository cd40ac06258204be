"""Replies to clients: acknowledgements, reads and high watermarks."""

from __future__ import annotations

from harness.checkers.partitions import commitment, replicas
from kraft_controller.core.names import Version
from replica.core.partitions.isr import Isr
from replica.core.partitions.leader_role import LeaderRole
from replica.core.replica_messages import Produced
from tests.histories.partitions.scenario import ALL, ELSEWHERE, HERE, ONE, THREE, TWO, Scenario, breaks

# -- acknowledged --------------------------------------------------------------------------------------


@breaks(commitment.ACKNOWLEDGED)
def acknowledged_record_is_not_committed(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 1 if bad else 2)
    s.acks(ONE, 1, "b")


@breaks(commitment.ACKNOWLEDGED)
def last_acknowledged_record_is_not_committed(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 2 if bad else 3)
    s.acks(ONE, 1, "b", "c")


@breaks(commitment.ACKNOWLEDGED)
def acknowledged_offset_has_another_record(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 3)
    s.acks(ONE, 1, "c" if bad else "b")


@breaks(commitment.ACKNOWLEDGED)
def empty_value_is_acknowledged(s: Scenario, bad: bool) -> None:
    s.begin("a1 -1 c1", 3)
    s.checkers.commitment.acknowledged(s.observed(ONE), HERE, 1, [b"c" if bad else b""])


@breaks(commitment.ACKNOWLEDGED)
def too_few_replicas_of_an_acknowledged_record(s: Scenario, bad: bool) -> None:
    s.set_up(least=2)
    s.begin("a1 b1", 2, (ONE,))
    s.has(TWO, "a1" if bad else "a1 b1")
    s.acks(ONE, 1, "b")


@breaks(commitment.ACKNOWLEDGED)
def too_few_replicas_of_the_last_acknowledged_record(s: Scenario, bad: bool) -> None:
    s.set_up(least=2)
    s.begin("a1 b1 c1", 3, (ONE,))
    s.has(TWO, "a1 b1" if bad else "a1 b1 c1")
    s.acks(ONE, 1, "b", "c")


@breaks(commitment.ACKNOWLEDGED)
def replica_with_another_record_does_not_count(s: Scenario, bad: bool) -> None:
    s.set_up(least=2)
    s.begin("a1 b1", 2, (ONE,))
    s.has(TWO, "a1 b0" if bad else "a1 b1")
    s.acks(ONE, 1, "b")


@breaks(commitment.ACKNOWLEDGED)
def replica_of_the_topic_before_does_not_count(s: Scenario, bad: bool) -> None:
    s.set_up(least=2)
    s.begin("a1 b1", 2, (ONE,))
    s.recreated(TWO, "2" if bad else "1")
    s.follows(TWO, ONE, 1)
    s.has(TWO, "a1 b1")
    s.acks(ONE, 1, "b")


def _one_replica(s: Scenario) -> None:
    s.set_up(least=2)
    s.topic(ONE)
    s.state(ONE, [ONE], 1)
    s.has(ONE, "a1 b1")
    s.leads(ONE, 1, [ONE])
    s.watermark(ONE, 2)


@breaks(commitment.ACKNOWLEDGED)
def leader_of_an_earlier_epoch_needs_its_own_factor(s: Scenario, bad: bool) -> None:
    _one_replica(s)
    s.state(ONE, [ONE], 2)
    s.topic(*ALL)
    if bad:
        s.leads(ONE, 2, [ONE])
    s.check(ONE)
    s.acks(ONE, 1, "b")


@breaks(commitment.ACKNOWLEDGED)
def factor_of_a_reassignment_counts_from_its_own_epoch(s: Scenario, bad: bool) -> None:
    _one_replica(s)
    if not bad:
        s.state(ONE, [ONE], 2)
    s.topic(*ALL)
    s.check(ONE)
    s.acks(ONE, 1, "b")


@breaks(commitment.ACKNOWLEDGED)
def replica_that_deleted_the_record_counts(s: Scenario, bad: bool) -> None:
    s.set_up(least=2)
    s.begin("a1 b1 c1", 3, (ONE,))
    s.has(TWO, "a1" if bad else "a1 b1")
    s.has(TWO, "", start=1 if bad else 2)
    s.acks(ONE, 1, "b")


@breaks(commitment.ACKNOWLEDGED)
def replica_that_deleted_the_record_unread_counts(s: Scenario, bad: bool) -> None:
    s.set_up(least=2)
    s.begin("a1", 1)
    s.state(ONE, [ONE], 1)
    s.state(THREE, [THREE], 2)
    s.leads(THREE, 2, [THREE])
    if not bad:
        s.has(TWO, "d1", start=3)
    s.has(THREE, "a1 b2 c2", hw=3)
    s.acks(THREE, 1, "b")


@breaks(commitment.ACKNOWLEDGED)
def replica_that_lost_the_record_counts(s: Scenario, bad: bool) -> None:
    s.set_up(least=2)
    s.begin("a1 b1", 2, (ONE,))
    s.has(TWO, "a1" if bad else "a1 b1")
    if not bad:
        s.wiped(TWO)
    s.acks(ONE, 1, "b")


@breaks(commitment.ACKNOWLEDGED)
def one_replica_suffices_for_factor_one(s: Scenario, bad: bool) -> None:
    s.set_up(least=2)
    s.topic(*((1, 2) if bad else (1,)))
    s.state(ONE, [ONE], 1)
    s.leads(ONE, 1, [ONE])
    s.has(ONE, "a1", hw=1)
    s.check(THREE)
    s.acks(ONE, 0, "a")


@breaks(commitment.ACKNOWLEDGED)
def three_replicas_are_required(s: Scenario, bad: bool) -> None:
    s.set_up(least=3)
    s.begin("a1", 1, (ONE, TWO))
    if not bad:
        s.has(THREE, "a1")
    s.acks(ONE, 0, "a")


@breaks(commitment.ACKNOWLEDGED)
def acknowledgement_without_a_replica_is_not_judged(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.checkers.commitment.acknowledged(s.observed(ONE), ELSEWHERE, 0, [b"x"])
    if not bad:
        s.disk_fails(ONE)
    s.acks(ONE, 0, "x")


@breaks(commitment.ACKNOWLEDGED)
def acknowledgement_of_an_unread_log_is_not_judged(s: Scenario, bad: bool) -> None:
    s.topic(*ALL)
    s.unchecked = not bad
    s.leads(ONE, 1)
    s.acks(ONE, 0, "x")


@breaks(commitment.ACKNOWLEDGED)
def replica_of_the_new_topic_is_not_judged_by_the_one_before(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    if not bad:
        s.recreated(ONE)
        s.unchecked = True
        s.leads(ONE, 1)
    s.acks(ONE, 0, "x")


@breaks(commitment.ACKNOWLEDGED)
def outdated_leader_may_acknowledge(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2, (ONE, TWO))
    s.has(THREE, "a1")
    s.state(THREE, [THREE], 2)
    s.leads(THREE, 2, [THREE])
    s.acks(THREE if bad else ONE, 1, "b")


# -- read ----------------------------------------------------------------------------------------------


@breaks(commitment.READ)
def uncommitted_record_is_read(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 1)
    s.reads(ONE, 0, "a1 b1" if bad else "a1")


@breaks(commitment.READ)
def another_record_is_read(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 3)
    s.reads(TWO, 1, "b1 x1" if bad else "b1 c1", first=1)


@breaks(commitment.READ)
def records_before_the_requested_offset_are_not_judged(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2)
    s.reads(ONE, 0 if bad else 1, "x1 b1")


@breaks(commitment.READ)
def follower_may_return_records_lost_by_an_election(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2, (ONE, TWO))
    s.has(THREE, "a1")
    s.state(THREE, [THREE], 2)
    s.leads(THREE, 2, [THREE])
    s.follows(TWO, THREE, 2)
    s.reads(THREE if bad else TWO, 0, "a1 b1")


@breaks(commitment.READ)
def follower_returns_a_record_that_never_existed(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 3, (ONE, TWO))
    s.has(THREE, "a1")
    s.state(THREE, [THREE], 2)
    s.leads(THREE, 2, [THREE])
    s.follows(TWO, THREE, 2)
    s.reads(TWO, 1, "b1 x1" if bad else "b1 c1", first=1)


@breaks(commitment.READ)
def outdated_leader_may_return_its_records(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2, (ONE, TWO))
    s.has(THREE, "a1")
    s.has(ONE, "a1 b1 c1")
    if not bad:
        s.state(THREE, [THREE], 2)
        s.leads(THREE, 2, [THREE])
    s.reads(ONE, 0, "a1 b1 c1")


@breaks(commitment.READ)
def fetch_from_a_failed_disk_is_not_judged(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.checkers.commitment.delivered(s.observed(ONE), ELSEWHERE, 0, b"")
    if not bad:
        s.disk_fails(ONE)
    s.reads(ONE, 0, "x1")


# -- replies ------------------------------------------------------------------------------------------


@breaks(replicas.IN_SYNC)
def last_reply_of_a_failed_disk_commits_records(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 1)
    if bad:
        s.has(TWO, "a1")
    s.disk_fails(ONE)
    s.replies_fetch(ONE, 2)


@breaks(commitment.EXPOSED)
def followers_may_adopt_the_last_high_watermark(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 1)
    if not bad:
        s.disk_fails(ONE)
        s.replies_fetch(ONE, 2)
    s.watermark(TWO, 2)


@breaks(commitment.EXPOSED)
def last_reply_commits_only_existing_records(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 1)
    s.disk_fails(ONE)
    s.replies_fetch(ONE, 3)
    s.has(TWO, "a1 b1 c1")
    s.watermark(TWO, 3 if bad else 2)


@breaks(commitment.EXPOSED)
def last_reply_of_a_follower_commits_nothing(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 1)
    s.disk_fails(TWO)
    s.replies_fetch(TWO, 2)
    s.watermark(THREE, 2 if bad else 1)


@breaks(commitment.EXPOSED)
def reply_of_a_leader_with_a_disk_commits_nothing(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 1)
    s.replies_fetch(ONE, 2)
    s.watermark(TWO, 2 if bad else 1)


@breaks(commitment.EXPOSED)
def last_reply_with_an_old_high_watermark(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 1)
    s.disk_fails(ONE)
    s.replies_fetch(ONE, 1)
    s.replies_fetch(ONE, 1, ELSEWHERE)
    s.checkers.commitment.check_replies(s.observed(ONE), [Produced(HERE)])
    s.watermark(TWO, 2 if bad else 1)


@breaks(commitment.EXPOSED)
def last_reply_of_an_outdated_leader_commits_nothing(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 1, (ONE, TWO))
    s.has(THREE, "a1")
    s.state(THREE, [THREE], 2)
    s.leads(THREE, 2, [THREE])
    s.disk_fails(ONE)
    s.replies_fetch(ONE, 2)
    s.partition(TWO).high_watermark = 1
    s.follows(TWO, THREE, 2)
    s.watermark(TWO, 2 if bad else 1)


@breaks(commitment.EXPOSED)
def last_reply_of_an_unclean_leader_commits_records(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1, (ONE, TWO))
    s.state(THREE, [THREE], 2)
    s.leads(THREE, 2, [THREE])
    s.has(THREE, "b2")
    s.follows(TWO, THREE, 2)
    s.has(TWO, "b2", hw=0)
    s.disk_fails(THREE)
    if not bad:
        s.replies_fetch(THREE, 1)
    s.watermark(TWO, 1)


# -- one ISR member -----------------------------------------------------------------------------------


def _only_isr_member(s: Scenario, *, least: int = 1, sync: bool = False, isr: tuple[int, ...] = (1,)) -> None:
    s.set_up(lag_ms=100, least=least, sync=sync)
    s.topic(*ALL)
    s.state(ONE, [ONE], 1)
    s.leads(ONE, 1, [each for each in ALL if each in isr])
    s.partition(ONE).min_insync = least
    s.synced(ONE, 2)
    s.has(ONE, "a1 b1", hw=1)
    s.waits(ONE, 0)


@breaks(commitment.ALONE)
def only_isr_member_does_not_commit(s: Scenario, bad: bool) -> None:
    _only_isr_member(s)
    s.waits(ONE, 301 if bad else 300)


@breaks(commitment.ALONE)
def only_isr_member_stops_committing(s: Scenario, bad: bool) -> None:
    _only_isr_member(s)
    s.waits(ONE, 200)
    if not bad:
        s.watermark(ONE, 2)
        s.waits(ONE, 50)
        s.has(ONE, "a1 b1 c1")
        s.waits(ONE, 50)
    s.waits(ONE, 200)


@breaks(commitment.ALONE)
def advance_restarts_the_timeout(s: Scenario, bad: bool) -> None:
    _only_isr_member(s)
    s.has(ONE, "a1 b1 c1")
    s.waits(ONE, 200)
    s.watermark(ONE, 2)
    s.waits(ONE, 200)
    s.waits(ONE, 301 if bad else 300)


@breaks(commitment.ALONE)
def written_isr_restarts_the_timeout(s: Scenario, bad: bool) -> None:
    _only_isr_member(s)
    s.waits(ONE, 200)
    if not bad:
        _role(s).isr = Isr((ONE,), Version(1))
    s.waits(ONE, 200)


@breaks(commitment.ALONE)
def leader_with_other_isr_members_may_wait(s: Scenario, bad: bool) -> None:
    _only_isr_member(s, isr=(1,) if bad else (1, 2))
    s.waits(ONE, 400)


@breaks(commitment.ALONE)
def leader_with_a_pending_isr_may_wait(s: Scenario, bad: bool) -> None:
    _only_isr_member(s)
    if not bad:
        _role(s).isr.ask((ONE, TWO), {})
    s.waits(ONE, 400)


@breaks(commitment.ALONE)
def leader_below_min_insync_may_wait(s: Scenario, bad: bool) -> None:
    _only_isr_member(s, least=1 if bad else 2)
    s.waits(ONE, 400)


@breaks(commitment.ALONE)
def leader_with_synchronous_writes_may_wait(s: Scenario, bad: bool) -> None:
    _only_isr_member(s, sync=not bad)
    s.waits(ONE, 400)


@breaks(commitment.ALONE)
def leader_with_a_caught_up_follower_may_wait(s: Scenario, bad: bool) -> None:
    _only_isr_member(s)
    role = _role(s)
    role.assign(ALL, 0)
    role.followers[TWO].end_offset = 2 if not bad else 1
    s.waits(ONE, 400)


@breaks(commitment.ALONE)
def leader_has_committed_everything(s: Scenario, bad: bool) -> None:
    _only_isr_member(s)
    s.watermark(ONE, 1 if bad else 2)
    s.waits(ONE, 400)
    s.waits(ONE, 400)


@breaks(commitment.ALONE)
def follower_may_wait(s: Scenario, bad: bool) -> None:
    _only_isr_member(s)
    s.follows(TWO, ONE, 1)
    s.has(TWO, "a1 b1")
    s.waits(TWO, 400)
    s.waits(TWO, 400)
    if bad:
        s.waits(ONE, 400)


@breaks(commitment.ALONE)
def longer_isr_restarts_the_timeout(s: Scenario, bad: bool) -> None:
    _only_isr_member(s)
    s.waits(ONE, 200)
    if not bad:
        kept = _role(s).isr
        _role(s).isr = Isr((ONE, TWO), Version(0))
        s.waits(ONE, 10)
        _role(s).isr = kept
        s.waits(ONE, 10)
    s.waits(ONE, 200)


def _role(s: Scenario) -> LeaderRole:
    role = s.partition(ONE).role
    assert isinstance(role, LeaderRole)
    return role
