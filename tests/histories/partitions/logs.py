"""Logs: the record at each offset, the log start, and truncations."""

from __future__ import annotations

from harness.checkers.partitions import commitment, logs, replicas
from harness.probes import counted_as
from tests.histories.partitions.scenario import ALL, ONE, THREE, TWO, Scenario, breaks, reaches

# -- one record per offset -----------------------------------------------------------------------------


@breaks(logs.SAME)
def two_records_at_one_offset_and_epoch(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.has(TWO, "a1 b1")
    s.has(THREE, "a1 c1" if bad else "a1 c2")


@breaks(logs.SAME)
def two_sequences_at_one_offset_and_epoch(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.has(TWO, "a1 b1 c1:7/1")
    s.has(THREE, "a1 b1 c1:7/2" if bad else "a1 b1 c1:7/1")


@breaks(logs.SAME)
def empty_value_differs_from_another_value(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.has(TWO, "a1 -1")
    s.has(THREE, "a1 b1" if bad else "a1 -1")


@breaks(logs.SAME)
def uncommitted_records_are_compared(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 3)
    s.has(TWO, "a1 b1 c1 d1 e1 f1")
    s.has(THREE, "a1 b1 c1 d1 e1 g1" if bad else "a1 b1 c1 d1 e1 f1")


@breaks(logs.ONCE)
def sequence_is_repeated(s: Scenario, bad: bool) -> None:
    s.begin("a1:7/0 b1:7/1", 2)
    s.has(ONE, f"a1:7/0 b1:7/1 c1:7/{1 if bad else 2}")


@breaks(logs.ONCE)
def sequence_goes_back(s: Scenario, bad: bool) -> None:
    s.begin("a1:7/0 b1:7/5", 2)
    s.has(ONE, f"a1:7/0 b1:7/5 c1:7/{3 if bad else 6}")


@breaks(logs.ONCE)
def sequences_begin_again_at_0(s: Scenario, bad: bool) -> None:
    s.begin("a1:7/2147483646 b1:7/2147483647", 2)
    s.has(ONE, f"a1:7/2147483646 b1:7/2147483647 c1:7/{2147483646 if bad else 0}")


@breaks(logs.ONCE)
def sequence_is_later_by_half_of_all(s: Scenario, bad: bool) -> None:
    s.begin("a1:7/1073741824", 1)
    s.has(ONE, f"a1:7/1073741824 b1:7/{1 if bad else 0}")


@breaks(logs.ONCE)
def producer_id_0_has_sequences(s: Scenario, bad: bool) -> None:
    s.begin("a1:0/0 b1:8/0", 2)
    s.has(ONE, f"a1:0/0 b1:8/0 c1:0/{0 if bad else 1}")


@breaks(logs.ONCE)
def truncated_sequence_may_be_written_again(s: Scenario, bad: bool) -> None:
    s.begin("a1:7/0", 1)
    s.has(TWO, "a1:7/0 b1:7/1")
    s.has(TWO, "a1:7/0")
    s.has(TWO, f"a1:7/0 b2:7/{0 if bad else 1}")


@breaks(logs.ONCE)
def leader_may_not_know_a_producer_of_deleted_records(s: Scenario, bad: bool) -> None:
    s.begin("a1:7/0 b1:7/1 c1", 3, isr=(ONE, THREE))
    held, start = ("b1:7/1 c1", 1) if bad else ("c1", 2)
    s.has(TWO, held, start=start)
    s.has(TWO, f"{held} d1:7/0")
    s.has(ONE, "a1:7/0 b1:7/1 c1 d1:7/0")


@breaks(logs.ONCE)
def producer_taken_as_new_continues_its_sequence(s: Scenario, bad: bool) -> None:
    s.begin("a1:7/0 b1:7/1 c1:7/2 d1", 4, isr=(ONE, THREE))
    s.has(TWO, "d1", start=3)
    s.has(TWO, "d1 e1:7/0")
    s.has(TWO, "d1 e1:7/0 f1:7/1")
    s.has(ONE, f"a1:7/0 b1:7/1 c1:7/2 d1 e1:7/0 f1:7/1{' g1:7/1' if bad else ' g1:7/2'}")


# -- log starts ----------------------------------------------------------------------------------------


@breaks(logs.START)
def log_start_decreases(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 3)
    s.has(TWO, "b1 c1", start=1)
    if bad:
        s.has(TWO, "a1 b1 c1", start=0, cut=False)
    s.has(TWO, "c1", start=2, hw=3)


@breaks(logs.RETIRED)
def leader_deletes_uncommitted_records(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 1 if bad else 2)
    s.has(ONE, "c1", start=2)


@breaks(logs.RETIRED)
def follower_deletes_uncommitted_records(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 1 if bad else 2)
    s.has(TWO, "c1", start=2)


@breaks(logs.RETIRED)
def records_deleted_before_an_unclean_election(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1 d1", 3, (ONE, TWO))
    s.has(TWO, "c1 d1", start=2)
    s.has(THREE, "a1")
    s.state(THREE, [THREE], 2)
    s.leads(THREE, 2, [THREE])
    s.follows(TWO, THREE, 2)
    if bad:
        s.has(TWO, "d1", start=3)


@breaks(logs.RETIRED)
def outdated_leader_may_delete_its_records(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 1, (ONE, TWO))
    s.has(THREE, "a1")
    if not bad:
        s.state(THREE, [THREE], 2)
        s.leads(THREE, 2, [THREE])
    s.has(ONE, "c1", start=2)


@breaks(replicas.IN_SYNC)
def replica_with_a_later_log_start_lacks_later_records(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 3, (ONE, TWO))
    s.has(THREE, "" if bad else "c1", start=2)
    s.state(ONE, ALL, 1)
    s.check(ONE)


@breaks(replicas.IN_SYNC)
def records_deleted_between_two_checks_are_not_missing(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2)
    s.has(TWO, "a1 b1 c1 d1 e1")
    s.has(THREE, "a1 b1 c1 d1" if bad else "a1 b1 c1 d1 e1")
    s.has(ONE, "d1 e1", start=3, hw=5, cut=False)


@breaks(replicas.IN_SYNC)
def records_after_unread_deleted_ones_are_compared(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.has(TWO, "a1 b1 c1 d1")
    s.has(THREE, "a1 b1 c1 d2" if bad else "a1 b1 c1 d1")
    s.has(ONE, "c1 d1", start=2, hw=4, cut=False)


@breaks(commitment.EXPOSED)
def unread_records_keep_their_offsets(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.has(TWO, "a1 b1 c1 d1")
    s.has(THREE, "a1 b1 c1 d1")
    s.has(ONE, "c1 d1", start=2, hw=4, cut=False)
    s.has(TWO, "a1 b1 c1 d1 e1", hw=5 if bad else 4)


@reaches(counted_as("log start advances"))
def log_start_advances(s: Scenario, so: bool) -> None:
    s.begin("a1 b1 c1", 3)
    s.has(TWO, "b1 c1" if so else "a1 b1 c1 d1", start=1 if so else 0)


# -- truncations ---------------------------------------------------------------------------------------


@breaks(logs.UNCUT)
def committed_record_is_truncated(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 2 if bad else 1)
    s.has(TWO, "a1")


@breaks(logs.UNCUT)
def committed_record_is_replaced(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2 if bad else 1)
    s.has(TWO, "a1 c2")


@breaks(logs.UNCUT)
def committed_record_is_replaced_by_several(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2 if bad else 1)
    s.has(TWO, "a1 c2 d2")


@breaks(logs.UNCUT)
def log_is_shorter_without_a_truncation(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2 if bad else 1)
    s.has(TWO, "a1", cut=False)


@breaks(logs.UNCUT)
def follower_starts_over_with_a_later_log_start(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1", 2)
    s.has(TWO, "", start=1 if bad else 2, cut=True)


@breaks(logs.UNCUT)
def log_with_a_later_start_is_truncated(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 2)
    s.has(TWO, "b1 c1", start=1)
    s.has(TWO, "" if bad else "b1", start=1)


@breaks(replicas.IN_SYNC)
def follower_that_started_over_lacks_later_records(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1 d1", 3, (ONE, TWO))
    s.has(THREE, "a1 x0")
    s.has(THREE, "" if bad else "c1", start=2, cut=True)
    s.state(ONE, ALL, 1)
    s.check(ONE)


@reaches(counted_as("follower truncates"))
def follower_truncates_its_tail(s: Scenario, so: bool) -> None:
    s.begin("a1 b1", 1)
    s.has(TWO, "a1" if so else "a1 c2")
