"""Real processes, `kill -9`, and the replies to clients. `ZAB_KILLS=100` runs longer."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest
import trio

from tests.integration.processes import Processes, exchange, processes

KILLS = int(os.environ.get("ZAB_KILLS", "4"))
CLIENTS = 6


class Adder:
    """A client that adds 1 to its own number repeatedly, through any server.

    A reply says how many of its additions happened. One whose reply was lost may have happened or not; none
    may happen twice, and none that was acknowledged may be missing from any later reply.
    """

    def __init__(self, key: str, random: Random) -> None:
        self.key = key
        self.attempts = 0
        self.acknowledged = 0
        self.value = 0
        self._random = random

    async def run(self, made: Processes, stop: trio.Event) -> None:
        while not stop.is_set():
            sid = self._random.choice(sorted(made.client_ports))
            with trio.move_on_after(2):
                async with await made.connect(sid) as stream:
                    while not stop.is_set() and await self._add(stream):
                        pass

    async def _add(self, stream: trio.SocketStream) -> bool:
        self.attempts += 1
        reply = await exchange(stream, f"add {self.key} 1")
        if reply is None:
            return False
        assert reply.startswith("ok "), reply
        value = int(reply.split()[1])
        assert self.value < value <= self.attempts, f"{self.key}: {self.value} was acknowledged, and then {value}"
        self.value = value
        self.acknowledged += 1
        return True


@pytest.mark.slow
async def test_kill_dash_nine(tmp_path: Path) -> None:
    random = Random(1)
    adders = [Adder(f"adder{number}", Random(number)) for number in range(CLIENTS)]
    with processes(tmp_path) as made:
        await made.leader()
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            for adder in adders:
                nursery.start_soon(adder.run, made, stop)
            for number in range(KILLS):
                await trio.sleep(random.uniform(0.2, 0.6))
                leader = await made.leader()
                victim = leader if number % 2 == 0 else random.choice(sorted(made.running))
                made.kill(victim)
                await trio.sleep(random.uniform(0.0, 0.4))
                made.start(victim)
            await made.leader()
            while not all(adder.acknowledged > KILLS for adder in adders):
                await trio.sleep(0.02)
            stop.set()
        for _ in range(100):  # what somebody did not wait for may be carried out between two looks
            states = {await made.ask(sid, "barrier-get adder0") and await made.ask(sid, "list") for sid in made.running}
            if len(states) == 1:
                break
        assert len(states) == 1, "replicas differ"
        final = dict(item.split("=") for item in states.pop().removeprefix("ok ").split())
        for adder in adders:
            assert adder.value <= int(final[adder.key]) <= adder.attempts
        for sid in sorted(made.running):
            assert "Traceback" not in made.log(sid), made.log(sid)


async def test_a_member_ends_cleanly_and_starts_again(tmp_path: Path) -> None:
    with processes(tmp_path, count=1) as made:
        assert await made.ask(1, "set /a 1") == "ok zxid=1/1"
        assert made.stop(1) == 0
        made.start(1)
        assert await made.ask(1, "barrier-get /a") == "ok 1"
        assert made.stop(1) == 0
        assert "Traceback" not in made.log(1)


async def test_all_are_killed_at_once(tmp_path: Path) -> None:
    with processes(tmp_path) as made:
        for number in range(20):
            await made.ask(number % 3 + 1, f"set /{number} {number}")
        for sid in list(made.running):
            made.kill(sid)
        for sid in list(made.client_ports):
            made.start(sid)
        for sid in list(made.running):
            assert await made.ask(sid, "barrier-get /19") == "ok 19"
            assert len((await made.ask(sid, "list")).split()) == 21


async def test_taken_port_is_reported_in_one_line(tmp_path: Path) -> None:
    with processes(tmp_path, count=1) as made:
        await made.leader()
        first = made.running.pop(1)
        try:
            (tmp_path / "other").mkdir()
            made._path = tmp_path / "other"
            made.start(1)
            assert made.running.pop(1).wait(timeout=120) == 1
            assert "cannot listen on" in made.log(1)
            assert "Traceback" not in made.log(1)
        finally:
            first.kill()
            first.wait()
