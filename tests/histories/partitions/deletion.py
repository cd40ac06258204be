"""Deleted records at the start of a log: by age, by size, and on request. The timestamp of all records is 0."""

from __future__ import annotations

from harness.checkers.partitions import commitment, logs
from replica.core.errors import ErrorCode
from tests.histories.partitions.scenario import ELSEWHERE, ONE, THREE, TWO, Scenario, breaks


@breaks(logs.YOUNG)
def retention_time_deletes_only_old_records(s: Scenario, bad: bool) -> None:
    s.retention(ms=500)
    s.begin("a1 b1 c1", 3)
    s.broker(ONE).now = 500 if bad else 501
    s.has(ONE, "b1 c1", start=1)


@breaks(logs.YOUNG)
def retention_size_deletes_only_the_excess(s: Scenario, bad: bool) -> None:
    s.retention(size=100)
    s.begin("a1 b1 c1", 3)
    s.log(ONE).size = 99 if bad else 100
    s.has(ONE, "b1 c1", start=1)


@breaks(logs.YOUNG)
def young_record_may_be_deleted_by_size(s: Scenario, bad: bool) -> None:
    s.retention(ms=5_000, size=-1 if bad else 100)
    s.begin("a1 b1 c1", 3)
    s.has(ONE, "b1 c1", start=1)


@breaks(logs.YOUNG)
def delete_request_deletes_no_more_records(s: Scenario, bad: bool) -> None:
    s.retention(ms=5_000)
    s.begin("a1 b1 c1", 3)
    s.delete_records(ONE, 1 if bad else 2)
    s.has(ONE, "c1", start=2)


@breaks(logs.YOUNG)
def smaller_delete_request_revokes_nothing(s: Scenario, bad: bool) -> None:
    s.retention(ms=5_000)
    s.begin("a1 b1 c1", 3)
    if not bad:
        s.delete_records(ONE, 2)
    s.delete_records(ONE, 1)
    s.has(ONE, "c1", start=2)


@breaks(logs.YOUNG)
def delete_request_beyond_the_high_watermark_is_void(s: Scenario, bad: bool) -> None:
    s.retention(ms=5_000)
    s.begin("a1 b1 c1", 1 if bad else 2)
    s.delete_records(ONE, 2)
    s.watermark(ONE, 3)
    s.has(ONE, "c1", start=2)


@breaks(logs.YOUNG)
def delete_request_to_a_follower_is_void(s: Scenario, bad: bool) -> None:
    s.retention(ms=5_000)
    s.begin("a1 b1 c1", 3)
    s.delete_records(TWO if bad else ONE, 2)
    s.has(ONE, "c1", start=2)


@breaks(logs.YOUNG)
def followers_may_delete_what_the_leader_deleted(s: Scenario, bad: bool) -> None:
    s.retention(ms=500)
    s.begin("a1 b1 c1", 3)
    s.has(ONE, "b1 c1", start=1)
    s.broker(TWO).now = 400
    s.has(TWO, "c1" if bad else "b1 c1", start=2 if bad else 1)


@breaks(logs.YOUNG)
def delete_request_to_an_empty_broker_is_void(s: Scenario, bad: bool) -> None:
    s.retention(ms=5_000)
    s.delete_records(ONE, 2)
    s.begin("a1 b1 c1", 3)
    if not bad:
        s.delete_records(ONE, 2)
    s.has(ONE, "c1", start=2)


@breaks(logs.YOUNG)
def delete_request_to_a_failed_disk_is_void(s: Scenario, bad: bool) -> None:
    s.retention(ms=5_000)
    s.begin("a1 b1 c1", 3)
    if not bad:
        s.delete_records(ONE, 2)
    s.disk_fails(ONE)
    s.delete_records(ONE, 2)
    s.has(TWO, "c1", start=2)


@breaks(logs.REPLACED)
def log_without_compaction_has_no_gap(s: Scenario, bad: bool) -> None:
    s.begin("a1", 1)
    s.has(TWO, "a1 . c1" if bad else "a1 b1 c1")


@breaks(commitment.GONE_HERE)
def deleted_records_remain_on_a_replica(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 3)
    s.replies_deleted(ONE, 2, where=ELSEWHERE)
    for broker in (ONE, TWO) if bad else (ONE, TWO, THREE):
        s.has(broker, "c1", start=2)
    s.replies_deleted(ONE, 2)


@breaks(commitment.GONE_HERE)
def replica_deleted_fewer_records_than_reported(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 3)
    for broker in (ONE, TWO):
        s.has(broker, "c1", start=2)
    s.has(THREE, "b1 c1", start=1)
    s.replies_deleted(ONE, 2 if bad else 1)


@breaks(commitment.GONE_HERE)
def failed_replica_may_keep_deleted_records(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 3)
    s.learns_of_failure(ONE, TWO if bad else THREE)
    for broker in (ONE, TWO):
        s.has(broker, "c1", start=2)
    s.replies_deleted(ONE, 2)


@breaks(commitment.GONE_HERE)
def refused_delete_request_reports_nothing(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 3)
    s.replies_deleted(ONE, 2, ErrorCode.NONE if bad else ErrorCode.REQUEST_TIMED_OUT)


@breaks(commitment.GONE_HERE)
def former_leader_reports_no_deletion(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 3)
    if not bad:
        s.follows(ONE, TWO, 2)
    s.replies_deleted(ONE, 2)


@breaks(commitment.GONE_HERE)
def disk_may_bring_deleted_records_back(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 3)
    for broker in (ONE, TWO):
        s.has(broker, "c1", start=2)
    s.has(THREE, "b1 c1", start=1)
    s.restarts(THREE, "b1 c1" if bad else "c1", start=1 if bad else 2, how="power")
    s.restarts(THREE, "a1 b1 c1", start=0, how="power")
    s.replies_deleted(ONE, 2)


@breaks(commitment.GONE_HERE)
def recreated_topic_is_another_one(s: Scenario, bad: bool) -> None:
    s.begin("a1 b1 c1", 3)
    for broker in (ONE, TWO):
        s.has(broker, "c1", start=2)
    if not bad:
        s.topic(ONE, TWO, THREE, ident="2")
        s.recreated(THREE)
        s.follows(THREE, ONE, 1)
    s.replies_deleted(ONE, 2)


@breaks(commitment.GONE_HERE)
def broker_without_a_log_has_no_records(s: Scenario, bad: bool) -> None:
    s.topic(ONE, TWO, THREE)
    s.state(ONE, [ONE], 1)
    s.has(ONE, "a1 b1")
    s.leads(ONE, 1, [ONE])
    s.watermark(ONE, 2)
    if bad:
        s.has(TWO, "a1")
    s.has(ONE, "b1", start=1)
    s.replies_deleted(ONE, 1)
