"""Members of groups that are clients which nobody here has written: processes that tell what they see.

What they tell comes when it comes, with the time at which they saw it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Final

import trio
from attrs import asdict, evolve

from harness.checkers.records.as_json import RECORDS
from harness.checkers.records.history import Ended, Polled
from harness.json_lines import parsed
from harness.worlds.brokers.tape import Tape
from harness.worlds.processes.brokers.member import Told
from harness.worlds.processes.server import ROOT

PROGRAM: Final = "harness.worlds.processes.brokers.member"
MODULES: Final[Mapping[str, str]] = {"confluent": "confluent_kafka", "python": "kafka"}
"""What has to be installed, by the name of the library in scripts."""
NEVER_S: Final = 1e6
LAST_WORDS: Final = 2_000
"""Bytes of what it says when something goes wrong."""


def there_is(library: str) -> bool:
    """Nothing else here needs it."""
    return find_spec(MODULES[library]) is not None


class Member:
    """`killed`: it does not leave, but ends so long after it has read something as if its machine had."""

    def __init__(self, tape: Tape, told: Told, fell: Callable[[str], None], *, killed: bool = False) -> None:
        self.told = evolve(told, seconds=NEVER_S) if killed else told
        self.left = trio.Event()
        self._kill_s = told.seconds if killed else None
        self._fell = fell
        self._tape = tape
        self._process: trio.Process | None = None

    def leave(self) -> None:
        """In good order, and soon."""
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()

    def _kill(self) -> None:
        assert self._process is not None
        self._process.kill()

    async def run(self) -> None:
        words = json.dumps(asdict(self.told))
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", PROGRAM, words],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        self._process = process
        said = bytearray()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._hear_trouble, process, said)
                await self._hear(process, nursery)
                nursery.cancel_scope.cancel()
            code = await process.wait()
            if code and not (self._kill_s is not None and code < 0):
                last = said.decode(errors="replace").splitlines()[-2:]
                self._fell(f"client {self.told.number} of {self.told.library} ended with {code}: {' | '.join(last)}")
        finally:
            with trio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            self.left.set()

    async def _hear(self, process: trio.Process, nursery: trio.Nursery) -> None:
        assert process.stdout is not None
        rest, number, ended, kill_s = b"", 0, False, self._kill_s
        async for data in process.stdout:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                number += 1
                where = f"line {number} of client {self.told.number}"
                event = RECORDS.from_json(parsed(line.decode(), number), where)
                ended = isinstance(event, Ended)
                self._tape.add(event)
                if isinstance(event, Polled) and kill_s is not None:
                    nursery.start_soon(self._end, kill_s)
                    kill_s = None
        if not ended:
            self._tape.add(Ended(self._tape.now_us(), self.told.number))

    async def _hear_trouble(self, process: trio.Process, said: bytearray) -> None:
        assert process.stderr is not None
        async for data in process.stderr:
            said += data
            del said[:-LAST_WORDS]

    async def _end(self, after_s: float) -> None:
        await trio.sleep(after_s)
        self._kill()
