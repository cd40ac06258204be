"""Many requests at a time, and not more than so many."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from kraft_controller.core.store_requests import ControllerMoved
from kraft_controller.runtime.bounded_requests import run_bounded


def run(calls: int, window: int) -> tuple[list[int], int]:
    """What came back, and how many were under way at once."""
    under_way = most = 0

    async def one(number: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await trio.sleep(1 + number % 3)
        under_way -= 1
        return number

    async def main() -> list[int]:
        return await run_bounded([partial(one, number) for number in range(calls)], window)

    found = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return found, most


@pytest.mark.parametrize(("calls", "window", "most"), [(0, 5, 0), (1, 5, 1), (4, 5, 4), (50, 5, 5)])
def test_results_are_ordered_and_the_window_is_kept(calls: int, window: int, most: int) -> None:
    assert run(calls, window) == (list(range(calls)), most)


def test_first_error_cancels_and_controller_moved_takes_precedence() -> None:
    began: list[int] = []
    go = trio.Event()

    async def one(number: int) -> None:
        began.append(number)
        # Who has been woken by an event is not cancelled any more: both errors are there, in whichever order.
        await go.wait()
        if number == 1:
            raise ValueError
        if number == 2:
            raise ControllerMoved
        await trio.sleep_forever()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails)
            await trio.testing.wait_all_tasks_blocked()
            go.set()

    async def fails() -> None:
        with pytest.raises(ControllerMoved):
            await run_bounded([partial(one, number) for number in range(100)], 4)

    trio.run(main)
    assert len(began) == 4
