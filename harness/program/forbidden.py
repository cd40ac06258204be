"""Calls that a simulated program must not make, because their results are not a function of the seed.

While a run lasts, these calls are replaced. A call in a task of a node raises `ForbiddenCall`, which names the call,
its line and the alternative, and ends the run, also if the program catches the error. Calls of the libraries that run
the program (Trio, zab, logging) and calls outside of nodes work as usual. `os.urandom`, and so `uuid.uuid4` and
`secrets`, are not forbidden: in a node they return bytes of a seeded generator.

Modules may have imported a function by its name, so the names in all modules of the user are replaced, too.
"""

from __future__ import annotations

import datetime as dt
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final, TypeVar

import trio
from attrs import frozen

import zab
from harness.program import culprit
from harness.program.culprit import RUNTIME, STANDARD
from harness.worlds.stack.scheduler import OWNER

T = TypeVar("T")

_CLOCK: Final = "trio.current_time(), or node.wall_time() for the date"
_RANDOM: Final = "node.random"
_THREAD: Final = "a task of a Trio nursery"
_NETWORK: Final = "node.session() for the store, and node.listen() and node.dial() for other nodes"
_PROCESS: Final = "a coroutine, or call it outside of the simulated program"

_NONE: Final[frozenset[str]] = frozenset()
_FILES: Final = "node.disk for what survives a kill"

_THREADS: Final = {
    "trio._path": ("a method of trio.Path, which uses a thread and real files", _FILES),
    "trio._file_io": ("trio.open_file(), which uses a thread and real files", _FILES),
}
"""The functions of Trio that run in a thread, by their module, and the alternative."""
_REAL: Final = {
    "connect": ("zab.connect(), which needs a real network", "node.session() or node.connect()"),
    "open_store": ("zab.open_store(), which uses threads and real files", "node.session() for the simulated store"),
    "open_member": ("zab.open_member(), which uses threads and real files", "harness.campaign for a state machine"),
}
"""The functions of zab that leave the simulation, and the alternative."""


class ForbiddenCall(Exception):
    """A node called something that is not simulated, so that no run would be repeatable."""


@frozen
class _Patch:
    owner: Any
    name: str
    replacement: Any


def _node() -> Any | None:
    """Return the node to which the running task belongs; None outside of nodes."""
    found: Any = OWNER.get(None)
    return found if hasattr(found, "forbid") else None


def check(call: str, instead: str, exempt: frozenset[str] = RUNTIME) -> None:
    """Raise `ForbiddenCall` if the caller of the replaced function belongs to a node of the user."""
    node = _node()
    if node is None:
        return
    frame = sys._getframe(2)
    if culprit.root_of(frame) in exempt:
        return
    place = culprit.of_frame(frame) or culprit.of_starters(trio.lowlevel.current_task())
    if place is None:
        return
    error = ForbiddenCall(f"{place} calls {call}: a simulated program must not. Use {instead}")
    node.forbid(error)
    raise error


def _guarded(real: Callable[..., Any], call: str, instead: str, exempt: frozenset[str] = RUNTIME) -> Any:
    def guard(*arguments: Any, **named: Any) -> Any:
        check(call, instead, exempt)
        return real(*arguments, **named)

    return guard


def _guarded_without_arguments(real: Callable[..., Any], call: str, instead: str) -> Any:
    """Guard a function that reads the clock, or draws a seed, only if it has no argument."""

    def guard(*arguments: Any) -> Any:
        if not [each for each in arguments if each is not None and not isinstance(each, Random)]:
            check(call, instead)
        return real(*arguments)

    return guard


def _guarded_with_fewer(real: Callable[..., Any], least: int, call: str, instead: str) -> Any:
    """Guard a function that reads the clock only if it has fewer arguments than `least`."""

    def guard(*arguments: Any) -> Any:
        if len(arguments) < least:
            check(call, instead)
        return real(*arguments)

    return guard


def _guarded_thread(real: Callable[..., Any]) -> Any:
    """Guard `trio.to_thread.run_sync`, and name the function of Trio that calls it."""

    def guard(*arguments: Any, **named: Any) -> Any:
        caller = str(sys._getframe(1).f_globals.get("__name__"))
        call, instead = _THREADS.get(caller, ("trio.to_thread.run_sync()", _THREAD))
        check(call, instead, _NONE)
        return real(*arguments, **named)

    return guard


def _bytes(real: Callable[[int], bytes]) -> Callable[[int], bytes]:
    def urandom(size: int, /) -> bytes:
        node = _node()
        return real(size) if node is None else node.entropy.randbytes(size)

    return urandom


