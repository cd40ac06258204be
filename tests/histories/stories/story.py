"""What a story is, and what several of them have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import frozen

from harness.history import Change, History, Request, Stat
from tests.histories.tale import Tale

Tell = Callable[[Tale], None]


@frozen
class Story:
    name: str
    broken: str
    history: History


STORIES: Final[dict[str, Story]] = {}


def good(tell: Tell) -> Tell:
    return _told(tell, "")


def bad(invariant: str) -> Callable[[Tell], Tell]:
    return lambda tell: _told(tell, invariant)


def _told(tell: Tell, broken: str) -> Tell:
    tale = Tale()
    tell(tale)
    name = tell.__name__
    assert name not in STORIES
    STORIES[name] = Story(name, broken, tale.history())
    return tell


def stat(czxid: int, mzxid: int, version: int, length: int) -> Stat:
    return Stat(czxid, mzxid, czxid, version, 0, 0, 0, length, 0)


BOTH: Final = Request("multi", parts=(Request("create", "/x", b"1"), Request("set", "/x", b"2", version=0)))


def both(t: Tale) -> tuple[int, int]:
    ann = t.client(1)
    call = t.ask(ann, BOTH)
    made = Change(0, 0, "create", "/x", b"1"), Change(0, 0, "set", "/x", b"2", 1)
    return call, t.commit(ann, *made)
