"""The two small ways to wait: a doorbell for a task with work, a waiter for a task with a question."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from zab.net.wakeup import Wakeup
from zab.runtime.waiter import Waiter


async def test_wakeup_before_the_wait_is_not_lost() -> None:
    bell = Wakeup()
    bell.ring()
    bell.ring()
    await bell.wait()
    with trio.move_on_after(0) as scope:
        await bell.wait()
    assert scope.cancelled_caught, "two rings before are one"


async def test_wakeup_ends_a_wait() -> None:
    bell = Wakeup()
    woken = 0

    async def wait() -> None:
        nonlocal woken
        for _ in range(3):
            await bell.wait()
            woken += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        for expected in (1, 2, 3):
            await trio.testing.wait_all_tasks_blocked()
            bell.ring()
            bell.ring()
            await trio.testing.wait_all_tasks_blocked()
            assert woken == expected


async def test_cancelled_entry_can_be_repeated() -> None:
    bell = Wakeup()
    with trio.CancelScope() as scope:
        scope.cancel()
        await bell.wait()
    bell.ring()
    await bell.wait()


async def test_a_waiter_that_is_answered_before_it_waits() -> None:
    waiter = Waiter()
    waiter.done("result")
    waiter.done("never mind")
    assert await waiter.wait() == "result"


async def test_a_waiter_gets_results_and_errors() -> None:
    async with trio.open_nursery() as nursery:
        good, bad = Waiter(), Waiter()
        nursery.start_soon(answer, good, bad)
        assert await good.wait() == 7
        with pytest.raises(KeyError):
            await bad.wait()


async def answer(good: Waiter, bad: Waiter) -> None:
    await trio.testing.wait_all_tasks_blocked()
    good.done(7)
    await trio.testing.wait_all_tasks_blocked()
    bad.done(None, KeyError("told"))


async def test_a_waiter_that_was_cancelled_may_still_be_answered() -> None:
    waiter = Waiter()
    with trio.CancelScope() as scope:
        scope.cancel()
        await waiter.wait()
    waiter.done("nobody hears it")
    assert await waiter.wait() == "nobody hears it"


async def test_another_task_does_the_waiters_work() -> None:
    bell = Wakeup()
    woken = 0

    async def wait() -> None:
        nonlocal woken
        while True:
            await bell.wait()
            woken += 1

    async with trio.open_nursery() as nursery:
        assert not bell.hold(), "nobody waits"
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert bell.hold()
        bell.ring()
        assert bell.answer()
        assert not bell.answer()
        bell.release()
        await trio.testing.wait_all_tasks_blocked()
        assert woken == 0
        assert bell.hold()
        bell.ring()
        bell.release()
        await trio.testing.wait_all_tasks_blocked()
        assert woken == 1, "what was not answered is the task's"
        assert bell.hold()
        nursery.cancel_scope.cancel()
        bell.release()
    bell.ring()
    with trio.fail_after(120):
        await bell.wait()
