"""Clients that do not read, all together."""

from __future__ import annotations

from zab.service.slow_clients import SlowClients


class NoLog:
    def warn_rate_limited(self, event: str, key: object, level: str = "warning", /, **fields: object) -> None: ...


NO_LOG = NoLog()


class Client:
    def __init__(self, unsent: int, unfinished: int = 0) -> None:
        self.unsent = unsent
        self.unfinished = unfinished
        self.is_cut = False

    peer = "10.0.0.1:5"

    @property
    def sent(self) -> int:
        return 0

    def cut(self, why: str) -> None:
        self.is_cut = True


def kept(clients: list[Client], checks: int = 2) -> list[bool]:
    """Which clients are still connected after some checks."""
    slow_clients = SlowClients[Client](100)
    for _ in range(checks):
        slow_clients.cut([each for each in clients if not each.is_cut], NO_LOG)
    return [not each.is_cut for each in clients]


def test_no_client_is_cut_within_the_bound() -> None:
    assert kept([Client(50), Client(50)]) == [True, True]


def test_largest_client_without_progress_is_cut_above_the_bound() -> None:
    assert kept([Client(60), Client(30), Client(40)]) == [False, True, True]


def test_unfinished_requests_count_with_unsent_replies() -> None:
    assert kept([Client(10, 60), Client(0, 30), Client(40)]) == [False, True, True]


class Slow(Client):
    """Takes a little at a time."""

    taken = 0

    @property
    def sent(self) -> int:
        self.taken += 1
        return self.taken


def test_client_that_makes_progress_is_kept() -> None:
    assert kept([Slow(90), Client(20)]) == [True, False]


def test_one_check_cannot_identify_a_stuck_client() -> None:
    assert kept([Client(90), Client(60)], checks=1) == [True, True]


def test_progress_does_not_count_at_twice_the_bound() -> None:
    assert kept([Client(190), Client(30)], checks=1) == [False, True]


def test_log_event_names_the_larger_buffer() -> None:
    events = [slow.event for slow in SlowClients[Client](10).check([Client(90), Client(1, 80)])]
    assert events == ["client_does_not_read", "client_does_not_finish"]
