"""The checker of consumers' fetch sessions: it notices each wrong answer, and only those."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from harness.checkers.oracle_state import Violation
from harness.checkers.partitions import fetch_sessions
from harness.checkers.partitions.fetch_sessions import MATCHES, NAMES, READS, FetchSessions, SessionFetch
from kraft_controller.core.names import BrokerId, TopicPartition
from replica.core.errors import ErrorCode
from replica.core.fetching.fetch_session_cache import FetchSessionLimits
from replica.core.partitions.partition_log import EpochEndOffset
from replica.core.replica_messages import Fetched, FetchPartition

A, B, C = (FetchPartition(TopicPartition("t", number), 0, 1) for number in range(3))
BEGIN = SessionFetch(0, 0, "me", (A, B))
NEXT = SessionFetch(7, 1, "me", ())
LAST = SessionFetch(7, -1, "me", (A,))
GONE, EPOCH = ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH
KEEP_MS = 100
LIMITS = FetchSessionLimits(slots_max=1, keep_ms=KEEP_MS)


class Model:
    """A broker with room for one session. Session 7 is open, with the partitions A and B."""

    def __init__(self, limits: FetchSessionLimits = LIMITS) -> None:
        self.now = 1_000
        self.checker = FetchSessions(1, limits, lambda: self.now)
        self.begins(7)

    def begins(self, ident: int, parts: tuple[FetchPartition, ...] = (A, B)) -> None:
        results = [result(each) for each in parts]
        self.checker.accepted(evolve(BEGIN, parts=parts), parts).answered(ident, results, results)

    def refused(self, asked: SessionFetch, code: ErrorCode) -> str | None:
        try:
            self.checker.refused(asked, code)
        except Violation as violation:
            return violation.invariant
        return None

    def fetched(
        self,
        asked: SessionFetch,
        reads: list[FetchPartition],
        results: list[Fetched],
        named: list[Fetched],
        ident: int = 7,
    ) -> str | None:
        try:
            self.checker.accepted(asked, reads).answered(ident, results, named)
        except Violation as violation:
            return violation.invariant
        return None

    def goes_on(self, epoch: int = 1) -> str | None:
        """Answer the session's request with this epoch, without news."""
        return self.fetched(evolve(NEXT, epoch=epoch), [A, B], [result(A), result(B)], [])


def result(part: FetchPartition, high_watermark: int = 0, **more: Any) -> Fetched:
    return Fetched(part.where, more.pop("error", ErrorCode.NONE), high_watermark, high_watermark, 0, **more)


# -- requests ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "code", "violated"),
    [
        (NEXT, GONE, MATCHES),
        (NEXT, EPOCH, MATCHES),
        (evolve(NEXT, epoch=2), EPOCH, None),
        (evolve(NEXT, epoch=2), GONE, MATCHES),
        (evolve(NEXT, owner="other"), GONE, None),
        (evolve(NEXT, ident=8), GONE, None),
        (evolve(BEGIN, ident=8), GONE, MATCHES),
        (evolve(LAST, ident=8), GONE, MATCHES),
    ],
)
def test_only_a_request_without_a_session_is_refused(
    asked: SessionFetch, code: ErrorCode, violated: str | None
) -> None:
    assert Model().refused(asked, code) == violated


@pytest.mark.parametrize("asked", [evolve(NEXT, epoch=2), evolve(NEXT, owner="other"), evolve(NEXT, ident=8)])
def test_a_request_without_a_session_is_not_accepted(asked: SessionFetch) -> None:
    assert Model().fetched(asked, [A, B], [], []) == MATCHES


def test_repeated_request_must_be_refused() -> None:
    model = Model()
    assert model.goes_on(epoch=1) is None
    assert model.goes_on(epoch=1) == MATCHES


def test_each_request_raises_the_epoch_by_one() -> None:
    model = Model()
    assert model.goes_on(epoch=1) is None
    assert model.goes_on(epoch=2) is None


def test_epoch_after_the_greatest_is_1() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch_sessions, "EPOCH_MAX", 2)
        model = Model()
        assert [model.goes_on(epoch) for epoch in (1, 2, 1)] == [None, None, None]
        assert model.goes_on(epoch=3) == MATCHES


