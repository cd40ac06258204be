"""Leaders: their high watermarks, their ISRs, their elections, and deleted topics."""

from __future__ import annotations

from harness.checkers.partitions import commitment, logs, replicas
from harness.probes import counted_as
from kraft_controller.core.names import NO_LEADER
from kraft_controller.wire import znodes
from tests.histories.controller.scenario import ADMIN
from tests.histories.partitions.scenario import ALL, ELSEWHERE, HERE, ONE, THREE, TWO, Scenario, breaks, reaches

# -- watermarks ----------------------------------------------------------------------------------------


@breaks(logs.WITHIN)
def high_watermark_of_a_follower_is_beyond_its_log(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.watermark(TWO, 2 if bad else 1)


@breaks(logs.WITHIN)
def high_watermark_of_a_leader_is_beyond_its_log(s: Scenario, bad: bool) -> None:
    s.begin("a1", 0)
    s.watermark(ONE, 2 if bad else 1)


@breaks(logs.BACK)
def high_watermark_of_a_leader_decreases(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2)
    s.watermark(TWO, 1)
    s.watermark(ONE, 1 if bad else 2)


@breaks(logs.BACK)
def high_watermark_may_decrease_in_a_new_epoch(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2)
    if not bad:
        s.state(ONE, ALL, 2)
        s.partition(ONE).high_watermark = 1
        s.leads(ONE, 2)
    s.watermark(ONE, 1)


@breaks(logs.BACK)
def new_leader_may_have_a_lower_high_watermark(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2)
    s.state(TWO, ALL, 2)
    s.partition(TWO).high_watermark = 1
    s.leads(TWO, 2)
    s.watermark(TWO, 2)
    s.watermark(TWO, 1 if bad else 2)


@breaks(logs.BACK)
def stopped_leader_may_have_a_lower_high_watermark(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2)
    s.unchecked = True
    if not bad:
        s.stops(ONE)
    s.unchecked = False
    s.watermark(ONE, 1)


@breaks(commitment.EXPOSED)
def high_watermark_of_a_follower_is_ahead_of_all_leaders(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 1)
    s.watermark(TWO, 2 if bad else 1)


@breaks(commitment.EXPOSED)
def follower_is_ahead_when_nothing_is_committed(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 0)
    s.watermark(TWO, 1 if bad else 0)


@breaks(commitment.EXPOSED)
def deposed_leader_commits_its_own_record(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 1)
    s.has(TWO, "a1")
    s.has(THREE, "a1")
    s.state(TWO, [TWO, THREE], 2)
    s.has(THREE, "a1 c2")
    s.leads(TWO, 2)
    s.has(TWO, "a1 c2", hw=2)
    s.watermark(ONE, 2 if bad else 1)


@breaks(commitment.EXPOSED)
def follower_commits_a_record_that_others_truncated(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 d1", 1)
    s.has(TWO, "a1")
    s.state(TWO, [TWO], 2)
    s.leads(TWO, 2)
    s.has(TWO, "a1 c2 e2", hw=3)
    s.watermark(THREE, 2 if bad else 1)


@breaks(replicas.IN_SYNC)
def committed_record_is_missing_from_an_isr_member(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.has(TWO, "a1 b1")
    s.has(THREE, "a1" if bad else "a1 b1")
    s.has(ONE, "a1 b1", hw=2)


@breaks(replicas.IN_SYNC)
def replicas_outside_the_isr_may_lack_records(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.state(ONE, ALL if bad else [ONE, TWO], 1)
    s.has(TWO, "a1 b1")
    s.has(ONE, "a1 b1", hw=2)


@breaks(replicas.IN_SYNC)
def partition_without_state_has_no_isr(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    if not bad:
        s.delete_state()
    s.has(ONE, "a1 b1", hw=2)


@breaks(replicas.IN_SYNC)
def new_leader_commits_records_from_before(s: Scenario, bad: bool) -> None:
    """The new leader has the highest high watermark, and must not count records that an ISR member lacks."""
    s.begin("a1 b1 c1", 1)
    s.has(THREE, "a1 b1 c1" if not bad else "a1")
    s.state(TWO, ALL, 2)
    s.partition(TWO).high_watermark = 3
    s.leads(TWO, 2)


# -- ISR members ---------------------------------------------------------------------------------------


@breaks(replicas.IN_SYNC)
def joining_replica_lacks_a_record(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2, (ONE, TWO))
    s.has(THREE, "a1" if bad else "a1 b1")
    s.state(ONE, ALL, 1)
    s.check(ONE)


@breaks(replicas.IN_SYNC)
def joining_replica_is_empty(s: Scenario, bad: bool) -> None:
    s.topic(1, 2)
    s.state(ONE, [ONE], 1)
    s.leads(ONE, 1)
    s.has(ONE, "a1", hw=1 if bad else 0)
    s.state(ONE, [ONE, TWO], 1)
    s.check(ONE)


@breaks(replicas.IN_SYNC)
def joining_replica_has_another_record(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 3, (ONE, TWO))
    s.has(THREE, "a1 b0 c1" if bad else "a1 b1 c1")
    s.state(ONE, ALL, 1)
    s.check(ONE)


@breaks(replicas.IN_SYNC)
def joining_replica_holds_the_topic_before(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2, (ONE, TWO))
    s.recreated(THREE, "2" if bad else "1")
    s.follows(THREE, ONE, 1)
    s.has(THREE, "a1 b1")
    s.state(ONE, ALL, 1)
    s.check(ONE)


@breaks(replicas.IN_SYNC)
def replica_joins_with_a_change_of_leader(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2, (ONE, TWO))
    s.has(THREE, "a1" if bad else "a1 b1")
    s.state(TWO, ALL, 2)
    s.check(ONE)


@breaks(replicas.IN_SYNC)
def replica_joins_without_a_leader(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2, (ONE, TWO))
    s.has(THREE, "a1" if bad else "a1 b1")
    s.state(NO_LEADER, ALL, 2)
    s.check(ONE)


@breaks(replicas.IN_SYNC)
def replica_was_deleted_after_it_joined(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2, (ONE, TWO))
    s.has(THREE, "a1" if bad else "a1 b1")
    s.state(ONE, ALL, 1)
    s.state(ONE, [ONE, TWO], 1)
    s.checkers.disks.deleted(THREE, HERE)
    s.check(ONE)


@reaches(counted_as("joins ISR during writes"))
def replica_joins_during_writes(s: Scenario, so: bool) -> None:
    s.begin("a1 b1", 1 if so else 2, (ONE, TWO))
    s.has(THREE, "a1 b1")
    s.state(ONE, ALL, 1)
    s.check(ONE)


@reaches(counted_as("joins ISR during writes"))
def replica_that_leaves_does_not_join(s: Scenario, so: bool) -> None:
    s.begin("a1 b1", 1, (ONE, TWO))
    s.has(THREE, "a1 b1")
    s.state(ONE, [ONE, THREE] if so else [ONE], 1)
    s.check(ONE)


@reaches(counted_as("joins ISR during writes"))
def replica_joins_under_a_leader_of_the_topic_before(s: Scenario, so: bool) -> None:
    s.begin("a1", 0, (ONE, TWO))
    if not so:
        s.topic(1, 2, 3, ident="2")
        s.state(ONE, [ONE], 1)
        s.check(THREE)
    s.state(ONE, ALL, 1)
    s.check(THREE)


@reaches(counted_as("joins ISR during writes"))
def replica_joins_under_an_unread_leader(s: Scenario, so: bool) -> None:
    s.topic(1, 2)
    s.state(ONE, [ONE], 1)
    s.follows(TWO, ONE, 1)
    if so:
        s.leads(ONE, 1, [ONE])
        s.has(ONE, "a1")
    s.state(ONE, [ONE, TWO], 1)
    s.check(TWO)


@reaches(counted_as("only one in sync"))
def one_of_several_replicas_is_in_sync(s: Scenario, so: bool) -> None:
    s.begin("a1", 1)
    s.state(ONE, [ONE] if so else [ONE, TWO], 1)
    s.check(ONE)


@reaches(counted_as("only one in sync"))
def only_replica_is_always_in_sync(s: Scenario, so: bool) -> None:
    s.topic(*((1, 2) if so else (1,)))
    s.state(ONE, [ONE], 1)
    s.state(ONE, [ONE], 2)
    s.leads(ONE, 2)


@reaches(counted_as("only one in sync"))
def reassignment_to_one_replica(s: Scenario, so: bool) -> None:
    s.begin("a1", 1)
    if not so:
        s.topic(1)
    s.state(ONE, [ONE], 2)
    s.check(ONE)


@reaches(counted_as("only one in sync"))
def topic_without_an_id_is_not_judged(s: Scenario, so: bool) -> None:
    s.store.write(znodes.topic_path("t1"), znodes.topic(None, {0: s.partition(ONE).assignment}), ADMIN)
    if so:
        s.topic(*ALL)
    s.state(ONE, ALL, 1)
    s.state(ONE, [ONE], 1)
    s.leads(ONE, 1)


# -- elections -----------------------------------------------------------------------------------------


@breaks(commitment.COMMITTED)
def leader_without_election_lacks_a_record(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 3, (ONE, TWO))
    s.has(THREE, "a1")
    if not bad:
        s.state(THREE, [THREE], 2)
    s.leads(THREE, 2, [THREE])


@breaks(commitment.COMMITTED)
def leader_has_another_record(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 3, (ONE, TWO))
    s.has(THREE, "a1 x0 c1" if bad else "a1 b1 c1")
    s.leads(THREE, 2)


@breaks(commitment.COMMITTED)
def earlier_unclean_election_excuses_nothing(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2, (ONE, TWO))
    s.has(THREE, "a1")
    s.state(THREE, [THREE], 2)
    s.leads(THREE, 2, [THREE])
    s.has(THREE, "a1 c2", hw=2)
    s.has(TWO, "a1" if bad else "a1 c2")
    s.leads(TWO, 3)


@breaks(commitment.COMMITTED)
def later_unclean_election_excuses_nothing(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2, (ONE,))
    s.has(TWO, "a1")
    s.has(THREE, "a1")
    s.state(THREE, [THREE], 3)
    if bad:
        s.leads(TWO, 2)
    s.leads(THREE, 3, [THREE])


@breaks(commitment.COMMITTED)
def second_unclean_election_excuses_a_loss(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2, (ONE,))
    s.has(TWO, "a1")
    s.has(THREE, "a1")
    s.state(THREE, [THREE], 2)
    s.leads(THREE, 2, [THREE])
    s.has(THREE, "a1 c2", hw=2)
    if not bad:
        s.state(TWO, [TWO], 3)
    s.leads(TWO, 3, [TWO])


@breaks(commitment.COMMITTED)
def clean_leader_truncated_a_committed_record(s: Scenario, bad: bool) -> None:
    """The leader was elected from the ISR, truncated, and begins to act after it has left the ISR."""
    s.begin("a1", 0)
    s.state(TWO, ALL, 2)
    s.check(ONE)
    s.has(TWO, "")
    s.state(ONE, [ONE], 3)
    if bad:
        s.watermark(ONE, 1)
    s.leads(TWO, 2)


@breaks(commitment.COMMITTED)
def leaderless_state_excuses_nothing(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2, (ONE, TWO))
    s.has(THREE, "a1" if bad else "a1 b1")
    s.state(NO_LEADER, [ONE, TWO], 2)
    s.state(NO_LEADER, [ONE, TWO], 3)
    s.leads(THREE, 3)


@breaks(commitment.COMMITTED)
def unchanged_leader_outside_the_isr_excuses_nothing(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2, (ONE, TWO))
    s.has(THREE, "a1" if bad else "a1 b1")
    s.state(ONE, [TWO], 2)
    s.state(ONE, [TWO], 3)
    s.leads(THREE, 3)


@breaks(replicas.IN_SYNC)
def leaders_before_an_unclean_one_are_not_judged(s: Scenario, bad: bool) -> None:
    """Earlier leaders commit for themselves only, as soon as the unclean leader acts."""
    s.begin("a1 b1", 2, (ONE, TWO))
    s.has(THREE, "a1 b1" if bad else "a1")
    if bad:
        s.state(ONE, ALL, 1)
    s.state(THREE, ALL if bad else [THREE], 2)
    s.leads(THREE, 2, [THREE])
    s.has(ONE, "a1 b1 d1", hw=3)


@breaks(commitment.EXPOSED)
def unclean_leader_is_judged_in_its_own_epoch(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2, (ONE, TWO))
    s.has(THREE, "a1")
    s.state(THREE, [THREE], 2)
    s.leads(THREE, 2, [THREE])
    s.has(THREE, "a1 c2", hw=2)
    s.partition(TWO).high_watermark = 1
    s.follows(TWO, THREE, 2)
    s.watermark(TWO, 2 if bad else 1)


@breaks(commitment.COMMITTED)
def leader_of_an_earlier_epoch_is_not_new(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.state(TWO, [TWO], 3)
    s.leads(TWO, 3, [TWO])
    s.has(TWO, "a1 b3", hw=2)
    s.leads(THREE, 4 if bad else 2)


@reaches(counted_as("high watermark behind"))
def new_leader_has_an_old_high_watermark(s: Scenario, so: bool) -> None:
    s.begin("a1 b1", 2)
    s.state(TWO, ALL, 2)
    s.partition(TWO).high_watermark = 1 if so else 2
    s.leads(TWO, 2)


@reaches(counted_as("logs diverge"))
def new_leader_lacks_a_record_of_another_replica(s: Scenario, so: bool) -> None:
    s.begin("a1", 1)
    s.has(ONE, "a1 b1")
    s.has(TWO, "a1" if so else "a1 b1")
    s.state(TWO, ALL, 2)
    s.leads(TWO, 2)


@reaches(counted_as("logs diverge"))
def new_leader_has_the_longest_log(s: Scenario, so: bool) -> None:
    s.begin("a1", 1)
    s.has(TWO, "a1 b1" if so else "a1 c2 d2")
    s.has(ONE, "a1 c2 d2" if so else "a1 c2")
    s.state(TWO, ALL, 2)
    s.leads(TWO, 2)


@reaches(counted_as("logs diverge"))
def log_of_the_topic_before_does_not_diverge(s: Scenario, so: bool) -> None:
    s.topic(1, 2)
    s.state(ONE, [ONE, TWO], 1)
    s.recreated(TWO, "1" if so else "2")
    s.follows(TWO, ONE, 1)
    s.has(TWO, "a0 b0")
    s.check(THREE)
    s.leads(ONE, 1)


@reaches(counted_as("two leaders"))
def deposed_leader_writes(s: Scenario, so: bool) -> None:
    s.begin("a1", 1)
    if so:
        s.state(TWO, ALL, 2)
    s.has(ONE, "a1 b1")


@reaches(counted_as("two leaders"))
def deposed_leader_that_follows_is_no_leader(s: Scenario, so: bool) -> None:
    s.begin("a1", 1)
    s.state(TWO, ALL, 2)
    s.unchecked = True
    if not so:
        s.follows(ONE, TWO, 2)
    s.has(ONE, "a1 b1")
    s.unchecked = False
    s.check(ONE)


@reaches(counted_as("two leaders"))
def outdated_follower_is_no_leader(s: Scenario, so: bool) -> None:
    s.begin("a1", 1)
    s.state(TWO, ALL, 2)
    if not so:
        s.has(THREE, "a1 b1")
    else:
        s.has(ONE, "a1 b1")


@reaches(counted_as("two leaders"))
def new_leader_writes_at_once(s: Scenario, so: bool) -> None:
    s.begin("a1", 1)
    s.state(ONE, ALL, 3)
    if so:
        s.leads(TWO, 2)
    s.unchecked = not so
    s.leads(TWO, 2)
    s.has(TWO, "a1 b2")
    s.unchecked = False
    s.check(TWO)


@reaches(counted_as("two leaders"))
def partition_without_state_deposes_no_leader(s: Scenario, so: bool) -> None:
    s.begin("a1", 1)
    s.state(TWO, ALL, 2)
    if not so:
        s.delete_state()
    s.has(ONE, "a1 b1")


@reaches(counted_as("elected unclean"))
def replica_outside_the_isr_is_elected(s: Scenario, so: bool) -> None:
    s.begin("a1", 1, (ONE, TWO))
    s.state(THREE if so else TWO, [THREE if so else TWO], 2)
    s.check(ONE)


@reaches(counted_as("elected unclean"))
def first_leader_is_not_unclean(s: Scenario, so: bool) -> None:
    s.topic(*ALL)
    if so:
        s.state(ONE, [ONE], 1)
    s.state(TWO, [TWO], 2)
    s.leads(TWO, 2)


# -- topics --------------------------------------------------------------------------------------------


@breaks(commitment.COMMITTED)
def partition_under_deletion_is_not_judged(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2, (ONE, TWO))
    s.has(THREE, "a1")
    s.request_deletion("t2" if bad else "t1")
    s.leads(THREE, 2)
    s.watermark(ONE, 2)
    s.has(TWO, "")
    s.follows(TWO, THREE, 2)
    s.acks(ONE, 0, "x")


@breaks(logs.UNCUT)
def only_a_requested_deletion_counts(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2)
    if not bad:
        s.request_deletion()
    s.store.delete(f"{znodes.DELETE_TOPICS}/t1", ADMIN)
    s.has(TWO, "a1")


@breaks(logs.UNCUT)
def deletion_does_not_excuse_the_next_topic(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2)
    s.request_deletion()
    s.store.delete(f"{znodes.DELETE_TOPICS}/t1", ADMIN)
    s.delete_state()
    s.store.delete(znodes.topic_path("t1"), ADMIN)
    s.topic(*ALL, ident="2")
    s.state(ONE, [ONE, TWO], 1)
    for broker in (ONE, TWO):
        s.recreated(broker)
    s.follows(TWO, ONE, 1)
    s.has(TWO, "c1")
    s.leads(ONE, 1)
    s.has(ONE, "c1", hw=1)
    s.has(TWO, "" if bad else "c1 d1")


@breaks(logs.UNCUT)
def deletion_is_of_the_topic_with_the_present_id(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2)
    s.delete_state()
    s.topic(*ALL, ident="2")
    s.request_deletion()
    s.check(ONE)
    s.has(ONE, "a1" if bad else "a1 b1")


@breaks(commitment.ACKNOWLEDGED)
def recreated_topic_of_the_same_length_is_read_again(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.request_deletion()
    s.topic(*ALL, ident="2")
    s.state(ONE, [ONE], 1)
    s.recreated(ONE)
    s.unchecked = True
    s.leads(ONE, 1, [ONE])
    s.has(ONE, "x1", hw=1)
    s.unchecked = False
    s.check(ONE)
    s.acks(ONE, 0, "a" if bad else "x")


@breaks(logs.UNCUT)
def deleted_replica_may_begin_empty(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.state(ONE, [ONE, TWO], 1)
    if not bad:
        s.checkers.disks.deleted(THREE, HERE)
    s.checkers.disks.deleted(THREE, ELSEWHERE)
    s.checkers.disks.deleted(9, HERE)
    s.recreated(THREE, "1")
    s.follows(THREE, ONE, 1)
