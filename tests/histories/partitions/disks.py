"""Disks of brokers: logs after a restart, losses and the records that they excuse, and durability."""

from __future__ import annotations

from harness.checkers.partitions import commitment, disks, logs, replicas
from harness.probes import counted_as
from tests.histories.partitions.scenario import ALL, ELSEWHERE, HERE, ONE, THREE, TWO, Scenario, breaks, reaches

# -- restarts ------------------------------------------------------------------------------------------


@breaks(disks.KEPT)
def restarted_process_lacks_records(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 1)
    s.restarts(TWO, "a1" if bad else "a1 b1")


@breaks(disks.KEPT)
def restarted_process_has_a_later_log_start(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2)
    s.has(TWO, "b1", start=1)
    s.restarts(TWO, "" if bad else "b1", start=2 if bad else 1)


@breaks(disks.KEPT)
def restarted_process_lacks_a_log(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2)
    if bad:
        s.broker(TWO).disk.logs.logs.clear()
    s.restarts(TWO, "a1 b1")


@breaks(disks.KEPT)
def restarted_process_has_a_log_of_another_topic(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2)
    if bad:
        s.recreated(TWO)
        s.partition(TWO)
    s.restarts(TWO, "a1 b1")


@breaks(disks.KEPT)
def restarted_process_has_a_log_without_topic_id(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2)
    s.broker(TWO).disk.idents[HERE] = None
    s.restarts(TWO, "a1" if bad else "a1 b1")


@breaks(disks.KEPT)
def logs_of_a_partition_without_state_are_not_judged(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 3)
    s.has(THREE, "c1", start=2)
    if not bad:
        s.delete_state()
    s.restarts(TWO, "a1")
    s.restarts(THREE, "", start=3)


@breaks(disks.KEPT)
def log_start_of_a_partition_without_state_is_not_judged(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 3)
    if not bad:
        s.delete_state()
    s.restarts(THREE, "c1", start=2)


@breaks(logs.UNCUT)
def truncation_after_a_restart_is_judged(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2)
    s.has(TWO, "a1 b1 c1")
    s.has(TWO, "a1 b1 d2")
    s.restarts(TWO, "a1 b1 d2")
    s.follows(TWO, ONE, 1)
    s.has(TWO, "a1" if bad else "a1 b1 d2 e2")


@breaks(logs.UNCUT)
def truncation_before_the_first_check_is_judged(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2 if bad else 1)
    s.restarts(TWO, "a1 b1")
    s.unchecked = True
    s.follows(TWO, ONE, 1)
    s.has(TWO, "a1 c2")
    s.unchecked = False
    s.check(TWO)


@breaks(logs.BACK)
def restarted_leader_may_have_an_older_high_watermark(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2)
    if not bad:
        s.restarts(ONE, "a1 b1")
    s.partition(ONE).high_watermark = 1
    s.leads(ONE, 1)


@breaks(logs.SAME)
def invented_record_is_found_at_the_restart(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2)
    s.restarts(TWO, "a1 b1 c1" if not bad else "a1 x1")


# -- losses ---------------------------------------------------------------------------------------------


@breaks(disks.KEPT)
def loss_of_a_disk_excuses_once(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 1)
    s.restarts(TWO, "a1", how="failed")
    s.follows(TWO, ONE, 1)
    s.has(TWO, "a1 b1")
    s.restarts(TWO, "a1" if bad else "a1 b1")


@breaks(disks.KEPT)
def failed_disk_may_lose_the_log_start(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 3)
    s.restarts(TWO, "c1", start=2, how="" if bad else "failed")


@breaks(replicas.IN_SYNC)
def records_that_a_disk_brings_back_are_compared(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 3, (ONE, TWO))
    s.has(THREE, "c1", start=2)
    s.restarts(THREE, "a1 x0 c1" if bad else "a1 b1 c1", how="failed")
    s.follows(THREE, ONE, 1)
    s.state(ONE, ALL, 1)
    s.check(ONE)


@breaks(disks.KEPT)
def loss_of_another_disk_excuses_nothing(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 1)
    s.checkers.disks.lost(s.observed(THREE), "failed")
    s.restarts(TWO, "a1" if bad else "a1 b1")


