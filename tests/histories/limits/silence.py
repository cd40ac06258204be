"""Examples of expired sessions: each in time, and too early by about a microsecond."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from attrs import frozen

from harness.checkers.broken import Broken
from harness.checkers.store.silence import SILENT, ended_early
from harness.history import Change, Reply, Request
from tests.histories.history_builder import ClientSession, HistoryBuilder

SYNC: Final = Request("sync", "/")
ASKED_US: Final = 1_000_000
"""The time of the request of the sync that proves contact."""
IN_TIME_US: Final = ASKED_US + 4_000_000

Build: TypeAlias = Callable[[HistoryBuilder, ClientSession, ClientSession, bool], None]


@frozen
class Example:
    name: str
    build: Build
    scale: float
    invariant: str = SILENT

    def violations(self, bad: bool) -> list[Broken]:
        scenario = HistoryBuilder()
        ann, bob = scenario.client(1), scenario.client(2)
        self.build(scenario, ann, bob, bad)
        return list(ended_early(scenario.history(), self.scale))


EXAMPLES: Final[dict[str, Example]] = {}


def example(scale: float = 1.0) -> Callable[[Build], Build]:
    def add(build: Build) -> Build:
        EXAMPLES[build.__name__] = Example(build.__name__, build, scale)
        return build

    return add


def at(t: HistoryBuilder, at_us: int) -> None:
    """Set the time of the next event."""
    t.now = at_us - 10


def synced(
    t: HistoryBuilder, client: ClientSession, asked_us: int, answered_us: int, reply: Reply | None = None
) -> None:
    at(t, asked_us)
    call = t.invoke(client, SYNC)
    at(t, answered_us)
    t.respond(call, reply or Reply(zxid=t.zxid))


def wrote(t: HistoryBuilder, client: ClientSession, asked_us: int) -> int:
    at(t, asked_us)
    return t.create(client, f"/n{asked_us}")


def expired(t: HistoryBuilder, client: ClientSession, at_us: int) -> None:
    at(t, at_us)
    t.session_event(client, "expired")


@example()
def timeout_counts_from_the_sync(t: HistoryBuilder, ann: ClientSession, bob: ClientSession, bad: bool) -> None:
    wrote(t, bob, ASKED_US - 100)
    synced(t, ann, ASKED_US, ASKED_US + 500)
    wrote(t, bob, ASKED_US + 501)
    t.close(ann)
    expired(t, ann, IN_TIME_US - bad)


@example()
def timeout_counts_from_the_last_sync(t: HistoryBuilder, ann: ClientSession, bob: ClientSession, bad: bool) -> None:
    """The later request of two concurrent syncs counts, in any order of replies."""
    at(t, ASKED_US)
    one, two = t.invoke(ann, SYNC), t.invoke(ann, SYNC)
    t.respond(two, Reply(zxid=t.zxid))
    t.respond(one, Reply(zxid=t.zxid))
    wrote(t, bob, ASKED_US + 501)
    t.close(ann)
    expired(t, ann, IN_TIME_US + (9 if bad else 10))


@example(scale=2.0)
def servers_with_a_slower_clock(t: HistoryBuilder, ann: ClientSession, bob: ClientSession, bad: bool) -> None:
    synced(t, ann, ASKED_US, ASKED_US + 500)
    wrote(t, bob, ASKED_US + 501)
    t.close(ann)
    expired(t, ann, ASKED_US + 2_000_000 - bad)


@example()
def end_was_proposed_before_the_sync(t: HistoryBuilder, ann: ClientSession, bob: ClientSession, bad: bool) -> None:
    """A write that was requested at the time of the reply proves nothing."""
    synced(t, ann, ASKED_US, ASKED_US + 500)
    wrote(t, bob, ASKED_US + 500 + bad)
    t.close(ann)
    expired(t, ann, ASKED_US + 900)


@example()
def write_after_the_end_proves_nothing(t: HistoryBuilder, ann: ClientSession, bob: ClientSession, bad: bool) -> None:
    synced(t, ann, ASKED_US, ASKED_US + 500)
    if not bad:
        t.close(ann)
    for number in range(1, 4):
        wrote(t, bob, ASKED_US + 500 + number)
    if bad:
        t.close(ann)
    expired(t, ann, ASKED_US + 900)


@example()
def latest_request_before_the_end_counts(t: HistoryBuilder, ann: ClientSession, bob: ClientSession, bad: bool) -> None:
    """It may take effect before an earlier request."""
    at(t, ASKED_US - 50)
    early = t.invoke(bob, Request("create", "/early", b""))
    synced(t, ann, ASKED_US, ASKED_US + 500)
    if bad:
        wrote(t, bob, ASKED_US + 501)
    t.respond(early, Reply(zxid=t.commit(bob, Change(0, 0, "create", "/early", b"")), path="/early"))
    t.close(ann)
    wrote(t, bob, ASKED_US + 800)
    expired(t, ann, ASKED_US + 900)


@example()
def reads_and_writes_without_zxid_prove_nothing(
    t: HistoryBuilder, ann: ClientSession, bob: ClientSession, bad: bool
) -> None:
    synced(t, ann, ASKED_US, ASKED_US + 500)
    at(t, ASKED_US + 600)
    t.exists(bob, "/x", there=False)
    t.sync(bob)
    t.respond(t.invoke(bob, Request("set", "/x", b"")), Reply("SESSION_MOVED"))
    t.lose(t.invoke(bob, Request("set", "/x", b"")))
    if bad:
        t.refuse(bob, Request("multi", parts=(Request("delete", "/x"),)), "NO_NODE")
    t.close(ann)
    expired(t, ann, ASKED_US + 900)


@example()
def sync_that_fails_proves_nothing(t: HistoryBuilder, ann: ClientSession, bob: ClientSession, bad: bool) -> None:
    synced(t, ann, ASKED_US, ASKED_US + 500, Reply("" if bad else "SESSION_EXPIRED", t.zxid))
    wrote(t, bob, ASKED_US + 501)
    t.close(ann)
    expired(t, ann, ASKED_US + 900)


@example()
def other_replies_prove_nothing(t: HistoryBuilder, ann: ClientSession, bob: ClientSession, bad: bool) -> None:
    at(t, ASKED_US)
    t.exists(ann, "/", there=True)
    t.lose(t.invoke(ann, SYNC))
    if bad:
        t.sync(ann)
    wrote(t, bob, ASKED_US + 501)
    t.close(ann)
    expired(t, ann, ASKED_US + 900)


@example()
def sync_of_another_client_proves_nothing(t: HistoryBuilder, ann: ClientSession, bob: ClientSession, bad: bool) -> None:
    synced(t, ann if bad else bob, ASKED_US, ASKED_US + 500)
    wrote(t, bob, ASKED_US + 501)
    t.close(ann)
    expired(t, ann, ASKED_US + 900)
    synced(t, bob, ASKED_US + 950, ASKED_US + 960)


@example()
def local_session_does_not_move(t: HistoryBuilder, ann: ClientSession, bob: ClientSession, bad: bool) -> None:
    eve = t.at_one_server(3, "local")
    synced(t, eve, ASKED_US, ASKED_US + 500)
    wrote(t, bob, ASKED_US + 501)
    t.close(eve)
    at(t, ASKED_US + 900)
    t.session_event(eve, "expired", 1 if bad else 2)


@example()
def session_that_became_global_moves(t: HistoryBuilder, ann: ClientSession, bob: ClientSession, bad: bool) -> None:
    eve = t.at_one_server(3, "local")
    if bad:
        t.session_event(eve, "connected", 3)
    synced(t, eve, ASKED_US, ASKED_US + 500)
    wrote(t, bob, ASKED_US + 501)
    t.close(eve)
    at(t, ASKED_US + 900)
    t.session_event(eve, "expired", 2)


@example()
def session_closed_by_its_client_is_legal(t: HistoryBuilder, ann: ClientSession, bob: ClientSession, bad: bool) -> None:
    synced(t, ann, ASKED_US, ASKED_US + 500)
    wrote(t, bob, ASKED_US + 501)
    t.close(ann)
    t.session_event(ann, "expired" if bad else "closed")


@example()
def first_write_is_requested_after_the_first_reply(
    t: HistoryBuilder, ann: ClientSession, bob: ClientSession, bad: bool
) -> None:
    """A run may begin with it, at time 0."""
    synced(t, ann, 0, 0)
    if bad:
        wrote(t, bob, 100)
    t.close(ann)
    expired(t, ann, 900)


@example()
def two_end_in_turn(t: HistoryBuilder, ann: ClientSession, bob: ClientSession, bad: bool) -> None:
    """Writes before the first end are before the second one, too."""
    cyd = t.client(3)
    for each in (ann, bob):
        synced(t, each, ASKED_US, ASKED_US + 500)
    wrote(t, cyd, ASKED_US + (501 if bad else 400))
    t.close(bob)
    wrote(t, cyd, ASKED_US + 300)
    t.close(ann)
    expired(t, ann, ASKED_US + 900)
    expired(t, bob, ASKED_US + 910)


@example()
def session_with_an_unknown_timeout(t: HistoryBuilder, ann: ClientSession, bob: ClientSession, bad: bool) -> None:
    """The history has no connection of the session."""
    eve = ClientSession(4, 0x999, 1)
    synced(t, eve, ASKED_US, ASKED_US + 500)
    wrote(t, bob, ASKED_US + 501)
    t.close(eve)
    if bad:
        t.session_event(eve, "connected")
    expired(t, eve, ASKED_US + 900)
