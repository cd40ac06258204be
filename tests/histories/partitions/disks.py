"""Stories of disks: what is there when a broker is back, and what its loss excuses."""

from __future__ import annotations

from harness.checkers.partitions import commitment, disks, logs, replicas
from harness.probes import counted_as
from tests.histories.partitions.story import ALL, ELSEWHERE, HERE, ONE, THREE, TWO, Tale, breaks, reaches

# -- the process alone ---------------------------------------------------------------------------------


@breaks(disks.KEPT)
def a_process_is_back_and_lacks_records(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 1)
    t.returns(TWO, "a1" if bad else "a1 b1")


@breaks(disks.KEPT)
def a_process_is_back_and_its_log_begins_later(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2)
    t.has(TWO, "b1", start=1)
    t.returns(TWO, "" if bad else "b1", start=2 if bad else 1)


@breaks(disks.KEPT)
def a_process_is_back_and_its_log_is_not_there(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2)
    if bad:
        t.member(TWO).disk.logs.logs.clear()
    t.returns(TWO, "a1 b1")


@breaks(disks.KEPT)
def a_process_is_back_and_finds_another_topic(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2)
    if bad:
        t.anew(TWO)
        t.partition(TWO)
    t.returns(TWO, "a1 b1")


@breaks(disks.KEPT)
def a_process_is_back_and_its_log_has_no_name_yet(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2)
    t.member(TWO).disk.idents[HERE] = None
    t.returns(TWO, "a1" if bad else "a1 b1")


@breaks(disks.KEPT)
def of_what_the_store_does_not_know_nothing_is_asked(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 3)
    t.has(THREE, "c1", start=2)
    if not bad:
        t.stateless()
    t.returns(TWO, "a1")
    t.returns(THREE, "", start=3)


@breaks(disks.KEPT)
def of_what_the_store_does_not_know_it_may_begin_later(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 3)
    if not bad:
        t.stateless()
    t.returns(THREE, "c1", start=2)


@breaks(logs.UNCUT)
def who_is_back_is_looked_at_as_before(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2)
    t.has(TWO, "a1 b1 c1")
    t.has(TWO, "a1 b1 d2")
    t.returns(TWO, "a1 b1 d2")
    t.follows(TWO, ONE, 1)
    t.has(TWO, "a1" if bad else "a1 b1 d2 e2")


@breaks(logs.UNCUT)
def who_is_back_is_looked_at_when_it_has_cut_already(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2 if bad else 1)
    t.returns(TWO, "a1 b1")
    t.blind = True
    t.follows(TWO, ONE, 1)
    t.has(TWO, "a1 c2")
    t.blind = False
    t.looks(TWO)


@breaks(logs.BACK)
def who_is_back_does_not_lead_any_more(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2)
    if not bad:
        t.returns(ONE, "a1 b1")
    t.partition(ONE).high_watermark = 1
    t.leads(ONE, 1)


@breaks(logs.SAME)
def what_a_disk_makes_up_is_seen_at_once(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2)
    t.returns(TWO, "a1 b1 c1" if not bad else "a1 x1")


# -- a disk that has lost something ----------------------------------------------------------------------


@breaks(disks.KEPT)
def what_a_disk_has_lost_is_forgiven_once(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 1)
    t.returns(TWO, "a1", how="failed")
    t.follows(TWO, ONE, 1)
    t.has(TWO, "a1 b1")
    t.returns(TWO, "a1" if bad else "a1 b1")


@breaks(disks.KEPT)
def a_disk_may_lose_the_beginning_of_a_log(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 3)
    t.returns(TWO, "c1", start=2, how="" if bad else "failed")


@breaks(replicas.IN_SYNC)
def what_comes_back_with_the_power_is_compared_as_well(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 3, (ONE, TWO))
    t.has(THREE, "c1", start=2)
    t.returns(THREE, "a1 x0 c1" if bad else "a1 b1 c1", how="failed")
    t.follows(THREE, ONE, 1)
    t.state(ONE, ALL, 1)
    t.looks(ONE)


@breaks(disks.KEPT)
def that_another_disk_has_lost_something_is_nothing_to_this_one(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 1)
    t.keeper.disks.lost(t.onlooked(THREE), "failed")
    t.returns(TWO, "a1" if bad else "a1 b1")


@breaks(replicas.IN_SYNC)
def who_has_lost_his_disk_need_not_hold_it(t: Tale, bad: bool) -> None:
    t.opens("a1", 1)
    t.wiped(THREE)
    t.follows(THREE, ONE, 1)
    if bad:
        t.has(THREE, "a1")
    t.has(TWO, "a1 b1")
    t.has(ONE, "a1 b1", hw=2)