def test_request_reads_partitions_of_session() -> None:
    forgets = evolve(NEXT, forgotten=(A.where,))
    assert Model().fetched(forgets, [B], [result(B)], []) is None
    assert Model().fetched(forgets, [A, B], [result(A), result(B)], []) == READS
    moved = evolve(A, offset=3)
    assert Model().fetched(evolve(NEXT, parts=(moved,)), [A, B], [result(A), result(B)], []) == READS


@pytest.mark.parametrize(
    ("asked", "reads", "what"),
    [
        (NEXT, [A], "request of me with session id 7 and epoch 1 reads [t-0], not [t-0, t-1]"),
        (evolve(NEXT, epoch=2), [], "epoch 2 was accepted: the session of me expects epoch 1"),
        (evolve(NEXT, ident=8), [], "session id 8 and epoch 1 was accepted: there is no such session"),
    ],
)
def test_violation_names_the_request(asked: SessionFetch, reads: list[FetchPartition], what: str) -> None:
    with pytest.raises(Violation) as found:
        Model().checker.accepted(asked, reads)
    assert str(found.value).endswith(what)


# -- the end of a session ----------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [LAST, evolve(LAST, epoch=0)])
def test_a_full_request_closes_the_session_of_its_client(asked: SessionFetch) -> None:
    model = Model()
    model.checker.accepted(asked, (A,))
    assert model.refused(NEXT, GONE) is None


def test_a_full_request_of_another_client_closes_nothing() -> None:
    model = Model()
    model.checker.accepted(evolve(LAST, owner="other"), (A,))
    assert model.goes_on() is None


def test_a_session_without_partitions_is_closed() -> None:
    model = Model()
    assert model.fetched(evolve(NEXT, forgotten=(A.where, B.where)), [], [], [], ident=0) is None
    assert model.refused(evolve(NEXT, epoch=2), GONE) is None


def test_session_that_was_closed_during_a_request_has_no_answer() -> None:
    model = Model()
    waiting = model.checker.accepted(NEXT, (A, B))
    model.checker.accepted(evolve(BEGIN, ident=7), (A, B))
    waiting.closed()
    with pytest.raises(Violation, match="has a response, though another request closed the session"):
        waiting.answered(7, [], [])


def test_a_session_that_may_be_evicted_may_be_closed_during_a_request() -> None:
    model = Model()
    waiting = model.checker.accepted(NEXT, (A, B))
    model.now += KEEP_MS + 1
    model.begins(8)
    waiting.closed()


@pytest.mark.parametrize(("asked", "reads"), [(NEXT, (A, B)), (LAST, (A,))])
def test_a_session_is_not_closed_without_a_cause(asked: SessionFetch, reads: tuple[FetchPartition, ...]) -> None:
    waiting = Model().checker.accepted(asked, reads)
    with pytest.raises(Violation, match="request of me with session id 7 and epoch .* lost its session"):
        waiting.closed()


# -- eviction ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used_ms", "opened_ms", "opened", "evicted"),
    [
        (0, KEEP_MS, (A, B, C), False),
        (0, KEEP_MS + 1, (A,), True),  # it was idle
        (50, KEEP_MS, (A, B, C), False),
        (50, KEEP_MS + 1, (A, B), False),
        (50, KEEP_MS + 1, (A, B, C), True),  # it is old, and smaller
        (50, KEEP_MS + 50, (A, B), False),
        (50, KEEP_MS + 51, (A, B), True),
    ],
)
def test_a_session_is_evicted_for_another_if_it_is_idle_or_small(
    used_ms: int, opened_ms: int, opened: tuple[FetchPartition, ...], evicted: bool
) -> None:
    model = Model()
    model.now += used_ms
    assert model.goes_on() is None
    model.now += opened_ms - used_ms
    model.begins(8, opened)
    assert model.refused(evolve(NEXT, epoch=2), GONE) == (None if evicted else MATCHES)


def test_a_session_is_not_evicted_before_the_slots_are_taken() -> None:
    model = Model()
    model.now += KEEP_MS + 1
    assert model.refused(NEXT, GONE) == MATCHES


