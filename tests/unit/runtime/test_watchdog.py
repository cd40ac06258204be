"""Watchdogs of loops: a stall is reported with its cause, a loop that no longer turns makes its server unhealthy."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
import trio
import trio.testing

from tests.unit.service.test_proposal_queue import EPOCH, LOG, A, Machine, Node
from zab.core.errors import Refused
from zab.core.zxid import Zxid
from zab.host.watchdog import DEAD_S, RECENT_S, STALL_S, LoopMonitor, Stall, TimedSteps, Watchdog, Watchdogs
from zab.service.forwarding.proposal_queue import PREPARE_S, ForwardedBatch, ProposalQueue
from zab.service.limits import Limits


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def make_dog(poke: Callable[[], object] | None = None) -> tuple[Watchdog, Clock, list[Stall]]:
    stalls: list[Stall] = []
    clock = Clock()
    return Watchdog("loop", stalls.append, clock, poke), clock, stalls


def test_turn_longer_than_the_limit_is_reported_with_its_cause() -> None:
    dog, clock, stalls = make_dog()
    with dog.turn("short"):
        clock.now += STALL_S / 2
    with dog.turn(lambda: "300 checks"):
        clock.now += 1.5
    assert stalls == [Stall("loop", 1.5, "300 checks", clock.now)]
    assert (dog.turns, dog.stalls) == (2, 1)


def test_cause_is_not_computed_for_short_turns() -> None:
    dog, _, _ = make_dog()
    with dog.turn(lambda: pytest.fail("nobody asked")):
        pass


def test_warning_is_forgotten_after_a_minute() -> None:
    dog, clock, _ = make_dog()
    with dog.turn("a multi"):
        clock.now += 1
    assert dog.warning(clock.now + 3) == "the loop 'loop' was held up for 1000 ms, 3 s ago: a multi"
    assert dog.warning(clock.now + RECENT_S + 1) is None


async def test_steps_of_a_coroutine_are_timed_without_its_waits() -> None:
    dog, clock, stalls = make_dog()
    waits = trio.Event()

    async def work() -> str:
        clock.now += 1.5
        await waits.wait()
        clock.now += STALL_S / 2
        await trio.lowlevel.checkpoint()
        clock.now += 2.5
        return "done"

    async def others() -> None:
        clock.now += 100
        waits.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        assert await TimedSteps(dog, lambda: "a request", work()) == "done"
    assert [(each.seconds, each.cause) for each in stalls] == [(1.5, "a request"), (2.5, "a request")]


async def test_steps_pass_on_errors_and_cancellation() -> None:
    dog, clock, stalls = make_dog()
    cleaned: list[str] = []

    async def fails() -> None:
        await trio.lowlevel.checkpoint()
        clock.now += 1
        raise KeyError("x")

    async def waits() -> None:
        try:
            await trio.sleep_forever()
        finally:
            cleaned.append("up")

    with pytest.raises(KeyError):
        await TimedSteps(dog, "fails", fails())
    with trio.move_on_after(0.01) as scope:
        await TimedSteps(dog, "waits", waits())
    assert scope.cancelled_caught
    assert cleaned == ["up"]
    assert [each.cause for each in stalls] == ["fails"]


def test_loop_that_ignores_a_poke_is_dead() -> None:
    pokes: list[None] = []
    dog, clock, _ = make_dog(lambda: pokes.append(None))
    dog.check(clock.now)
    dog.check(clock.now + 1)
    assert len(pokes) == 1, "an unanswered poke is not repeated"
    assert dog.problem(clock.now + DEAD_S - 1) is None
    assert dog.problem(clock.now + DEAD_S) == "the loop 'loop' has not turned for 5 s: restart this server"


def test_loop_that_answers_its_pokes_is_alive() -> None:
    dog, clock, _ = make_dog(lambda: None)
    for _ in range(20):
        dog.check(clock.now)
        clock.now += 1
        with dog.turn(""):
            pass
        assert dog.problem(clock.now) is None


def test_turn_that_raises_does_not_count_as_a_sign_of_life() -> None:
    dog, clock, _ = make_dog(lambda: None)
    dog.check(clock.now)
    for _ in range(3):
        with pytest.raises(OverflowError), dog.turn(""):
            raise OverflowError
    assert dog.problem(clock.now + DEAD_S) is not None


def test_excused_loop_may_be_silent() -> None:
    dog, clock, _ = make_dog(lambda: None)
    dog.check(clock.now)
    dog.excused = lambda: True
    dog.check(clock.now + DEAD_S)
    assert dog.problem(clock.now + DEAD_S) is None


def test_registry_reports_dead_loops() -> None:
    async def main() -> list[str]:
        dogs = Watchdogs(lambda stall: None)
        dogs.add("dead", lambda: None)
        alive = dogs.add("alive")
        alive.poke = lambda: setattr(alive, "turns", alive.turns + 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(dogs.run)
            await trio.sleep(DEAD_S + 2)
            problems = dogs.problems()
            nursery.cancel_scope.cancel()
        return problems

    clock = trio.testing.MockClock(autojump_threshold=0)
    assert trio.run(main, clock=clock) == ["the loop 'dead' has not turned for 7 s: restart this server"]


def test_desk_names_the_request_that_took_long_to_prepare() -> None:
    dog, clock, stalls = make_dog()

    class Slow(Machine):
        def prepare_at(self, request: bytes, zxid: Zxid, epoch: int, now_ms: int) -> bytes:
            clock.now += 1.0 if request == b"slow" else 0.001
            return request

        def prepare(self, request: bytes, view: object) -> bytes:
            raise AssertionError

        def describe(self, request: bytes) -> str:
            return f"the request '{request.decode()}'"

        def describe_transaction(self, txn: bytes) -> str:
            raise AssertionError("nothing is applied at a queue")

    queue = ProposalQueue(Slow(), Limits(), LOG, dog)
    queue.open(EPOCH)
    queue.put(ForwardedBatch(EPOCH, None, A, 0, (b"quick", b"slow", b"quick")))
    queue.turn(Node(), 0, 0)
    assert [stall.cause for stall in stalls] == ["preparing the request 'slow' of 4 bytes"]


def test_desk_ends_a_turn_that_prepares_for_too_long() -> None:
    """The queue proposes the prepared requests; the rest waits for the next turn."""
    dog, clock, _ = make_dog()

    class Slow(Machine):
        def prepare_at(self, request: bytes, zxid: Zxid, epoch: int, now_ms: int) -> bytes:
            clock.now += PREPARE_S / 2
            if request == b"refuse":
                raise Refused("no")
            return request

        def prepare(self, request: bytes, view: object) -> bytes:
            raise AssertionError

    queue, node = ProposalQueue(Slow(), Limits(), LOG, dog), Node()
    queue.open(EPOCH)
    queue.put(ForwardedBatch(EPOCH, None, A, 0, (b"write",) * 3 + (b"refuse",) * 3))
    found = []
    while queue.busy:
        queue.begin(clock())
        queue.turn(node, 0, 0)
        queue.turn(node, 0, 0)
        found.append((node.last & 0xFFFF_FFFF, len(queue.refusals), queue.cut))
    assert found == [(2, 0, True), (3, 1, True), (3, 3, True)]


def hold_the_loop() -> None:
    time.sleep(STALL_S + 0.4)


async def test_monitor_names_the_function_that_holds_the_loop() -> None:
    stalls: list[Stall] = []
    dogs = Watchdogs(stalls.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(LoopMonitor(dogs.add("event loop")).run)
        await trio.sleep(0.2)
        stalls.clear()  # of a machine that was busy when the test began
        while not any("hold_the_loop" in stall.cause for stall in stalls):
            hold_the_loop()
            await trio.sleep(0.2)
        assert any("hold_the_loop" in warning for warning in dogs.warnings())
        nursery.cancel_scope.cancel()
    assert not any(thread.name == "loop monitor" for thread in threading.enumerate())
