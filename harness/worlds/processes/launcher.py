"""Starts a server in an environment with faults: `python -m harness.worlds.processes.launcher LAUNCH.json CONFIG`.

It runs the shipped `zab serve CONFIG` or `zab-broker serve CONFIG`, and patches the functions below it. Names of
servers resolve to addresses of this run, different ones for each server, so that every link has a proxy of its own
while all configurations are the same. The run makes the disk slow, full or fail through a few bytes of shared memory.
Deleted log files are linked into another folder. A mutant is planted if the run asks for one. The server ends when its
parent process ends.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from struct import Struct
from typing import Any, Final

from attrs import astuple, evolve, frozen

_STATE: Final = Struct("<IIIq")
PROGRAMS: Final = {
    "zab": ("zab.cli", ("serve", "{config}", "--log-format", "json")),
    "zab-broker": ("replica.cli", ("serve", "{config}")),
    "broker-without-data": ("harness.worlds.processes.controllers.broker", ()),
}
"""The module of each program, and the arguments of its main function."""
FAILURES: Final = {"": 0, "write": 1, "fsync": 2, "full": 3, "read": 4}


@frozen
class FaultState:
    """The current faults of the environment of a server."""

    slow_us: int = 0
    """The delay of each sync."""
    failure: int = 0
    """The kind of calls that fail, a value of `FAILURES`."""
    left: int = 0
    """The number of calls that succeed before the first failure."""
    wall_ms: int = 0
    """The error of the wall clock."""


class FaultControl:
    """The shared memory through which a run controls the faults of a server."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_STATE.size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _STATE.size)

    def read(self) -> FaultState:
        return FaultState(*_STATE.unpack(self._memory))

    def write(self, state: FaultState) -> None:
        self._memory[:] = _STATE.pack(*astuple(state))

    def change(self, **state: int) -> None:
        self.write(evolve(self.read(), **state))

    def close(self) -> None:
        self._memory.close()


class Disk:
    """Patches the functions of `os` that the storage calls."""

    def __init__(self, fault_control: FaultControl, kept: Path) -> None:
        self._fault_control = fault_control
        self._kept = kept
        self._number = 0

    def install(self) -> None:
        system: Any = os
        for name, failures in (("pwrite", ("write", "full")), ("posix_fallocate", ("full",)), ("pread", ("read",))):
            setattr(system, name, self._failing(getattr(os, name), failures))
        for name in ("fsync", "fdatasync"):
            setattr(system, name, self._syncing(getattr(os, name)))
        system.unlink = self._keeping(os.unlink)

    def _fail(self, failures: tuple[str, ...]) -> None:
        state = self._fault_control.read()
        if state.failure not in [FAILURES[each] for each in failures]:
            return
        if state.left > 0:
            self._fault_control.change(left=state.left - 1)
        elif state.failure == FAILURES["full"]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        else:
            self._fault_control.change(failure=0)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _failing(self, call: Callable[..., Any], failures: tuple[str, ...]) -> Callable[..., Any]:
        def called(*arguments: Any, **options: Any) -> Any:
            self._fail(failures)
            return call(*arguments, **options)

        return called

    def _syncing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            slow_us = self._fault_control.read().slow_us
            if slow_us:
                time.sleep(slow_us / 1e6)
            self._fail(("fsync",))
            return call(*arguments)

        return called

    def _keeping(self, call: Callable[..., None]) -> Callable[..., None]:
        def called(path: Any, *, dir_fd: int | None = None) -> None:
            if dir_fd is not None and str(path).startswith("log."):
                folder = self._kept / f"{os.getpid()}-{self._number}"
                self._number += 1
                folder.mkdir(parents=True)
                os.link(path, folder / str(path), src_dir_fd=dir_fd)
            call(path, dir_fd=dir_fd)

        return called


def replace_names(addresses: dict[str, str]) -> None:
    """Resolve these names like a hosts file that only this process has."""
    ask: Callable[..., Any] = socket.getaddrinfo

    def asked(host: Any, *arguments: Any, **options: Any) -> Any:
        return ask(addresses.get(host, host), *arguments, **options)

    system: Any = socket
    system.getaddrinfo = asked


def replace_wall_clock(fault_control: FaultControl) -> None:
    """Add the error that the run sets to the wall clock. The monotonic clock, which timeouts use, stays correct."""
    now, now_ns = time.time, time.time_ns
    system: Any = time
    system.time = lambda: now() + fault_control.read().wall_ms / 1e3
    system.time_ns = lambda: now_ns() + fault_control.read().wall_ms * 1_000_000


def die_with_parent() -> None:
    """Kill this process at the end of stdin, read in a thread: the pipe closes when the parent ends in any way."""

    def wait() -> None:
        os.read(sys.stdin.fileno(), 1)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def main(path: str, config: str) -> None:
    launch = json.loads(Path(path).read_text())
    die_with_parent()
    replace_names(launch["names"])
    fault_control = FaultControl(Path(launch["fault_control"]))
    replace_wall_clock(fault_control)
    Disk(fault_control, Path(launch["kept"])).install()
    with ExitStack() as stack:
        if launch["mutant"]:
            from harness.mutants.edit import planted
            from harness.mutants.table import BY_NAME

            stack.enter_context(planted(BY_NAME[launch["mutant"]].edits))
        module, arguments = PROGRAMS[launch["program"]]
        sys.argv = [launch["program"], *(each.format(config=config) for each in arguments)]
        if launch["program"] == "broker-without-data":
            sys.argv += Path(config).read_text().split()
        sys.exit(import_module(module).main())  # import it after the mutant was planted


if __name__ == "__main__":
    main(*sys.argv[1:])
