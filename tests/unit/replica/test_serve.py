"""How a broker ends that is told to."""

from __future__ import annotations

import signal

import trio
import trio.testing

from replica.cli.serve import until_left


async def test_who_has_nothing_to_leave_leaves_at_once() -> None:
    """Told so while it starts, before it knows of any cluster: then nobody has begun to listen for a second time."""

    async def leave() -> None:
        pass

    with trio.open_signal_receiver(signal.SIGUSR1) as signals:
        await until_left(leave, signals)
    await trio.testing.wait_all_tasks_blocked()


async def test_who_is_told_twice_does_not_wait() -> None:
    left = []

    async def leave() -> None:
        signal.raise_signal(signal.SIGUSR1)
        await trio.Event().wait()
        left.append(True)

    with trio.open_signal_receiver(signal.SIGUSR1) as signals:
        await until_left(leave, signals)
    assert left == []
