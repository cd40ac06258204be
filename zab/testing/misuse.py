"""Checks that report a wrong use of a memory store, and what to do instead."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf
from types import UnionType
from typing import Final

import trio
import trio.testing

from zab.core.errors import LocalProtocolError
from zab.runtime.block_nursery import block_nursery

IDLE_S: Final = 0.1
"""The real time for which all tasks must wait until a clock that stands still counts as a mistake."""


def check_trio(what: str) -> None:
    """Raise `LocalProtocolError` outside of Trio. `what` is the name of the call."""
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        raise LocalProtocolError(
            f"{what} needs Trio, which does not run here: call it inside trio.run, from a task and not from a thread; "
            "or mark the async test with pytest.mark.trio of pytest-trio"
        ) from None


def check_kind(name: str, value: object, kind: type[object] | UnionType, expected: str) -> None:
    """Raise `TypeError` unless the value of the argument `name` is a `kind`. `expected` describes it."""
    if isinstance(value, bool) or not isinstance(value, kind):
        raise TypeError(f"{name} must be {expected}, not {type(value).__name__}")


def check_loop(what: str, token: trio.lowlevel.TrioToken) -> None:
    """Raise `LocalProtocolError` in another `trio.run` than that of the token. `what` was opened there."""
    if trio.lowlevel.current_trio_token() is not token:
        raise LocalProtocolError(f"{what} was opened in another trio.run: open one in each test, where it is used")


@asynccontextmanager
async def clock_must_move(what: str) -> AsyncIterator[Callable[[], None]]:
    """Raise `LocalProtocolError` from the block if all tasks wait, so that none can move a mock clock that is stopped.

    `what` completes the sentence "nothing can ...". Yield a function that ends the check before the end of the block.
    """
    scope = trio.CancelScope()
    clock = trio.lowlevel.current_clock()
    if not isinstance(clock, trio.testing.MockClock) or clock.rate or clock.autojump_threshold != inf:
        yield scope.cancel
        return
    async with block_nursery() as nursery:
        nursery.start_soon(_raise_when_idle, what, scope)
        yield scope.cancel


async def _raise_when_idle(what: str, scope: trio.CancelScope) -> None:
    with scope:
        while True:
            before = trio.current_time()
            await trio.testing.wait_all_tasks_blocked(IDLE_S)
            if trio.current_time() == before:
                raise LocalProtocolError(
                    f"the MockClock stands still at {before:g} s, so nothing can {what}: set its autojump_threshold to "
                    "0 (pytest-trio: use the fixture autojump_clock), or let another task call its jump()"
                )
