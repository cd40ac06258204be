"""Clients that do not read, all together."""

from __future__ import annotations

import trio

from zab.core.zxid import Epoch, ServerId
from zab.runtime.coordination.backlog import Backlog
from zab.runtime.logs import Log


class Client:
    peer = "10.0.0.1:1"

    def __init__(self, unsent: int, unfinished: int = 0) -> None:
        self.unsent = unsent
        self.unfinished = unfinished
        self.why: str | None = None

    @property
    def sent(self) -> int:
        return 0

    def cut(self, why: str) -> None:
        self.why = why


def looks(clients: list[Client], times: int = 2) -> list[bool]:
    """Who is still there."""

    async def main() -> list[bool]:
        backlog = Backlog(100, Log(ServerId(1), lambda: Epoch(1)))
        for _ in range(times):
            backlog.look([each for each in clients if each.why is None])
        return [each.why is None for each in clients]

    return trio.run(main)


def test_nobody_is_cut_for_what_all_may_have() -> None:
    assert looks([Client(50), Client(50)]) == [True, True]


def test_above_that_the_largest_of_those_that_take_nothing_go() -> None:
    assert looks([Client(60), Client(30), Client(40)]) == [False, True, True]


def test_requests_that_are_not_finished_count_with_the_rest() -> None:
    assert looks([Client(10, 60), Client(0, 30), Client(40)]) == [False, True, True]


class Slow(Client):
    """Takes a little at a time."""

    looks = 0

    @property
    def sent(self) -> int:
        self.looks += 1
        return self.looks


def test_who_takes_something_is_not_among_them() -> None:
    assert looks([Slow(90), Client(20)]) == [True, False]


def test_one_look_does_not_tell_who_is_stuck() -> None:
    assert looks([Client(90), Client(60)], times=1) == [True, True]


def test_in_need_nobody_is_asked() -> None:
    assert looks([Client(190), Client(30)], times=1) == [False, True]