@breaks(replicas.IN_SYNC)
def isr_member_with_a_lost_disk_may_lack_records(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.wiped(THREE)
    s.follows(THREE, ONE, 1)
    if bad:
        s.has(THREE, "a1")
    s.has(TWO, "a1 b1")
    s.has(ONE, "a1 b1", hw=2)


@breaks(replicas.IN_SYNC)
def isr_member_that_regained_its_records_lacks_later_ones(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2)
    s.wiped(THREE)
    s.follows(THREE, ONE, 1)
    s.has(TWO, "a1 b1 c1")
    s.has(ONE, "a1 b1 c1", hw=3)
    s.has(THREE, "a1 b1")
    if bad:
        s.has(THREE, "a1 b1 c1")
    s.has(TWO, "a1 b1 c1 d1")
    s.has(ONE, "a1 b1 c1 d1", hw=4)


@breaks(replicas.IN_SYNC)
def loss_of_uncommitted_records_excuses_until_regained(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 1)
    s.restarts(THREE, "a1", how="failed")
    s.follows(THREE, ONE, 1)
    s.has(THREE, "a1 b1 c1" if bad else "a1 b1")
    if bad:
        s.has(THREE, "a1")
    s.watermark(ONE, 3)


@breaks(replicas.IN_SYNC)
def two_losses_excuse_until_both_are_regained(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1 d1", 1)
    s.restarts(THREE, "a1", how="failed")
    s.follows(THREE, ONE, 1)
    s.has(THREE, "a1 b1 c1")
    s.restarts(THREE, "a1 b1", how="failed")
    s.follows(THREE, ONE, 1)
    s.has(THREE, "a1 b1 c1 d1" if bad else "a1 b1 c1")
    if bad:
        s.has(THREE, "a1 b1 c1")
    s.watermark(ONE, 4)


@breaks(logs.UNCUT)
def truncation_after_a_loss_is_excused(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2)
    if not bad:
        s.restarts(THREE, "a1", how="failed")
    s.follows(THREE, ONE, 1)
    s.has(THREE, "")


@breaks(logs.UNCUT)
def failed_disk_without_a_loss_excuses_nothing(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2)
    s.restarts(THREE, "a1 b1", how="failed")
    s.follows(THREE, ONE, 1)
    s.has(THREE, "a1 b1 c1")
    s.has(THREE, "a1" if bad else "a1 b1")


@breaks(commitment.COMMITTED)
def leader_with_a_lost_disk_may_lack_records(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 3)
    s.restarts(THREE, "a1", how="failed")
    s.follows(THREE, ONE, 1)
    if bad:
        s.has(THREE, "")
    s.state(THREE, ALL, 2)
    s.leads(THREE, 2)


@breaks(commitment.COMMITTED)
def first_of_two_losses_is_the_greater(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1 d1", 4)
    s.restarts(THREE, "a1 b1", how="failed")
    s.follows(THREE, ONE, 1)
    s.has(THREE, "a1 b1 c1")
    s.restarts(THREE, "a1 b1", how="failed")
    s.follows(THREE, ONE, 1)
    if bad:
        s.has(THREE, "a1")
    s.state(THREE, ALL, 2)
    s.leads(THREE, 2)


@breaks(commitment.COMMITTED)
def second_of_two_losses_is_the_greater(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1 d1", 4)
    s.restarts(THREE, "a1 b1 c1", how="failed")
    s.restarts(THREE, "a1", how="failed")
    s.follows(THREE, ONE, 1)
    if bad:
        s.has(THREE, "")
    s.state(THREE, ALL, 2)
    s.leads(THREE, 2)


@breaks(replicas.IN_SYNC)
def leaders_before_one_with_a_loss_are_not_judged(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2)
    if not bad:
        s.restarts(THREE, "a1", how="failed")
    s.state(THREE, ALL, 2)
    s.leads(THREE, 2)
    s.has(ONE, "a1 b1 c1", hw=3)


@breaks(logs.UNCUT)
def loss_excuses_only_until_the_broker_leads(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2)
    s.restarts(THREE, "a1", how="failed")
    s.state(THREE, ALL, 2)
    s.leads(THREE, 2)
    for broker in (ONE, TWO):
        s.follows(broker, THREE, 2)
        s.has(broker, "a1")
        s.has(broker, "a1 c2")
    s.has(THREE, "a1 c2", hw=2)
    s.follows(THREE, ONE, 3)
    s.has(THREE, "a1" if bad else "a1 c2 d3")


@breaks(commitment.EXPOSED)
def stored_high_watermark_is_accepted_once(s: Scenario, bad: bool) -> None:
    """The broker truncates after an unclean election, and a power failure undoes the truncation."""
    s.begin("a1 b1", 2, (ONE, TWO))
    s.has(THREE, "a1")
    s.state(THREE, [THREE], 2)
    s.leads(THREE, 2, [THREE])
    s.follows(TWO, THREE, 2)
    s.has(TWO, "a1")
    s.restarts(TWO, "a1 b1", how="power")
    s.partition(TWO).high_watermark = 2
    s.follows(TWO, THREE, 2)
    if bad:
        s.has(TWO, "a1 b1 d1", hw=3)


@breaks(disks.FLUSHED)
def power_failure_loses_durable_records(s: Scenario, bad: bool) -> None:
    s.set_up(durable=bad)
    s.begin("a1 b1 c1", 2)
    s.restarts(TWO, "a1", how="power")


@breaks(disks.FLUSHED)
def power_failure_may_lose_uncommitted_records(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 2)
    s.restarts(TWO, "a1" if bad else "a1 b1", how="power")


@breaks(disks.FLUSHED)
def power_failure_outside_the_isr_may_lose_records(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 2, ALL if bad else (ONE, TWO))
    s.has(THREE, "a1 b1 c1")
    s.restarts(THREE, "a1", how="power")


@breaks(disks.FLUSHED)
def failed_disk_may_lose_durable_records(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 2)
    s.restarts(TWO, "a1", how="power" if bad else "wiped")


@breaks(disks.FLUSHED)
def power_failure_of_a_partition_without_state(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 2)
    if not bad:
        s.delete_state()
    s.restarts(TWO, "a1", how="power")


@breaks(disks.FLUSHED)
def power_failure_loses_the_end_of_a_log_with_a_later_start(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1 d1", 3)
    s.has(TWO, "b1 c1 d1", start=1)
    s.restarts(TWO, "b1" if bad else "b1 c1", start=1, how="power")


@breaks(disks.FLUSHED)
def power_failure_may_undo_a_deletion(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 3)
    s.has(TWO, "c1", start=2)
    s.restarts(TWO, "a1 b1" if bad else "a1 b1 c1", how="power")


@reaches(counted_as("power failure loses records"))
def power_failure_loses_records(s: Scenario, so: bool) -> None:
    s.begin("a1 b1", 1)
    s.restarts(TWO, "a1" if so else "a1 b1", how="power")


@reaches(counted_as("power failure loses records"))
def failed_disk_loses_records(s: Scenario, so: bool) -> None:
    s.begin("a1 b1", 1)
    s.restarts(TWO, "a1", how="power" if so else "failed")


@reaches(counted_as("ISR member lost records"))
def isr_member_loses_committed_records(s: Scenario, so: bool) -> None:
    s.begin("a1 b1", 2, ALL if so else (ONE, TWO))
    s.has(THREE, "a1 b1")
    s.wiped(THREE)


@reaches(counted_as("ISR member lost records"))
def isr_member_loses_uncommitted_records(s: Scenario, so: bool) -> None:
    s.begin("a1 b1", 2 if so else 1)
    s.restarts(THREE, "a1", how="failed")


# -- durable records ------------------------------------------------------------------------------------


@breaks(replicas.DURABLE)
def follower_fetches_beyond_its_durable_records(s: Scenario, bad: bool) -> None:
    s.set_up(sync=True)
    s.topic(*ALL)
    s.follows(TWO, ONE, 1)
    s.has(TWO, "a1 b1")
    s.synced(TWO, 1)
    s.fetches(TWO, 2 if bad else 1)


@breaks(replicas.DURABLE)
def follower_may_fetch_early_without_synchronous_writes(s: Scenario, bad: bool) -> None:
    s.set_up(sync=bad)
    s.topic(*ALL)
    s.follows(TWO, ONE, 1)
    s.has(TWO, "a1 b1")
    s.fetches(TWO, 2)


@breaks(replicas.DURABLE)
def follower_without_a_log_may_fetch(s: Scenario, bad: bool) -> None:
    s.set_up(sync=True)
    s.topic(*ALL)
    s.follows(TWO, ONE, 1)
    s.fetches(TWO, 5, ELSEWHERE)
    if not bad:
        s.broker(TWO).disk.logs.logs.clear()
    s.fetches(TWO, 5)


@breaks(replicas.DURABLE)
def leader_commits_records_that_are_not_durable(s: Scenario, bad: bool) -> None:
    s.set_up(sync=True)
    s.topic(*ALL)
    s.state(ONE, [ONE], 1)
    s.leads(ONE, 1)
    s.has(ONE, "a1 b1")
    s.synced(ONE, 1 if bad else 2)
    s.watermark(ONE, 2)
