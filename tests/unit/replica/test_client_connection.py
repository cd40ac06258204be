"""The order of requests and responses of one connection, and the bytes that it holds, without a socket."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attrs import define
from hypothesis import given
from hypothesis import strategies as st

from replica.core.network.client_connection import ClientConnection, PendingWrite, RequestKind
from replica.core.network.connection_limits import ConnectionLimits
from replica.core.network.memory_limits import ListenerMemory

WRITE = RequestKind.REPLICATED_WRITE
ORDINARY = RequestKind.ORDINARY
NOW = 5_000


@define
class Authentication:
    """The state of an authenticator, as a test sets it."""

    done: bool = False
    expires_at: float = NOW + 1
    principal: str = "User:alice"


def never() -> None:
    raise AssertionError("not to be called")


def connection_of(
    memory: ListenerMemory | None = None, authentication: Authentication | None = None, **limits: int
) -> ClientConnection:
    return ClientConnection(ConnectionLimits(**limits), memory or ListenerMemory(), authentication, never)


def write(connection: ClientConnection, frame: bytes, place: bool = True) -> PendingWrite:
    """Start a replicated write, and let the next request start."""
    assert connection.take() == frame
    assert not connection.is_useless(WRITE)
    assert connection.may_execute(WRITE)
    made = connection.begin_write(len(frame), never)
    if place:
        connection.place(made)
        connection.executing = None
    return made


def test_responses_of_writes_leave_in_the_order_of_the_requests() -> None:
    connection = connection_of()
    connection.receive([b"1", b"2", b"3"], 0)
    first, second, third = (write(connection, frame) for frame in (b"1", b"2", b"3"))
    connection.complete(third, b"c")
    connection.complete(second, b"b")
    assert connection.unsent == []
    connection.complete(first, b"a")
    assert connection.take_unsent() == b"abc"
    assert connection.is_idle


def test_ordinary_request_waits_for_earlier_writes() -> None:
    connection = connection_of()
    connection.receive([b"1", b"2"], 0)
    first = write(connection, b"1")
    connection.take()
    assert not connection.is_useless(ORDINARY)
    assert not connection.may_execute(ORDINARY)
    assert connection.may_execute(WRITE), "a write may overtake a write"
    connection.complete(first, b"a")
    assert connection.may_execute(ORDINARY)


def test_number_of_pending_writes_is_bounded() -> None:
    connection = connection_of(ahead_max=2)
    connection.receive([b"1", b"2", b"3"], 0)
    first, second = write(connection, b"1"), write(connection, b"2")
    connection.take()
    assert not connection.may_execute(WRITE)
    connection.complete(second, b"b")
    assert not connection.may_execute(WRITE), "the second response still waits for the first"
    connection.complete(first, b"a")
    assert connection.may_execute(WRITE)


def test_write_that_fails_before_its_placement_lets_the_next_request_start() -> None:
    connection = connection_of()
    connection.receive([b"1"], 0)
    made = write(connection, b"1", place=False)
    placed = [made.is_placed]
    connection.complete(made, b"error")
    placed.append(made.is_placed)
    assert placed == [False, True]
    assert connection.take_unsent() == b"error"


@pytest.mark.parametrize(
    ("kind", "authentication", "refused"),
    [
        (ORDINARY, None, ""),
        (RequestKind.AUTHENTICATION, None, "does not use SASL"),
        (ORDINARY, Authentication(), "has not authenticated"),
        (WRITE, Authentication(), "has not authenticated"),
        (RequestKind.API_VERSIONS, Authentication(), ""),
        (RequestKind.AUTHENTICATION, Authentication(), ""),
        (ORDINARY, Authentication(done=True), ""),
        (ORDINARY, Authentication(done=True, expires_at=NOW), "session of User:alice has expired"),
        (RequestKind.API_VERSIONS, Authentication(done=True, expires_at=NOW), ""),
        (RequestKind.AUTHENTICATION, Authentication(done=True, expires_at=NOW), ""),
    ],
)
def test_clients_authenticate_first_and_again_in_time(
    kind: RequestKind, authentication: Authentication | None, refused: str
) -> None:
    refusal = connection_of(authentication=authentication).refusal(kind, NOW)
    assert refused in refusal if refusal is not None else not refused


def test_reading_stops_above_the_limits_of_requests_and_bytes() -> None:
    connection = connection_of(waiting_max=2, waiting_bytes_max=100)
    full = []
    for frame in (b"1", b"2", b"3"):
        connection.receive([frame], 0)
        full.append(connection.is_full)
    assert full == [False, False, True], "three requests are queued"
    pending = [write(connection, frame) for frame in (b"1", b"2", b"3")]
    connection.receive([bytes(98)], 0)
    full = [connection.is_full]
    connection.complete(pending[0], b"a")
    full.append(connection.is_full)
    assert full == [True, False], "pending writes count: 101 bytes, then 100"


def test_no_request_starts_while_the_client_leaves_too_many_responses_unread() -> None:
    connection = connection_of(unsent_bytes_max=10)
    connection.receive([b"1"], 0)
    connection.take()
    connection.respond(1, bytes(11))
    connection.executing = None
    may_start = [connection.may_start]
    data = connection.take_unsent()
    may_start.append(connection.may_start)
    connection.sent(len(data))
    may_start.append(connection.may_start)
    assert may_start == [False, False, True], "bytes count until the client has received them"


def test_longest_throttle_time_mutes_the_client() -> None:
    connection = connection_of()
    connection.receive([b"1", b"2"], 0)
    for until in (5.0, 3.0):
        connection.take()
        connection.respond(1, b"a", until)
        connection.executing = None
    assert connection.muted_until == 5.0


def test_requests_before_the_end_are_executed_and_long_polls_dropped() -> None:
    connection = connection_of()
    connection.receive([b"write", b"poll"], 0)
    connection.leave()
    states = [(connection.is_worked_off, connection.is_drained)]
    connection.take()
    assert not connection.is_useless(ORDINARY)
    connection.respond(5, b"a")
    connection.executing = None
    connection.take()
    assert connection.is_useless(RequestKind.LONG_POLL)
    connection.respond(4, None)
    connection.executing = None
    states.append((connection.is_worked_off, connection.is_drained))
    connection.sent(len(connection.take_unsent()))
    states.append((connection.is_worked_off, connection.is_drained))
    assert states == [(False, True), (True, False), (True, True)]


def test_long_poll_in_progress_does_not_keep_a_connection_whose_client_left() -> None:
    connection = connection_of()
    connection.receive([b"poll"], 0)
    connection.take()
    assert not connection.is_useless(RequestKind.LONG_POLL)
    worked_off = [connection.is_worked_off]
    connection.leave()
    worked_off.append(connection.is_worked_off)
    assert worked_off == [False, True]


def test_writes_of_a_client_that_left_stop_waiting_for_replicas_once_placed() -> None:
    cancelled: list[int] = []
    connection = connection_of()
    connection.receive([b"1", b"2"], 0)
    connection.take()
    first = connection.begin_write(1, lambda: cancelled.append(1))
    connection.place(first)
    connection.executing = None
    connection.take()
    second = connection.begin_write(1, lambda: cancelled.append(2))
    connection.leave()
    assert cancelled == [1], "the second one has not written its records"
    connection.place(second)
    assert cancelled == [1, 2]


def test_oldest_partial_requests_are_cut_above_the_limit() -> None:
    memory = ListenerMemory()
    cut: list[int] = []
    limits = ConnectionLimits(waiting_bytes_total_max=100)
    connections = [
        ClientConnection(limits, memory, None, lambda number=number: cut.append(number))  # type: ignore[misc]
        for number in range(3)
    ]
    for each in connections:
        each.receive([], 40)
    assert cut == [0]
    assert "oldest" in connections[0].failure
    connections[1].receive([b"whole"], 0)
    connections[2].receive([], 100)
    assert cut == [0], "a complete request counts no more"


def test_client_that_stalls_is_cut_before_one_that_completes_requests() -> None:
    memory, limits = ListenerMemory(), ConnectionLimits(waiting_bytes_total_max=100)
    cut: list[str] = []
    busy = ClientConnection(limits, memory, None, lambda: cut.append("busy"))
    stalled = ClientConnection(limits, memory, None, lambda: cut.append("stalled"))
    busy.receive([], 40)
    stalled.receive([], 40)
    busy.receive([b"whole"], 61)
    assert cut == ["stalled"]
    assert memory.partial_requests.bytes == 61


def test_fetch_responses_shrink_with_unsent_bytes_of_all_connections() -> None:
    memory = ListenerMemory()
    total = 32 << 20
    assert memory.response_bytes_max(total) == 8 << 20
    greedy = connection_of(memory)
    greedy.receive([b"1"], 0)
    greedy.take()
    greedy.respond(1, bytes(24 << 20))
    assert memory.response_bytes_max(total) == 2 << 20
    memory.unsent_bytes += 8 << 20
    assert memory.response_bytes_max(total) == 64 << 10, "clients that never read do not stop the others"
    memory.unsent_bytes -= 8 << 20
    greedy.close()
    assert memory.response_bytes_max(total) == 8 << 20


def drive(connection: ClientConnection, steps: Iterator[int], kinds: list[RequestKind]) -> list[bytes]:
    """Execute all requests with random completions of writes, and return the responses in the order of sending."""
    sent: list[bytes] = []
    writes: list[tuple[PendingWrite, bytes]] = []
    for kind in kinds:
        frame = connection.take()
        assert not connection.is_useless(kind)
        while not connection.may_execute(kind):
            made, response = writes.pop(next(steps) % len(writes))
            connection.complete(made, response)
        if kind is WRITE:
            made = connection.begin_write(len(frame), never)
            connection.place(made)
            writes.append((made, frame))
        else:
            assert not writes, "an ordinary request is executed after all writes"
            connection.respond(len(frame), frame)
        connection.executing = None
    while writes:
        made, response = writes.pop(next(steps) % len(writes))
        connection.complete(made, response)
    sent += connection.unsent
    return sent


@given(
    st.lists(st.sampled_from([WRITE, ORDINARY]), max_size=30), st.lists(st.integers(0, 99), min_size=40, max_size=40)
)
def test_responses_keep_their_order_and_all_memory_returns(kinds: list[RequestKind], steps: list[int]) -> None:
    memory = ListenerMemory()
    connection = connection_of(memory, ahead_max=5)
    frames = [bytes([number]) * (number + 1) for number in range(len(kinds))]
    connection.receive(frames, 7)
    assert memory.request_bytes == sum(map(len, frames))
    assert drive(connection, iter(steps), kinds) == frames
    assert (memory.request_bytes, connection.held_bytes, connection.is_idle) == (0, 0, True)
    assert memory.unsent_bytes == connection.unsent_bytes == sum(map(len, frames))
    connection.close()
    assert (memory.unsent_bytes, memory.partial_requests.bytes) == (0, 0)
