"""Replies that are not due yet, and the buffer of those that wait to be sent."""

from __future__ import annotations

from zab.service.connection.pending_replies import PendingReplies, PendingReply, SendBuffer

SET, GET, SYNC = 5, 4, 9


def test_nothing_is_due_if_nothing_is_pending() -> None:
    assert PendingReplies().due() is None


def test_read_is_due_when_it_is_the_oldest() -> None:
    replies = PendingReplies([(GET, 1, b"a"), (GET, 2, b"b")])
    assert [replies.due(), replies.due(), replies.due()] == [(GET, 1, b"a"), (GET, 2, b"b"), None]


def test_all_requests_behind_a_write_wait() -> None:
    replies = PendingReplies([(SET, 1, None), (GET, 2, b"")])
    assert replies.due() is None
    assert len(replies) == 2
    replies.popleft()
    assert replies.due() == (GET, 2, b"")


def test_pending_reply_is_due_when_it_is_done() -> None:
    reply = PendingReply()
    replies: PendingReplies[bytes] = PendingReplies([(SYNC, 1, reply)])
    assert replies.due() is None
    reply.done = True
    assert replies.due() == (SYNC, 1, reply)
    assert not replies


def test_frames_are_taken_together_and_wait_until_they_are_gone() -> None:
    buffer = SendBuffer()
    assert [buffer.put(frame) for frame in (b"one,", b"two,", b"three")] == [4, 8, 13]
    assert buffer.take() == b"one,two,three"
    assert (buffer.bytes, buffer.sent, buffer.taken_bytes, buffer.frames) == (13, 3, 13, [])
    buffer.gone(13)
    assert buffer.bytes == 0


def test_bytes_that_the_transport_refuses_stay_in_front() -> None:
    buffer = SendBuffer()
    buffer.put(b"one,")
    buffer.put(b"two,")
    data = buffer.take()
    buffer.gone(3)
    buffer.put_back(data[3:])
    buffer.put(b"three")
    assert (buffer.bytes, buffer.sent) == (10, 1)
    assert buffer.take() == b",two,three"
    assert (buffer.sent, buffer.taken_bytes) == (3, 13)


def test_answer_to_the_first_frame_is_not_counted_as_sent() -> None:
    buffer = SendBuffer()
    buffer.put_greeting(b"welcome")
    assert (buffer.sent, buffer.taken_bytes) == (0, 0)
    buffer.put(b"reply")
    assert buffer.take() == b"welcomereply"
    assert (buffer.sent, buffer.taken_bytes, buffer.bytes) == (1, 5, 12)
