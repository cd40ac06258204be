"""The order of the requests of a session in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from zab.core.errors import Overloaded
from zab.service.forwarding.pending_submissions import Done
from zab.service.request_order import HeldRead, RequestOrder

SET, GET = 5, 4


class Server:
    """The server of one session: it answers when the test says so, and records what happens."""

    def __init__(self) -> None:
        self.ready = True
        self.posted: list[Done] = []
        self.seen: list[str] = []
        self.requests = self
        self.order = RequestOrder(self)

    def post(self, request: bytes, done: Done) -> None:
        self.posted.append(done)

    def post_many(self, requests: Sequence[bytes], done: Done) -> None: ...
    def postpone(self, do: Callable[[], None]) -> None: ...

    def write(self, name: str) -> None:
        self.order.write(SET, 1, b"", lambda result, error: self.seen.append(f"{name}: {result or error}"))

    def read(self, name: str) -> HeldRead:
        return self.order.hold(GET, partial(self.seen.append, name))


def test_read_is_carried_out_at_once_if_no_write_is_open() -> None:
    server = Server()
    clear = [server.order.is_clear]
    server.write("write")
    clear.append(server.order.is_clear)
    server.posted[0](1, None)
    clear.append(server.order.is_clear)
    assert clear == [True, False, True]


def test_read_is_carried_out_in_the_moment_when_the_last_write_before_it_is_answered() -> None:
    server = Server()
    server.write("first")
    server.write("second")
    server.read("between")
    server.write("third")
    server.read("last")
    server.posted[0](1, None)
    assert server.seen == ["first: 1"]
    server.posted[1](2, None)
    assert server.seen == ["first: 1", "second: 2", "between"]
    server.posted[2](3, None)
    assert server.seen[3:] == ["third: 3", "last"]


def test_write_that_fails_out_of_order_frees_only_the_reads_behind_all_open_writes() -> None:
    server = Server()
    server.write("first")
    server.read("between")
    server.write("refused")
    server.read("last")
    server.posted[1](None, Overloaded("full"))
    assert server.seen == ["refused: full"], "a caller gets the result of its write at once"
    server.posted[0](1, None)
    assert server.seen == ["refused: full", "first: 1", "between", "last"]


def test_reads_wait_until_the_state_may_be_read() -> None:
    server = Server()
    server.ready = False
    server.write("write")
    server.read("one")
    server.posted[0](1, None)
    server.read("two")
    assert server.seen == ["write: 1"]
    server.ready = True
    server.order.resume()
    assert server.seen == ["write: 1", "one", "two"]
    assert server.order.is_clear


def test_read_that_was_given_up_is_not_carried_out() -> None:
    server = Server()
    server.write("write")
    held = server.read("given up")
    server.read("other")
    server.order.give_up(held)
    server.posted[0](1, None)
    assert server.seen == ["write: 1", "other"]


def test_end_of_the_session_frees_all_reads_and_no_write() -> None:
    server = Server()
    server.write("write")
    held = server.read("given up")
    server.read("other")
    server.order.give_up(held)
    server.order.end()
    assert server.seen == ["other"], "its caller receives the error of the session"
    server.posted[0](1, None)
    assert server.seen == ["other", "write: 1"]