@breaks(replicas.IN_SYNC)
def who_has_what_he_had_still_lacks_what_came_since(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2)
    t.wiped(THREE)
    t.follows(THREE, ONE, 1)
    t.has(TWO, "a1 b1 c1")
    t.has(ONE, "a1 b1 c1", hw=3)
    t.has(THREE, "a1 b1")
    if bad:
        t.has(THREE, "a1 b1 c1")
    t.has(TWO, "a1 b1 c1 d1")
    t.has(ONE, "a1 b1 c1 d1", hw=4)


@breaks(replicas.IN_SYNC)
def who_has_all_that_is_committed_may_lack_what_he_had(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 1)
    t.returns(THREE, "a1", how="failed")
    t.follows(THREE, ONE, 1)
    t.has(THREE, "a1 b1 c1" if bad else "a1 b1")
    if bad:
        t.has(THREE, "a1")
    t.knows(ONE, 3)


@breaks(replicas.IN_SYNC)
def what_was_lost_twice_is_counted_together(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1 d1", 1)
    t.returns(THREE, "a1", how="failed")
    t.follows(THREE, ONE, 1)
    t.has(THREE, "a1 b1 c1")
    t.returns(THREE, "a1 b1", how="failed")
    t.follows(THREE, ONE, 1)
    t.has(THREE, "a1 b1 c1 d1" if bad else "a1 b1 c1")
    if bad:
        t.has(THREE, "a1 b1 c1")
    t.knows(ONE, 4)


@breaks(logs.UNCUT)
def what_a_disk_has_lost_may_be_cut(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2)
    if not bad:
        t.returns(THREE, "a1", how="failed")
    t.follows(THREE, ONE, 1)
    t.has(THREE, "")


@breaks(logs.UNCUT)
def who_has_lost_nothing_is_judged_as_before(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2)
    t.returns(THREE, "a1 b1", how="failed")
    t.follows(THREE, ONE, 1)
    t.has(THREE, "a1 b1 c1")
    t.has(THREE, "a1" if bad else "a1 b1")


@breaks(commitment.COMMITTED)
def who_has_lost_his_disk_may_lead(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 3)
    t.returns(THREE, "a1", how="failed")
    t.follows(THREE, ONE, 1)
    if bad:
        t.has(THREE, "")
    t.state(THREE, ALL, 2)
    t.leads(THREE, 2)


@breaks(commitment.COMMITTED)
def of_two_losses_the_greater_one_counts(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1 d1", 4)
    t.returns(THREE, "a1 b1", how="failed")
    t.follows(THREE, ONE, 1)
    t.has(THREE, "a1 b1 c1")
    t.returns(THREE, "a1 b1", how="failed")
    t.follows(THREE, ONE, 1)
    if bad:
        t.has(THREE, "a1")
    t.state(THREE, ALL, 2)
    t.leads(THREE, 2)


@breaks(commitment.COMMITTED)
def the_second_loss_may_be_the_greater_one(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1 d1", 4)
    t.returns(THREE, "a1 b1 c1", how="failed")
    t.returns(THREE, "a1", how="failed")
    t.follows(THREE, ONE, 1)
    if bad:
        t.has(THREE, "")
    t.state(THREE, ALL, 2)
    t.leads(THREE, 2)


@breaks(replicas.IN_SYNC)
def with_whom_much_was_lost_others_commit_for_themselves(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2)
    if not bad:
        t.returns(THREE, "a1", how="failed")
    t.state(THREE, ALL, 2)
    t.leads(THREE, 2)
    t.has(ONE, "a1 b1 c1", hw=3)


@breaks(logs.UNCUT)
def who_led_with_less_has_paid_for_it(t: Tale, bad: bool) -> None:
    t.opens("a1 b1", 2)
    t.returns(THREE, "a1", how="failed")
    t.state(THREE, ALL, 2)
    t.leads(THREE, 2)
    for broker in (ONE, TWO):
        t.follows(broker, THREE, 2)
        t.has(broker, "a1")
        t.has(broker, "a1 c2")
    t.has(THREE, "a1 c2", hw=2)
    t.follows(THREE, ONE, 3)
    t.has(THREE, "a1" if bad else "a1 c2 d3")


@breaks(commitment.EXPOSED)
def a_watermark_that_was_kept_is_believed_once(t: Tale, bad: bool) -> None:
    """Of what was lost with an election; the cut that followed is undone with the power."""
    t.opens("a1 b1", 2, (ONE, TWO))
    t.has(THREE, "a1")
    t.state(THREE, [THREE], 2)
    t.leads(THREE, 2, [THREE])
    t.follows(TWO, THREE, 2)
    t.has(TWO, "a1")
    t.returns(TWO, "a1 b1", how="power")
    t.partition(TWO).high_watermark = 2
    t.follows(TWO, THREE, 2)
    if bad:
        t.has(TWO, "a1 b1 d1", hw=3)


@breaks(disks.FLUSHED)
def the_power_takes_what_had_to_be_durable(t: Tale, bad: bool) -> None:
    t.set_up(durable=bad)
    t.opens("a1 b1 c1", 2)
    t.returns(TWO, "a1", how="power")


@breaks(disks.FLUSHED)
def the_power_takes_what_is_not_committed(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 2)
    t.returns(TWO, "a1" if bad else "a1 b1", how="power")


@breaks(disks.FLUSHED)
def the_power_takes_what_is_not_in_sync(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 2, ALL if bad else (ONE, TWO))
    t.has(THREE, "a1 b1 c1")
    t.returns(THREE, "a1", how="power")


@breaks(disks.FLUSHED)
def a_disk_may_lose_what_the_power_may_not(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 2)
    t.returns(TWO, "a1", how="power" if bad else "wiped")


@breaks(disks.FLUSHED)
def the_power_takes_what_the_store_does_not_know(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 2)
    if not bad:
        t.stateless()
    t.returns(TWO, "a1", how="power")


@breaks(disks.FLUSHED)
def the_power_takes_the_end_of_a_log_that_begins_later(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1 d1", 3)
    t.has(TWO, "b1 c1 d1", start=1)
    t.returns(TWO, "b1" if bad else "b1 c1", start=1, how="power")


@breaks(disks.FLUSHED)
def the_power_takes_that_something_has_gone(t: Tale, bad: bool) -> None:
    t.opens("a1 b1 c1", 3)
    t.has(TWO, "c1", start=2)
    t.returns(TWO, "a1 b1" if bad else "a1 b1 c1", how="power")


@reaches(counted_as("power failure loses records"))
def the_power_takes_records(t: Tale, so: bool) -> None:
    t.opens("a1 b1", 1)
    t.returns(TWO, "a1" if so else "a1 b1", how="power")


@reaches(counted_as("power failure loses records"))
def it_is_not_the_power_that_takes_records(t: Tale, so: bool) -> None:
    t.opens("a1 b1", 1)
    t.returns(TWO, "a1", how="power" if so else "failed")


@reaches(counted_as("ISR member lost records"))
def a_member_of_the_isr_has_lost_what_was_committed(t: Tale, so: bool) -> None:
    t.opens("a1 b1", 2, ALL if so else (ONE, TWO))
    t.has(THREE, "a1 b1")
    t.wiped(THREE)


@reaches(counted_as("ISR member lost records"))
def a_member_of_the_isr_has_lost_what_was_not_committed(t: Tale, so: bool) -> None:
    t.opens("a1 b1", 2 if so else 1)
    t.returns(THREE, "a1", how="failed")


# -- what counts as on the disk --------------------------------------------------------------------------


@breaks(replicas.DURABLE)
def a_follower_asks_for_more_than_its_disk_has_the_end_of(t: Tale, bad: bool) -> None:
    t.set_up(sync=True)
    t.topic(*ALL)
    t.follows(TWO, ONE, 1)
    t.has(TWO, "a1 b1")
    t.synced(TWO, 1)
    t.asks(TWO, 2 if bad else 1)


@breaks(replicas.DURABLE)
def where_the_disk_is_not_waited_for_a_follower_asks(t: Tale, bad: bool) -> None:
    t.set_up(sync=bad)
    t.topic(*ALL)
    t.follows(TWO, ONE, 1)
    t.has(TWO, "a1 b1")
    t.asks(TWO, 2)


@breaks(replicas.DURABLE)
def who_has_no_log_of_it_has_nothing_to_wait_for(t: Tale, bad: bool) -> None:
    t.set_up(sync=True)
    t.topic(*ALL)
    t.follows(TWO, ONE, 1)
    t.asks(TWO, 5, ELSEWHERE)
    if not bad:
        t.member(TWO).disk.logs.logs.clear()
    t.asks(TWO, 5)


@breaks(replicas.DURABLE)
def a_leader_counts_itself_before_its_disk_has_it(t: Tale, bad: bool) -> None:
    t.set_up(sync=True)
    t.topic(*ALL)
    t.state(ONE, [ONE], 1)
    t.leads(ONE, 1)
    t.has(ONE, "a1 b1")
    t.synced(ONE, 1 if bad else 2)
    t.knows(ONE, 2)
