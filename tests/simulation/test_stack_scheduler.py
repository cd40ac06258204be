"""Processes that stand still in the world of real drivers: their tasks, on Trio's one clock."""

from __future__ import annotations

import trio
import trio.testing

from harness.worlds.stack.scheduler import WHOSE, StandStill, ordered_by


def played(*, woken: bool = False) -> list[tuple[str, float]]:
    """One process stands still from 1.0 to 2.0, another one never. Who does something when."""
    done: list[tuple[str, float]] = []
    still = StandStill()

    async def works(name: str) -> None:
        WHOSE.set(name)
        async with trio.open_nursery() as nursery:  # whose tasks are of the same process
            nursery.start_soon(counts, name, 0.4)
            nursery.start_soon(waits, name)

    async def counts(name: str, every: float) -> None:
        while True:
            await trio.sleep(every)
            done.append((f"{name} counts", round(trio.current_time(), 3)))

    async def waits(name: str) -> None:
        with trio.move_on_after(1.5):
            await bell.wait()
            done.append((f"{name} heard", round(trio.current_time(), 3)))
            return
        done.append((f"{name} heard nothing", round(trio.current_time(), 3)))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(works, "one")
            nursery.start_soon(works, "other")
            await trio.sleep(1)
            still.stop("one")
            await trio.sleep(0.2)
            if woken:
                bell.set()
            await trio.sleep(0.8)
            still.go_on("one")
            await trio.sleep(0.5)
            nursery.cancel_scope.cancel()

    bell = trio.Event()
    with ordered_by("7"):
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return done


def test_suspended_process_does_nothing_and_is_late() -> None:
    done = played()
    assert [at for what, at in done if what == "one counts"] == [0.4, 0.8, 2.0, 2.4]
    assert [at for what, at in done if what == "other counts"] == [0.4, 0.8, 1.2, 1.6, 2.0, 2.4]
    assert ("one heard nothing", 2.0) in done
    assert ("other heard nothing", 1.5) in done


def test_suspended_process_receives_messages_on_resume() -> None:
    done = played(woken=True)
    assert ("other heard", 1.2) in done
    assert ("one heard", 2.0) in done


def test_suspended_process_can_be_ended() -> None:
    ended: list[float] = []
    still = StandStill()

    async def works() -> None:
        WHOSE.set("one")
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time())

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(works)
            await trio.sleep(1)
            still.stop("one")
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            assert not ended
            still.all_go_on()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert ended == [2.0]
