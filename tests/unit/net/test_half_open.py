"""Which half-open connection goes when a port is full."""

from __future__ import annotations

from collections import Counter
from random import Random

import trio
import trio.testing

from zab.net.half_open import HalfOpen, HalfOpenWait


def test_the_oldest_of_the_busiest_address_goes() -> None:
    waits = HalfOpen()
    entered = [waits.entered(host) for host in ("a", "b", "b", "a", "b", "c")]
    for wait in entered:
        waits.add(wait)
    assert waits.make_room() is entered[1], "b has three"
    assert {waits.make_room(), waits.make_room()} == {entered[0], entered[2]}, "a and b have two each, c has one"
    entered[3].shown()
    assert len(waits) == 2
    assert {waits.make_room(), waits.make_room()} == {entered[4], entered[5]}
    assert waits.make_room() is None


def test_a_dropped_connection_ends_without_an_error() -> None:
    async def main() -> None:
        waits = HalfOpen()
        ended: list[bool] = []

        async def connection() -> None:
            with waits.entered("a") as wait:
                await trio.sleep_forever()
            ended.append(wait.dropped)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection)
            await trio.testing.wait_all_tasks_blocked()
            assert waits.make_room() is not None
        assert ended == [True]

    trio.run(main)


def test_the_address_that_goes_always_has_the_most() -> None:
    random = Random(5)
    waits, model = HalfOpen(), list[HalfOpenWait]()
    for _ in range(5_000):
        what = random.random()
        if what < 0.55 or not model:
            wait = waits.entered(random.choice("abcdefg"))
            waits.add(wait)
            model.append(wait)
        elif what < 0.75:
            wait = model.pop(random.randrange(len(model)))
            wait.shown()
        else:
            counted = Counter(wait.host for wait in model)
            gone = waits.make_room()
            assert gone is not None
            assert counted[gone.host] == max(counted.values())
            assert gone is next(wait for wait in model if wait.host == gone.host)
            model.remove(gone)
        assert len(waits) == len(model)
