"""The checker of consumers' fetch sessions: it notices each wrong answer, and only those."""

from __future__ import annotations

import pytest
from attrs import evolve

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions.fetch_sessions import MATCHES, NAMES, READS, FetchSessions, SessionFetch
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.core.fetching.fetch_session_cache import FetchSessionLimits
from replica.core.replica_messages import Fetched, FetchPartition

A, B = (FetchPartition(TopicPartition("t", number), 0, 1) for number in range(2))
BEGIN = SessionFetch(0, 0, "me", (A, B))
NEXT = SessionFetch(7, 1, "me", ())
LIMITS = FetchSessionLimits(slots_max=1, keep_ms=100)


class Model:
    def __init__(self) -> None:
        self.now = 0
        self.checker = FetchSessions(1, LIMITS, lambda: self.now)
        results = [result(A), result(B)]
        self.checker.accepted(BEGIN, (A, B)).answered(7, results, results)

    def refused(self, asked: SessionFetch, code: ErrorCode) -> str | None:
        try:
            self.checker.refused(asked, code)
        except Violation as violation:
            return violation.invariant
        return None

    def fetched(
        self, asked: SessionFetch, reads: list[FetchPartition], results: list[Fetched], named: list[Fetched]
    ) -> str | None:
        try:
            self.checker.accepted(asked, reads).answered(7, results, named)
        except Violation as violation:
            return violation.invariant
        return None


def result(part: FetchPartition, high_watermark: int = 0, records: bytes = b"") -> Fetched:
    return Fetched(part.where, ErrorCode.NONE, high_watermark, high_watermark, 0, records)


def test_refusals_are_judged() -> None:
    model = Model()
    gone, epoch = ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert model.refused(NEXT, gone) == MATCHES
    assert model.refused(NEXT, epoch) == MATCHES
    assert model.refused(evolve(NEXT, epoch=2), epoch) is None
    assert model.refused(evolve(NEXT, epoch=2), gone) == MATCHES
    assert model.refused(evolve(NEXT, owner="other"), gone) is None
    assert model.refused(evolve(NEXT, ident=8), gone) is None


def test_eviction_explains_a_missing_session() -> None:
    model = Model()
    gone = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    model.now = LIMITS.keep_ms + 1
    assert model.refused(NEXT, gone) == MATCHES  # no other session needed the slot
    model.checker.accepted(BEGIN, (A, B)).answered(8, [], [])
    assert model.refused(NEXT, gone) is None


def test_repeated_request_must_be_refused() -> None:
    model = Model()
    unchanged = [result(A), result(B)]
    assert model.fetched(NEXT, [A, B], unchanged, []) is None
    assert model.fetched(NEXT, [A, B], unchanged, []) == MATCHES


def test_request_reads_partitions_of_session() -> None:
    forgets = evolve(NEXT, forgotten=(A.where,))
    assert Model().fetched(forgets, [B], [result(B)], []) is None
    assert Model().fetched(forgets, [A, B], [result(A), result(B)], []) == READS
    moved = evolve(A, offset=3)
    assert Model().fetched(evolve(NEXT, parts=(moved,)), [A, B], [result(A), result(B)], []) == READS


def test_response_names_changed_partitions() -> None:
    for changed in (result(A, 1), result(A, records=b"r"), Fetched(A.where, ErrorCode.NOT_LEADER_OR_FOLLOWER)):
        results = [changed, result(B)]
        assert Model().fetched(NEXT, [A, B], results, [changed]) is None
        assert Model().fetched(NEXT, [A, B], results, []) == NAMES
        assert Model().fetched(NEXT, [A, B], results, results) == NAMES


def test_session_that_was_closed_during_a_request_has_no_answer() -> None:
    model = Model()
    waiting = model.checker.accepted(NEXT, (A, B))
    model.checker.accepted(evolve(BEGIN, ident=7), (A, B))
    waiting.closed()
    with pytest.raises(Violation) as found:
        waiting.answered(7, [], [])
    assert found.value.invariant == MATCHES