def _dates() -> list[_Patch]:
    """Return replacements for the classes whose methods read the clock."""

    class Same(type):
        """Makes objects of the real class instances of the replacement."""

        real: type

        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, cls.real)

        def __subclasscheck__(cls, kind: type) -> bool:
            return issubclass(kind, cls.real)

    def replaced(real: Any, methods: tuple[str, ...]) -> Any:
        name = f"datetime.{real.__name__}"

        def reads(method: str) -> Any:
            def guard(cls: type, *arguments: Any, **named: Any) -> Any:
                check(f"{name}.{method}()", _CLOCK)
                return getattr(real, method)(*arguments, **named)

            return classmethod(guard)

        def make(cls: type, *arguments: Any, **named: Any) -> Any:
            return real(*arguments, **named)

        body = {method: reads(method) for method in methods}
        return Same(real.__name__, (real,), {**body, "real": real, "__new__": make, "__module__": "datetime"})

    return [
        _Patch(dt, "datetime", replaced(dt.datetime, ("now", "utcnow", "today"))),
        _Patch(dt, "date", replaced(dt.date, ("today",))),
    ]


def _threads() -> list[_Patch]:
    """Return replacements for `trio.to_thread.run_sync` wherever Trio has it."""
    real = trio.to_thread.run_sync
    guard = _guarded_thread(real)
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "trio"]
    return [
        _Patch(module, name, guard) for module in modules for name, value in list(vars(module).items()) if value is real
    ]


def _patches() -> list[_Patch]:
    found = [
        _Patch(time, name, _guarded(getattr(time, name), f"time.{name}()", _CLOCK))
        for name in (
            "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time",
            "process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns",
        )
    ]  # fmt: skip
    found += [
        _Patch(time, name, _guarded_without_arguments(getattr(time, name), f"time.{name}()", _CLOCK))
        for name in ("localtime", "gmtime", "ctime")
    ]
    found += [
        _Patch(time, name, _guarded_with_fewer(getattr(time, name), least, f"time.{name}() without a time", _CLOCK))
        for name, least in (("strftime", 2), ("asctime", 1))
    ]
    found.append(_Patch(time, "sleep", _guarded(time.sleep, "time.sleep()", "await trio.sleep()")))
    shared = vars(random)["_inst"]
    found += [
        _Patch(random, name, _guarded(value, f"random.{name}()", _RANDOM))
        for name, value in vars(random).items()
        if getattr(value, "__self__", None) is shared and not name.startswith("_")
    ]
    seeded = "node.random, or random.Random(seed) with a seed of your own"
    found.append(
        _Patch(
            Random, "__init__", _guarded_without_arguments(Random.__init__, "random.Random() without a seed", seeded)
        )
    )
    found += [_Patch(os, "urandom", _bytes(os.urandom)), _Patch(random, "_urandom", _bytes(os.urandom))]
    found += [
        *_threads(),
        *(_Patch(zab, name, _guarded(getattr(zab, name), *words)) for name, words in _REAL.items()),
        _Patch(threading.Thread, "start", _guarded(threading.Thread.start, "threading.Thread.start()", _THREAD)),
        _Patch(socket.socket, "__init__", _guarded(socket.socket.__init__, "socket.socket()", _NETWORK, _NONE)),
        _Patch(socket, "getaddrinfo", _guarded(socket.getaddrinfo, "socket.getaddrinfo()", _NETWORK, _NONE)),
        _Patch(
            subprocess.Popen, "__init__", _guarded(subprocess.Popen.__init__, "subprocess.Popen()", _PROCESS, _NONE)
        ),
        _Patch(os, "system", _guarded(os.system, "os.system()", _PROCESS)),
        _Patch(os, "fork", _guarded(os.fork, "os.fork()", _PROCESS)),
    ]
    return found + _dates()


_PATCHES: list[_Patch] = []
_IMPORTED: dict[int, list[_Patch]] = {}
"""The names that modules of the user have imported, by the number of loaded modules."""


def _imported() -> list[_Patch]:
    """Return replacements of names in modules that are neither of Python nor of the runtime."""
    known = _IMPORTED.get(len(sys.modules))
    if known is not None:
        return known
    skipped = (STANDARD | RUNTIME) - {"__main__"}
    by_id = {
        id(getattr(each.owner, each.name)): each.replacement for each in _PATCHES if not isinstance(each.owner, type)
    }
    found = []
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] in skipped or not hasattr(module, "__dict__"):
            continue
        for name, value in list(vars(module).items()):
            if id(value) in by_id and not name.startswith("__"):
                found.append(_Patch(module, name, by_id[id(value)]))
    _IMPORTED.clear()
    _IMPORTED[len(sys.modules)] = found
    return found


@contextmanager
def guarded() -> Iterator[None]:
    """Replace the functions inside the block."""
    if not _PATCHES:
        _PATCHES.extend(_patches())
    undo: list[tuple[Any, str, Any]] = []
    try:
        for each in [*_imported(), *_PATCHES]:
            undo.append((each.owner, each.name, vars(each.owner)[each.name]))
            setattr(each.owner, each.name, each.replacement)
        yield
    finally:
        for owner, name, value in reversed(undo):
            setattr(owner, name, value)
