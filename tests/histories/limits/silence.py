"""Sessions that ended because nothing was heard of them: each story in time, and too early by a microsecond or so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from attrs import frozen

from harness.checkers.broken import Broken
from harness.checkers.store.silence import SILENT, ended_early
from harness.history import Change, Reply, Request
from tests.histories.tale import Tale, Who

SYNC: Final = Request("sync", "/")
ASKED_US: Final = 1_000_000
"""When the sync was asked that proves something."""
IN_TIME_US: Final = ASKED_US + 4_000_000

Tell: TypeAlias = Callable[[Tale, Who, Who, bool], None]


@frozen
class Told:
    name: str
    tell: Tell
    scale: float
    invariant: str = SILENT

    def said(self, bad: bool) -> list[Broken]:
        tale = Tale()
        ann, bob = tale.client(1), tale.client(2)
        self.tell(tale, ann, bob, bad)
        return list(ended_early(tale.history(), self.scale))


STORIES: Final[dict[str, Told]] = {}


def told(scale: float = 1.0) -> Callable[[Tell], Tell]:
    def keep(tell: Tell) -> Tell:
        STORIES[tell.__name__] = Told(tell.__name__, tell, scale)
        return tell

    return keep


def at(t: Tale, at_us: int) -> None:
    """The next thing happens then."""
    t.now = at_us - 10


def synced(t: Tale, who: Who, asked_us: int, answered_us: int, reply: Reply | None = None) -> None:
    at(t, asked_us)
    call = t.ask(who, SYNC)
    at(t, answered_us)
    t.tell(call, reply or Reply(zxid=t.zxid))


def wrote(t: Tale, who: Who, asked_us: int) -> int:
    at(t, asked_us)
    return t.create(who, f"/n{asked_us}")


def expired(t: Tale, who: Who, at_us: int) -> None:
    at(t, at_us)
    t.became(who, "expired")


@told()
def its_time_from_when_it_was_heard(t: Tale, ann: Who, bob: Who, bad: bool) -> None:
    wrote(t, bob, ASKED_US - 100)
    synced(t, ann, ASKED_US, ASKED_US + 500)
    wrote(t, bob, ASKED_US + 501)
    t.close(ann)
    expired(t, ann, IN_TIME_US - bad)


@told()
def its_time_from_when_it_was_heard_last(t: Tale, ann: Who, bob: Who, bad: bool) -> None:
    """Of two that were under way at once, what was asked later counts, whichever was answered last."""
    at(t, ASKED_US)
    one, two = t.ask(ann, SYNC), t.ask(ann, SYNC)
    t.tell(two, Reply(zxid=t.zxid))
    t.tell(one, Reply(zxid=t.zxid))
    wrote(t, bob, ASKED_US + 501)
    t.close(ann)
    expired(t, ann, IN_TIME_US + (9 if bad else 10))


@told(scale=2.0)
def where_servers_have_more_time(t: Tale, ann: Who, bob: Who, bad: bool) -> None:
    synced(t, ann, ASKED_US, ASKED_US + 500)
    wrote(t, bob, ASKED_US + 501)
    t.close(ann)
    expired(t, ann, ASKED_US + 2_000_000 - bad)


@told()
def its_end_was_under_way_when_it_was_heard(t: Tale, ann: Who, bob: Who, bad: bool) -> None:
    """What was asked in the moment of the answer proves nothing."""
    synced(t, ann, ASKED_US, ASKED_US + 500)
    wrote(t, bob, ASKED_US + 500 + bad)
    t.close(ann)
    expired(t, ann, ASKED_US + 900)


@told()
def who_writes_behind_its_end_proves_nothing(t: Tale, ann: Who, bob: Who, bad: bool) -> None:
    synced(t, ann, ASKED_US, ASKED_US + 500)
    if not bad:
        t.close(ann)
    for number in range(1, 4):
        wrote(t, bob, ASKED_US + 500 + number)
    if bad:
        t.close(ann)
    expired(t, ann, ASKED_US + 900)


@told()
def of_all_that_stands_before_its_end_what_was_asked_last_counts(t: Tale, ann: Who, bob: Who, bad: bool) -> None:
    """It may stand before what was asked earlier."""
    at(t, ASKED_US - 50)
    early = t.ask(bob, Request("create", "/early", b""))
    synced(t, ann, ASKED_US, ASKED_US + 500)
    if bad:
        wrote(t, bob, ASKED_US + 501)
    t.tell(early, Reply(zxid=t.commit(bob, Change(0, 0, "create", "/early", b"")), path="/early"))
    t.close(ann)
    wrote(t, bob, ASKED_US + 800)
    expired(t, ann, ASKED_US + 900)


@told()
def what_is_no_write_or_has_no_place_proves_nothing(t: Tale, ann: Who, bob: Who, bad: bool) -> None:
    synced(t, ann, ASKED_US, ASKED_US + 500)
    at(t, ASKED_US + 600)
    t.exists(bob, "/x", there=False)
    t.sync(bob)
    t.tell(t.ask(bob, Request("set", "/x", b"")), Reply("SESSION_MOVED"))
    t.lose(t.ask(bob, Request("set", "/x", b"")))
    if bad:
        t.refuse(bob, Request("multi", parts=(Request("delete", "/x"),)), "NO_NODE")
    t.close(ann)
    expired(t, ann, ASKED_US + 900)


@told()
def a_sync_that_fails_proves_nothing(t: Tale, ann: Who, bob: Who, bad: bool) -> None:
    synced(t, ann, ASKED_US, ASKED_US + 500, Reply("" if bad else "SESSION_EXPIRED", t.zxid))
    wrote(t, bob, ASKED_US + 501)
    t.close(ann)
    expired(t, ann, ASKED_US + 900)


@told()
def other_answers_prove_nothing(t: Tale, ann: Who, bob: Who, bad: bool) -> None:
    at(t, ASKED_US)
    t.exists(ann, "/", there=True)
    t.lose(t.ask(ann, SYNC))
    if bad:
        t.sync(ann)
    wrote(t, bob, ASKED_US + 501)
    t.close(ann)
    expired(t, ann, ASKED_US + 900)


@told()
def anothers_sync_proves_nothing(t: Tale, ann: Who, bob: Who, bad: bool) -> None:
    synced(t, ann if bad else bob, ASKED_US, ASKED_US + 500)
    wrote(t, bob, ASKED_US + 501)
    t.close(ann)
    expired(t, ann, ASKED_US + 900)
    synced(t, bob, ASKED_US + 950, ASKED_US + 960)


@told()
def who_went_by_itself_does_not_complain(t: Tale, ann: Who, bob: Who, bad: bool) -> None:
    synced(t, ann, ASKED_US, ASKED_US + 500)
    wrote(t, bob, ASKED_US + 501)
    t.close(ann)
    t.became(ann, "expired" if bad else "closed")


@told()
def the_first_write_of_all_is_asked_behind_the_first_answer(t: Tale, ann: Who, bob: Who, bad: bool) -> None:
    """A run may begin with it, at no time at all."""
    synced(t, ann, 0, 0)
    if bad:
        wrote(t, bob, 100)
    t.close(ann)
    expired(t, ann, 900)


@told()
def two_end_in_turn(t: Tale, ann: Who, bob: Who, bad: bool) -> None:
    """What stands before the first end stands before the second one, too."""
    cyd = t.client(3)
    for each in (ann, bob):
        synced(t, each, ASKED_US, ASKED_US + 500)
    wrote(t, cyd, ASKED_US + (501 if bad else 400))
    t.close(bob)
    wrote(t, cyd, ASKED_US + 300)
    t.close(ann)
    expired(t, ann, ASKED_US + 900)
    expired(t, bob, ASKED_US + 910)


@told()
def nobody_knows_its_time(t: Tale, ann: Who, bob: Who, bad: bool) -> None:
    """It was never connected, so far as anybody saw."""
    eve = Who(4, 0x999, 1)
    synced(t, eve, ASKED_US, ASKED_US + 500)
    wrote(t, bob, ASKED_US + 501)
    t.close(eve)
    if bad:
        t.became(eve, "connected")
    expired(t, eve, ASKED_US + 900)
