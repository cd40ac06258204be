"""The class of an example, and helpers that several modules use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import frozen

from harness.history import Change, History, Request, Stat
from tests.histories.history_builder import HistoryBuilder

Build = Callable[[HistoryBuilder], None]


@frozen
class Example:
    name: str
    violated: str
    history: History


EXAMPLES: Final[dict[str, Example]] = {}


def legal_case(build: Build) -> Build:
    return _add(build, "")


def violates(invariant: str) -> Callable[[Build], Build]:
    return lambda build: _add(build, invariant)


def _add(build: Build, violated: str) -> Build:
    builder = HistoryBuilder()
    build(builder)
    name = build.__name__
    assert name not in EXAMPLES
    EXAMPLES[name] = Example(name, violated, builder.history())
    return build


def stat(czxid: int, mzxid: int, version: int, length: int) -> Stat:
    return Stat(czxid, mzxid, czxid, version, 0, 0, 0, length, 0)


BOTH: Final = Request("multi", parts=(Request("create", "/x", b"1"), Request("set", "/x", b"2", version=0)))


def both(t: HistoryBuilder) -> tuple[int, int]:
    ann = t.client(1)
    call = t.invoke(ann, BOTH)
    made = Change(0, 0, "create", "/x", b"1"), Change(0, 0, "set", "/x", b"2", 1)
    return call, t.commit(ann, *made)
