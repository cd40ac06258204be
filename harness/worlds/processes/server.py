"""A real server in a process of its own: its signals, its disk, and its log. `Server` is a server of the store."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import trio
from attrs import frozen

from harness.faults import Script
from harness.worlds.processes.addresses import Addresses
from harness.worlds.processes.configuration import Pace, configuration
from harness.worlds.processes.launcher import FAILURES, FaultControl, FaultState
from zab.core.ensemble import Server as Member

ROOT: Final = Path(__file__).resolve().parents[3]
PROGRAM: Final = "harness.worlds.processes.launcher"
_LINES_KEPT: Final = 12
Notify = Callable[[Any, dict[str, Any]], None]
"""Called with the server and each structured line of its log."""


async def open_process(command: Sequence[str], **options: Any) -> trio.Process:
    """Start a process that imports this source tree, in its own process group, so that Ctrl-C reaches only the run."""
    return await trio.lowlevel.open_process(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, process_group=0, **options
    )


async def end_process(process: trio.Process) -> None:
    """Kill the process if it runs, also if this task is cancelled."""
    with trio.CancelScope(shield=True):
        if process.returncode is None:
            process.kill()
            await process.wait()
        if process.stdin is not None:
            await process.stdin.aclose()  # ends the guard of a server of ZooKeeper, before its process id is used again


class ServerProcess(ABC):
    """The process of one server, started again and again, and the folder that outlives it."""

    kind = "server"
    ends_with = 0
    """The exit code after SIGTERM."""

    def __init__(self, sid: int, folder: Path, config: str, addresses: Addresses, notify: Notify) -> None:
        self.sid = sid
        self.folder = folder
        self.data = folder / "data"
        self.config = folder / config
        self.founded = False
        """True if the server has a configuration and a data directory."""
        self.up = False
        """True if the process runs or is about to start, and was not killed."""
        self.paused = False
        self.requested_end = ""
        """The signal that ends the process: `kill` or `terminate`; empty if none was sent."""
        self.starts = 0
        self.tracebacks: list[str] = []
        self.last_lines: list[str] = []
        self._addresses = addresses
        self._notify = notify
        self._process: trio.Process | None = None
        self._lives = 0
        self._exited = trio.Event()
        self._exited.set()
        folder.mkdir()
        self.fault_control = FaultControl(folder / "fault_control")

    def _prepare(self, program: str, configuration: str, names: dict[str, str], mutant: str | None) -> None:
        """Write all files that the first start needs."""
        self.founded = True
        self._empty()
        self.config.write_text(configuration)
        launch = {
            "program": program,
            "names": names,
            "fault_control": str(self.folder / "fault_control"),
            "kept": str(self.folder / "kept"),
            "mutant": mutant,
        }
        (self.folder / "launch.json").write_text(json.dumps(launch))

    def _empty(self) -> None:
        self.data.mkdir()

    @abstractmethod
    def _forget(self) -> None:
        """Reset the state that was derived from the log: the process has ended."""

    @abstractmethod
    def _read(self, line: str) -> None:
        """Process a line of the log."""

    @abstractmethod
    def state(self) -> str:
        """Describe the state of the server for a message."""

    def __str__(self) -> str:
        return f"{self.kind} {self.sid}"

    # -- its process -----------------------------------------------------------------------------------

    def request_start(self) -> int:
        """Mark the process as wanted. Return the number of the new process, for `live`."""
        self.up = True
        self._lives += 1
        return self._lives

    async def live(self, life: int) -> int | None:
        """Run a process from start to end. Return the exit code; None if it was killed before it was started.

        The process is killed if this task is cancelled.
        """
        while not self._exited.is_set():
            await self._exited.wait()
        if not self.up or life != self._lives:
            return None
        self._exited = trio.Event()
        self.requested_end, self.paused = "", False
        self._forget()
        self.starts += 1
        process = await open_process(
            [*self._addresses.command(self.sid), *self._command()],
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._process = process
        try:
            if self.requested_end:  # a signal was requested before the process existed
                process.kill()
            await self._read_log(process)
            return await process.wait()
        finally:
            await end_process(process)
            if life == self._lives:
                self.up = False
            self._forget()
            self._process = None
            self._exited.set()

    def _command(self) -> list[str]:
        """Return the command that starts the process."""
        return [sys.executable, "-m", PROGRAM, str(self.folder / "launch.json"), str(self.config)]

    async def _read_log(self, process: trio.Process) -> None:
        assert process.stdout is not None
        rest = b""
        with (self.folder / "log").open("ab", buffering=0) as log:  # the run reads it while the process writes
            async for data in process.stdout:
                log.write(data)
                *lines, rest = (rest + data).split(b"\n")
                for each in lines:
                    line = each.decode(errors="replace")
                    self.last_lines = [*self.last_lines[1 - _LINES_KEPT :], line]
                    self._read(line)

    def kill(self) -> None:
        """Kill the process. In contrast to a power failure, the machine keeps all its writes."""
        self.requested_end = "kill"
        self.up = False
        self._forget()
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Stop the process as an operator does, with SIGTERM."""
        self.resume()
        self.requested_end = "terminate"
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    @property
    def pid(self) -> int:
        """Return the process id; 0 if there is no process."""
        return 0 if self._process is None else self._process.pid

    def log_tail(self) -> str:
        return " | ".join(line for line in self.last_lines[-3:] if line)

    async def wait_for_exit(self) -> None:
        await self._exited.wait()

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
        self.fault_control.change(failure=FAILURES[error], left=after)

    def heal(self) -> None:
        """End the faults of its disk and its clock."""
        self.fault_control.write(FaultState())

    def lose_disk(self) -> None:
        """Empty the disk while the server is down. The files are moved to another folder, for debugging."""
        kept = self.folder / "kept" / f"lost-{self.starts}"
        kept.parent.mkdir(exist_ok=True)
        shutil.move(self.data, kept)
        self._empty()


