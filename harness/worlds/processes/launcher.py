"""The machine under one server: `python -m harness.worlds.processes.launcher LAUNCH.json CONFIG`.

It runs the shipped `zab serve CONFIG` or `zab-broker serve CONFIG`, and replaces what that finds below it. Names of
servers have addresses of this run, another set for each server, so that every link leads through a proxy of its own
while all configurations are the same. The disk is slow, fails or is full when the run says so, through a few bytes of
shared memory. Deleted files of a log are kept elsewhere. A mutant is planted, if one is asked for. The server ends
when the process that started it does.
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
"""The module of each program, and its arguments."""
FAILURES: Final = {"": 0, "write": 1, "fsync": 2, "full": 3, "read": 4}


@frozen
class FaultState:
    """How the machine behaves from now on."""

    slow_us: int = 0
    """The delay of each sync."""
    failure: int = 0
    """The calls that fail: of `FAILURES`."""
    left: int = 0
    """The number of calls before the first that fails."""
    wall_ms: int = 0
    """The error of the wall clock."""


class FaultControl:
    """Shared memory through which a run controls the machine under a server."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_STATE.size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _STATE.size)

    def read(self) -> FaultState:
        return FaultState(*_STATE.unpack(self._memory))

    def write(self, state: FaultState) -> None:
        self._memory[:] = _STATE.pack(*astuple(state))

    def change(self, **what: int) -> None:
        self.write(evolve(self.read(), **what))

    def close(self) -> None:
        self._memory.close()


class Disk:
    """Stands in front of the calls of `os` that the storage makes."""

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
    """Resolve these names as a hosts file of this process alone would."""
    ask: Callable[..., Any] = socket.getaddrinfo

    def asked(host: Any, *arguments: Any, **options: Any) -> Any:
        return ask(addresses.get(host, host), *arguments, **options)

    system: Any = socket
    system.getaddrinfo = asked


def replace_wall_clock(fault_control: FaultControl) -> None:
    """Let the wall clock be wrong as the run says. The monotonic one, by which timeouts go, stays true."""
    now, now_ns = time.time, time.time_ns
    system: Any = time
    system.time = lambda: now() + fault_control.read().wall_ms / 1e3
    system.time_ns = lambda: now_ns() + fault_control.read().wall_ms * 1_000_000


def die_with_parent() -> None:
    """Wait in a thread for the end of stdin: the parent holds the other end, and lets go of it however it ends."""

    def wait() -> None:
        os.read(sys.stdin.fileno(), 1)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def main(under: str, config: str) -> None:
    what = json.loads(Path(under).read_text())
    die_with_parent()
    replace_names(what["names"])
    fault_control = FaultControl(Path(what["fault_control"]))
    replace_wall_clock(fault_control)
    Disk(fault_control, Path(what["kept"])).install()
    with ExitStack() as stack:
        if what["mutant"]:
            from harness.mutants.edit import planted
            from harness.mutants.table import BY_NAME

            stack.enter_context(planted(BY_NAME[what["mutant"]].edits))
        module, arguments = PROGRAMS[what["program"]]
        sys.argv = [what["program"], *(each.format(config=config) for each in arguments)]
        if what["program"] == "broker-without-data":
            sys.argv += Path(config).read_text().split()
        sys.exit(import_module(module).main())  # imported after a mutant was planted


if __name__ == "__main__":
    main(*sys.argv[1:])
