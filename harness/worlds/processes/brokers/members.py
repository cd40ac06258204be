"""The processes of group members that use client libraries of other projects, and the events that they report."""

from __future__ import annotations

import json
import signal
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
from harness.worlds.brokers.recorder import Recorder
from harness.worlds.processes.brokers.member import MemberOptions
from harness.worlds.processes.server import end_process, open_process

PROGRAM: Final = "harness.worlds.processes.brokers.member"
MODULES: Final[Mapping[str, str]] = {"confluent": "confluent_kafka", "python": "kafka"}
"""The module of each library, by its name in scripts."""
NEVER_S: Final = 1e6
STDERR_KEPT: Final = 16_000
"""The number of bytes of stderr that are kept: the log of the client library, and the stacks of a stalled member."""
LINES_SHOWN: Final = 60
STACKS_S: Final = 0.5
"""The time in which a process writes its stacks."""


def installed(library: str) -> bool:
    return find_spec(MODULES[library]) is not None


class Member:
    """The process of a member. `killed`: it is killed some time after its first record instead of leaving."""

    def __init__(
        self, recorder: Recorder, options: MemberOptions, failed: Callable[[str], None], *, killed: bool = False
    ) -> None:
        self.options = evolve(options, seconds=NEVER_S) if killed else options
        self.left = trio.Event()
        self._kill_s = options.seconds if killed else None
        self._failed = failed
        self._recorder = recorder
        self._process: trio.Process | None = None
        self._stderr = bytearray()

    def leave(self) -> None:
        """Make the member leave its group in good order."""
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()

    @property
    def _name(self) -> str:
        return f"client {self.options.number} ({self.options.library})"

    async def describe(self) -> str:
        """Return the end of the member's log, followed by the stacks of its threads."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGUSR1)
            await trio.sleep(STACKS_S)
        return "\n".join([f"{self._name} has logged:", *self._log()[-LINES_SHOWN:]])

    async def run(self) -> None:
        command = [sys.executable, "-m", PROGRAM, json.dumps(asdict(self.options))]
        process = await open_process(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self._process = process
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read_stderr, process)
                await self._read_events(process, nursery)
                nursery.cancel_scope.cancel()
            code = await process.wait()
            if code and not (self._kill_s is not None and code < 0):
                self._failed(f"{self._name} ended with {code}: {' | '.join(self._log()[-2:])}")
        finally:
            await end_process(process)
            self.left.set()

    async def _read_events(self, process: trio.Process, nursery: trio.Nursery) -> None:
        assert process.stdout is not None
        rest, number, ended, kill_s = b"", 0, False, self._kill_s
        async for data in process.stdout:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                number += 1
                where = f"line {number} of client {self.options.number}"
                event = RECORDS.from_json(parsed(line.decode(), number), where)
                ended = isinstance(event, Ended)
                self._recorder.add(event)
                if isinstance(event, Polled) and kill_s is not None:
                    nursery.start_soon(self._kill_after, kill_s, process)
                    kill_s = None
        if not ended:
            self._recorder.add(Ended(self._recorder.now_us(), self.options.number))

    async def _read_stderr(self, process: trio.Process) -> None:
        assert process.stderr is not None
        async for data in process.stderr:
            self._stderr += data
            del self._stderr[:-STDERR_KEPT]

    def _log(self) -> list[str]:
        return self._stderr.decode(errors="replace").splitlines()

    @staticmethod
    async def _kill_after(seconds: float, process: trio.Process) -> None:
        await trio.sleep(seconds)
        process.kill()