@frozen
class RoleSeen:
    """The role of a server by the last log line about it."""

    state: str
    epoch: int
    leader: int | None
    serving: bool

    @property
    def leads(self) -> bool:
        return self.state == "LEADING"


class Server(ServerProcess):
    """A server of the store."""

    ours = True
    software = ""
    """The software in messages, if servers of several kinds run."""

    def __init__(self, sid: int, folder: Path, addresses: Addresses, notify: Notify) -> None:
        super().__init__(sid, folder, "zoo.cfg", addresses, notify)
        self.role: RoleSeen | None = None
        self.impaired = False
        """True if the disk was damaged or is new, and the server has not served under a leader since."""
        self.forgot = False
        """True if the disk was lost in a mixed ensemble, which does not readmit a server without its promises."""
        self.voters: tuple[int, ...] = ()
        """The voters by the last log line about the membership."""

    def set_up(
        self,
        script: Script,
        pace: Pace,
        members: Sequence[Member],
        servers: range,
        *,
        founds: bool,
        mutant: str | None = None,
    ) -> None:
        """Write the files of a server. `founds`: it founds the ensemble, so its data directory may be empty."""
        self.impaired = not founds
        if script.knobs.zookeeper_servers and self.ours:
            self.software = "zab"
        text = configuration(self.data, self._addresses, self.sid, members, script, pace, founds=founds)
        self._prepare("zab", text, self._addresses.names(self.sid, servers), mutant)

    def __str__(self) -> str:
        return f"{super().__str__()} ({self.software})" if self.software else super().__str__()

    def _empty(self) -> None:
        super()._empty()
        (self.data / "myid").write_text(f"{self.sid}\n")

    def _forget(self) -> None:
        self.role = None

    def _read(self, line: str) -> None:
        try:
            logged = json.loads(line)
        except ValueError:
            logged = None
        if not isinstance(logged, dict):
            if line.startswith("Traceback"):
                self.tracebacks.append(line)
            return
        if "traceback" in logged:
            self.tracebacks.append(f"{logged.get('event')}: {str(logged['traceback']).splitlines()[-1]}")
        if logged.get("event") == "role" and self.up:
            leader = str(logged.get("leader"))
            self.role = RoleSeen(
                str(logged["state"]),
                int(logged["epoch"]),
                int(leader) if leader.isdigit() else None,
                str(logged["serving"]) == "True",
            )
            if self.role.serving and not self.role.leads:
                self.impaired = False  # a leader has synchronized it
        elif logged.get("event") == "membership" and self.up:
            self.voters = tuple(json.loads(str(logged.get("voters"))))
        self._notify(self, logged)

    def state(self) -> str:
        role = self.role
        if not self.up:
            return f"{self.sid} down"
        if role is None:
            return f"{self.sid} starting"
        leader = f" {role.leader}" if role.leader not in (None, self.sid) else ""
        return f"{self.sid} {role.state.lower()}{leader} in epoch {role.epoch}, serving {role.serving}"

    @property
    def leads(self) -> bool:
        return self.up and self.role is not None and self.role.leads

    @property
    def serves(self) -> bool:
        return self.up and not self.paused and self.role is not None and self.role.serving

    def serves_under(self, leader: int) -> bool:
        return self.serves and self.role is not None and self.role.leader == leader

    # -- its disk and its configuration ----------------------------------------------------------------

    def lose_disk(self) -> None:
        super().lose_disk()
        self.set("db.autocreate", "false")

    def copy_disk(self) -> Path:
        """Copy the disk at one instant, with the process stopped."""
        copy = self.folder / "kept" / f"copy-{self.starts}-{len(self.last_lines)}"
        process = None if self.paused else self._process
        if process is not None:
            process.send_signal(signal.SIGSTOP)
        try:
            shutil.copytree(self.data, copy, dirs_exist_ok=True)
        finally:
            if process is not None:
                process.send_signal(signal.SIGCONT)
        return copy

    def put_back(self, copy: Path) -> None:
        """Replace the disk by the copy while the server is down."""
        shutil.move(self.data, self.folder / "kept" / f"lost-{self.starts}")
        shutil.move(copy, self.data)

    def files(self) -> list[Path]:
        """Return the files of the store, without the lock and those of the server's identity."""
        return sorted(
            path for path in self.data.iterdir() if path.is_file() and path.name not in ("lock", "myid", "identity")
        )

    def set(self, key: str, value: object) -> None:
        """Change a value in the configuration for the next start."""
        lines = [f"{key}={value}" if line.startswith(f"{key}=") else line for line in self._lines()]
        self.config.write_text("\n".join(lines) + "\n")

    def setting(self, key: str) -> str:
        return next(line.partition("=")[2] for line in self._lines() if line.startswith(f"{key}="))

    def _lines(self) -> list[str]:
        return self.config.read_text().splitlines()
