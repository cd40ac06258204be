"""One real server: its configuration, its process, its signals, and what it says of itself in its log."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import trio
from attrs import frozen

from harness.faults import Script
from harness.worlds.processes.configuration import Pace, configuration
from harness.worlds.processes.machine import FAILURES, Lever, Ways
from harness.worlds.processes.places import Places
from zab.core.ensemble import Server as Member

ROOT: Final = Path(__file__).resolve().parents[3]
_LINES_KEPT: Final = 12


@frozen
class RoleSeen:
    """The last that a server said of its part in the ensemble."""

    state: str
    epoch: int
    leader: int | None
    serving: bool

    @property
    def leads(self) -> bool:
        return self.state == "LEADING"


class Server:
    """By id. `up`: its process is meant to be there, and is."""

    program = "harness.worlds.processes.machine"

    def __init__(self, sid: int, folder: Path, places: Places, spoke: Callable[[Server, dict[str, Any]], None]) -> None:
        self.sid = sid
        self.folder = folder
        self.data = folder / "data"
        self.config = folder / "zoo.cfg"
        self.founded = False
        self.up = False
        self.paused = False
        self.asked_to_end = ""
        """How: `kill` or `terminate`."""
        self.role: RoleSeen | None = None
        self.impaired = False
        """Its disk was damaged or is new, and it has not been seen to follow anybody since."""
        self.voters: tuple[int, ...] = ()
        """As it last said that they are."""
        self.starts = 0
        self.tracebacks: list[str] = []
        self.last_lines: list[str] = []
        self._places = places
        self._spoke = spoke
        self._process: trio.Process | None = None
        self._lives = 0
        self._gone = trio.Event()
        self._gone.set()
        folder.mkdir()
        self.lever = Lever(folder / "lever")

    def found(
        self,
        script: Script,
        pace: Pace,
        members: Sequence[Member],
        servers: range,
        *,
        founds: bool,
        mutant: str | None = None,
    ) -> None:
        """Everything that it needs to be started for the first time."""
        self.founded = True
        self.impaired = not founds
        self._empty()
        self.config.write_text(configuration(self.data, self._places, self.sid, members, script, pace, founds=founds))
        under = {
            "names": self._places.names(self.sid, servers),
            "lever": str(self.folder / "lever"),
            "kept": str(self.folder / "kept"),
            "mutant": mutant,
        }
        (self.folder / "under.json").write_text(json.dumps(under))

    def _empty(self) -> None:
        self.data.mkdir()
        (self.data / "myid").write_text(f"{self.sid}\n")

    # -- its process -----------------------------------------------------------------------------------

    def wanted(self) -> int:
        """Its process is to be there from now on. Returns which life of it that is."""
        self.up = True
        self._lives += 1
        return self._lives

    async def live(self, life: int) -> int | None:
        """From the start of its process to its end. Returns the exit code; None: it was killed before it was started.

        Nothing is left when cancelled.
        """
        while not self._gone.is_set():
            await self._gone.wait()
        if not self.up or life != self._lives:
            return None
        self._gone = trio.Event()
        self.asked_to_end, self.paused, self.role = "", False, None
        self.starts += 1
        # In a process group of its own, so that Ctrl-C ends the run, and the run ends the servers.
        command = [*self._places.command(self.sid), sys.executable, "-m", self.program]
        process = await trio.lowlevel.open_process(
            [*command, str(self.folder / "under.json"), str(self.config)],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        self._process = process
        try:
            if self.asked_to_end:  # before it was there
                process.kill()
            await self._listen(process)
            return await process.wait()
        finally:
            with trio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            if life == self._lives:
                self.up = False
            self.role, self._process = None, None
            self._gone.set()

    async def _listen(self, process: trio.Process) -> None:
        assert process.stdout is not None
        rest = b""
        with (self.folder / "log").open("ab") as log:
            async for data in process.stdout:
                log.write(data)
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._heard(line.decode(errors="replace"))

    def _heard(self, line: str) -> None:
        self.last_lines = [*self.last_lines[1 - _LINES_KEPT :], line]
        try:
            said = json.loads(line)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            if line.startswith("Traceback"):
                self.tracebacks.append(line)
            return
        if "traceback" in said:
            self.tracebacks.append(f"{said.get('event')}: {str(said['traceback']).splitlines()[-1]}")
        if said.get("event") == "role" and self.up:
            leader = said.get("leader")
            self.role = RoleSeen(
                str(said["state"]),
                int(said["epoch"]),
                int(str(leader)) if str(leader).isdigit() else None,
                str(said["serving"]) == "True",
            )
            if self.role.serving and not self.role.leads:
                self.impaired = False  # a leader has brought it up to date
        elif said.get("event") == "membership" and self.up:
            self.voters = tuple(json.loads(str(said.get("voters"))))
        self._spoke(self, said)

    def kill(self) -> None:
        """As a power failure would, as far as the process is concerned."""
        self._end("kill", signal.SIGKILL)

    def terminate(self) -> None:
        """As an operator would."""
        self.resume()
        self._end("terminate", signal.SIGTERM)

    def _end(self, how: str, number: int) -> None:
        self.asked_to_end = how
        if how == "kill":
            self.up, self.role = False, None
        if self._process is not None:
            self._process.send_signal(number)

    @property
    def pid(self) -> int:
        """0: there is none."""
        return 0 if self._process is None else self._process.pid

    def said(self) -> str:
        """The last that it said, for who wants to know why it ended."""
        return " | ".join(line for line in self.last_lines[-3:] if line)

    async def gone(self) -> None:
        await self._gone.wait()

    def pause(self) -> None:
        if self._process is not None and self.up:
            self.paused = True
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self._process is not None and self.paused:
            self._process.send_signal(signal.SIGCONT)
        self.paused = False

    # -- its disk --------------------------------------------------------------------------------------

    def fail_disk(self, error: str, after: int) -> None:
        self.lever.change(failure=FAILURES[error], left=after)

    def is_well(self) -> None:
        """Its disk does what it should at its usual speed, and its clock is right."""
        self.lever.write(Ways())

    def lose_disk(self) -> None:
        """While it is down. What was there is kept elsewhere: it may explain something."""
        kept = self.folder / "kept" / f"lost-{self.starts}"
        kept.parent.mkdir(exist_ok=True)
        shutil.move(self.data, kept)
        self._empty()
        self.set("db.autocreate", "false")

    def copy_disk(self) -> Path:
        """As it is at one moment."""
        copy = self.folder / "kept" / f"copy-{self.starts}-{len(self.last_lines)}"
        process = self._process
        if process is not None and not self.paused:
            process.send_signal(signal.SIGSTOP)
        try:
            shutil.copytree(self.data, copy, dirs_exist_ok=True)
        finally:
            if process is not None and not self.paused:
                process.send_signal(signal.SIGCONT)
        return copy

    def put_back(self, copy: Path) -> None:
        """While it is down."""
        kept = self.folder / "kept" / f"lost-{self.starts}"
        shutil.move(self.data, kept)
        shutil.move(copy, self.data)

    def set(self, key: str, value: object) -> None:
        """Another value in its configuration, for its next start."""
        lines = [f"{key}={value}" if line.startswith(f"{key}=") else line for line in self._lines()]
        self.config.write_text("\n".join(lines) + "\n")

    def setting(self, key: str) -> str:
        return next(line.partition("=")[2] for line in self._lines() if line.startswith(f"{key}="))

    def _lines(self) -> list[str]:
        return self.config.read_text().splitlines()

    def files(self) -> list[Path]:
        """What it has stored, without what says who it is."""
        return sorted(
            path for path in self.data.iterdir() if path.is_file() and path.name not in ("lock", "myid", "identity")
        )

    @property
    def leads(self) -> bool:
        return self.up and self.role is not None and self.role.leads

    @property
    def serves(self) -> bool:
        return self.up and not self.paused and self.role is not None and self.role.serving
