"""Frozen tasks of paused processes in the simulated runtime, on Trio's shared clock."""

from __future__ import annotations

import trio
import trio.testing

from harness.worlds.stack.scheduler import OWNER, TaskFreezer, ordered_by


def played(*, woken: bool = False) -> list[tuple[str, float]]:
    """Freeze one of two processes from 1.0 to 2.0. Return the actions of both with their times."""
    done: list[tuple[str, float]] = []
    freezer = TaskFreezer()

    async def works(name: str) -> None:
        OWNER.set(name)
        async with trio.open_nursery() as nursery:  # its tasks belong to the same process
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
            freezer.freeze("one")
            await trio.sleep(0.2)
            if woken:
                bell.set()
            await trio.sleep(0.8)
            freezer.thaw("one")
            await trio.sleep(0.5)
            nursery.cancel_scope.cancel()

    bell = trio.Event()
    with ordered_by("7"):
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return done


def test_timers_of_a_frozen_process_fire_when_it_resumes() -> None:
    done = played()
    assert [at for what, at in done if what == "one counts"] == [0.4, 0.8, 2.0, 2.4]
    assert [at for what, at in done if what == "other counts"] == [0.4, 0.8, 1.2, 1.6, 2.0, 2.4]
    assert ("one heard nothing", 2.0) in done
    assert ("other heard nothing", 1.5) in done


def test_frozen_process_receives_an_event_when_it_resumes() -> None:
    done = played(woken=True)
    assert ("other heard", 1.2) in done
    assert ("one heard", 2.0) in done


def test_frozen_process_that_is_cancelled_ends_when_it_resumes() -> None:
    ended: list[float] = []
    freezer = TaskFreezer()

    async def works() -> None:
        OWNER.set("one")
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time())

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(works)
            await trio.sleep(1)
            freezer.freeze("one")
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            assert not ended
            freezer.thaw_all()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert ended == [2.0]