def test_a_session_remains_evictable_until_its_next_request() -> None:
    model = Model()
    model.now += 50
    assert model.goes_on(epoch=1) is None
    model.now += KEEP_MS - 49
    model.begins(8, (A, B, C))
    model.begins(9, (A,))
    assert model.refused(evolve(NEXT, epoch=2), GONE) is None
    assert model.refused(evolve(NEXT, epoch=2), EPOCH) == MATCHES
    assert model.goes_on(epoch=2) is None
    assert model.refused(evolve(NEXT, epoch=3), GONE) == MATCHES


def test_violation_says_that_the_session_may_be_evicted() -> None:
    model = Model()
    model.now += KEEP_MS + 1
    model.begins(8)
    with pytest.raises(Violation, match="the session of me expects epoch 1, which may have been evicted"):
        model.checker.refused(NEXT, EPOCH)


def test_a_request_opens_no_session_if_the_slots_are_taken() -> None:
    model = Model()
    model.begins(0)
    assert model.refused(evolve(NEXT, ident=0), GONE) is None


@pytest.mark.parametrize(("parts", "violated"), [((A,), MATCHES), ((), None)])
def test_a_request_with_partitions_opens_a_session_if_there_is_room(
    parts: tuple[FetchPartition, ...], violated: str | None
) -> None:
    model = Model()
    model.checker.accepted(LAST, (A,)).answered(0, [], [])
    results = [result(each) for each in parts]
    assert model.fetched(evolve(BEGIN, parts=parts), [*parts], results, results, ident=0) == violated


# -- the sum of partitions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("partitions_max", "violated"), [(2, None), (3, MATCHES)])
def test_session_that_becomes_too_large_is_closed(partitions_max: int, violated: str | None) -> None:
    model = Model(evolve(LIMITS, partitions_max=partitions_max))
    assert model.refused(evolve(NEXT, parts=(A, C)), GONE) == violated
    if violated is None:
        assert model.goes_on() == MATCHES
        model.begins(8)


def test_session_that_does_not_grow_is_not_closed() -> None:
    assert Model(evolve(LIMITS, partitions_max=2)).refused(evolve(NEXT, parts=(A, B)), GONE) == MATCHES


@pytest.mark.parametrize(("partitions_max", "violated"), [(2, None), (3, MATCHES)])
def test_a_request_opens_no_session_if_there_would_be_too_many_partitions(
    partitions_max: int, violated: str | None
) -> None:
    model = Model(evolve(LIMITS, slots_max=2, partitions_max=partitions_max))
    assert model.fetched(evolve(BEGIN, parts=(C,)), [C], [result(C)], [result(C)], ident=0) == violated


# -- responses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        result(A, 1),
        result(A, records=b"r"),
        result(A, error=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        result(A, preferred=BrokerId(0)),
        result(A, diverging=EpochEndOffset(1, 0)),
    ],
)
def test_response_names_changed_partitions(changed: Fetched) -> None:
    results = [changed, result(B)]
    assert Model().fetched(NEXT, [A, B], results, [changed]) is None
    assert Model().fetched(NEXT, [A, B], results, []) == NAMES
    assert Model().fetched(NEXT, [A, B], results, results) == NAMES


def test_a_partition_that_returns_to_the_session_is_named() -> None:
    model = Model()
    assert model.fetched(evolve(NEXT, forgotten=(A.where,)), [B], [result(B)], []) is None
    again = evolve(NEXT, epoch=2, parts=(A,))
    assert model.fetched(again, [B, A], [result(B), result(A)], [result(A)]) is None


def test_a_request_outside_of_a_session_receives_all_results() -> None:
    assert Model().fetched(LAST, [A], [result(A)], [result(A)], ident=0) is None
    assert Model().fetched(LAST, [A], [result(A)], [], ident=0) == NAMES


@pytest.mark.parametrize(("asked", "reads", "ident"), [(NEXT, [A, B], 0), (NEXT, [A, B], 8), (LAST, [A], 7)])
def test_response_has_the_id_of_the_session(asked: SessionFetch, reads: list[FetchPartition], ident: int) -> None:
    assert Model().fetched(asked, reads, [], [], ident) == MATCHES
