"""Fetch contexts of consumers: the partitions that a request reads, and those that its response names."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

import pytest

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.fetching.fetch_context import FetchContext, fetch_context, without_repeats
from replica.core.fetching.fetch_session_cache import BEGIN, END, NO_SESSION, FetchSessionCache, FetchSessionLimits

ME = "User:me"
A, B, C = (TopicPartition("t", number) for number in range(3))
SAME = 5, 5, 0


def cache(**limits: int) -> FetchSessionCache:
    return FetchSessionCache(count(1).__next__, FetchSessionLimits(**limits))


def context(
    sessions: FetchSessionCache,
    ident: int,
    epoch: int,
    requested: Iterable[TopicPartition] = (),
    forgotten: Iterable[TopicPartition] = (),
    offset: int = 0,
) -> FetchContext:
    found = fetch_context(sessions, ident, epoch, ME, [(where, (offset,)) for where in requested], forgotten, 0)
    assert found is not None
    return found


def begun(sessions: FetchSessionCache, *wheres: TopicPartition) -> int:
    """Open a session whose first response has the offsets `SAME` of each partition."""
    full = context(sessions, NO_SESSION, BEGIN, wheres)
    ident = full.settle(0)
    assert all(full.includes(where, 0, SAME, records=False) for where in wheres)
    return ident


def included(found: FetchContext, **changes: tuple[int, int, int]) -> list[TopicPartition]:
    """Return the partitions that the response names, if those in `changes` have these offsets."""
    news = {where: changes.get(f"p{where.partition}", SAME) for where in found.requests}
    return [where for where, offsets in news.items() if found.includes(where, 0, offsets, records=False)]


def test_repeated_partition_has_first_place_and_last_fields() -> None:
    assert list(without_repeats([(A, 1), (B, 2), (A, 3)]).items()) == [(A, 3), (B, 2)]
    found = fetch_context(cache(), NO_SESSION, BEGIN, ME, [(A, (1,)), (B, (2,)), (A, (3,))], (), 0)
    assert found is not None
    assert list(found.requests.items()) == [(A, (3,)), (B, (2,))]


def test_final_request_closes_session_and_needs_none() -> None:
    sessions = cache()
    ident = begun(sessions, A)
    assert fetch_context(sessions, ident, END, "User:other", (), (), 0) is None
    assert len(sessions) == 1
    assert fetch_context(sessions, ident, END, ME, (), (), 0) is None
    assert len(sessions) == 0


def test_full_request_replaces_session_and_names_all_partitions() -> None:
    sessions = cache()
    former = begun(sessions, A)
    full = context(sessions, former, BEGIN, [A, B])
    assert len(sessions) == 0
    ident = full.settle(0)
    assert ident not in (NO_SESSION, former)
    assert included(full) == [A, B]


def test_full_request_without_room_has_complete_response_without_session() -> None:
    full = context(cache(slots_max=0), NO_SESSION, BEGIN, [A, B])
    assert full.settle(0) == NO_SESSION
    assert included(full) == [A, B]


def test_incremental_request_reads_whole_session_and_names_changes() -> None:
    sessions = cache()
    ident = begun(sessions, A, B)
    found = context(sessions, ident, 1, [C], [A], offset=7)
    assert list(found.requests.items()) == [(B, (0,)), (C, (7,))]
    assert found.settle(0) == ident
    assert included(found) == [C]
    assert included(context(sessions, ident, 2), p1=(6, 5, 0)) == [B]
    assert included(context(sessions, ident, 3), p1=(6, 5, 0), p2=(5, 5, 1)) == [C]


def test_partition_with_records_is_named_and_moves_to_end() -> None:
    sessions = cache()
    ident = begun(sessions, A, B)
    assert context(sessions, ident, 1).includes(A, 0, SAME, records=True)
    assert list(context(sessions, ident, 2).requests) == [B, A]


@pytest.mark.parametrize(("error", "diverging", "preferred"), [(3, None, -1), (0, object(), -1), (0, None, 2)])
def test_errors_and_hints_are_in_each_response_and_the_offsets_behind_them(
    error: int, diverging: object | None, preferred: int
) -> None:
    sessions = cache()
    ident = begun(sessions, A)
    for epoch in (1, 2):
        assert context(sessions, ident, epoch).includes(A, error, SAME, False, diverging, preferred)
    assert included(context(sessions, ident, 3)) == [A]
    assert included(context(sessions, ident, 4)) == []


def test_session_that_is_forgotten_and_named_anew_sends_partition_again() -> None:
    sessions = cache()
    ident = begun(sessions, A, B)
    context(sessions, ident, 1, [], [A])
    assert included(context(sessions, ident, 2, [A])) == [A]


def test_request_that_does_not_match_is_refused() -> None:
    sessions = cache()
    ident = begun(sessions, A)
    for wrong, epoch, owner, code in (
        (ident + 1, 1, ME, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (ident, 1, "User:other", ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (ident, 2, ME, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ):
        with pytest.raises(KafkaError) as refused:
            fetch_context(sessions, wrong, epoch, owner, (), (), 0)
        assert refused.value.code is code
    context(sessions, ident, 1)
    with pytest.raises(KafkaError) as refused:
        context(sessions, ident, 1)  # repeated
    assert refused.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_session_that_another_request_closed_meanwhile_has_no_response() -> None:
    sessions = cache()
    ident = begun(sessions, A)
    waiting = context(sessions, ident, 1)
    context(sessions, ident, BEGIN, [A])
    with pytest.raises(KafkaError) as refused:
        waiting.settle(0)
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_session_without_partitions_ends() -> None:
    sessions = cache()
    ident = begun(sessions, A)
    found = context(sessions, ident, 1, [], [A])
    assert (found.requests, found.settle(0), len(sessions)) == ({}, NO_SESSION, 0)
