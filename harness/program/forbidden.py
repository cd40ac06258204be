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
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, Final, Protocol, TypeVar

import trio
from attrs import frozen

from harness.worlds.stack.scheduler import OWNER

T = TypeVar("T")

_CLOCK: Final = "trio.current_time(), or node.wall_time() for the date"
_RANDOM: Final = "node.random"
_THREAD: Final = "a task of a Trio nursery"
_NETWORK: Final = "node.session() for the store, and node.listen() and node.dial() for other nodes"
_PROCESS: Final = "a coroutine, or call it outside of the simulated program"

_OURS: Final = frozenset({"harness", "zab"})
_RUNTIME: Final = _OURS | {"trio", "logging", "outcome", "linecache", "traceback"}
"""The libraries that may use clocks and random numbers, because these have no effect on the run."""
_STANDARD: Final = frozenset(sys.stdlib_module_names)


class ForbiddenCall(Exception):
    """A node called something that is not simulated, so that no run would be repeatable."""


class WatchedNode(Protocol):
    """The part of a node's process that the replaced functions use."""

    entropy: Random
    """The source of `os.urandom` in the tasks of the node."""

    def forbid(self, error: ForbiddenCall) -> None:
        """End the run, also if the program catches the error."""


@frozen
class _Patch:
    owner: Any
    name: str
    replacement: Any


def _node() -> WatchedNode | None:
    """Return the node to which the running task belongs; None outside of nodes."""
    found: Any = OWNER.get(None)
    return found if hasattr(found, "forbid") else None


def _root(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _culprit(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of the user; None if only libraries are on the stack."""
    skipped = _STANDARD | _RUNTIME
    while frame is not None:
        root = _root(frame)
        if root not in skipped or root == "__main__":
            return frame
        frame = frame.f_back
    return None


def check(call: str, instead: str, exempt: frozenset[str] = _RUNTIME) -> None:
    """Raise `ForbiddenCall` if the caller of the replaced function belongs to a node of the user."""
    node = _node()
    if node is None:
        return
    frame = sys._getframe(2)
    if _root(frame) in exempt:
        return
    culprit = _culprit(frame)
    if culprit is None:
        return
    file, line = Path(culprit.f_code.co_filename).name, culprit.f_lineno
    error = ForbiddenCall(
        f"{file}:{line} calls {call} in {culprit.f_code.co_name}: a simulated program must not. Use {instead}"
    )
    node.forbid(error)
    raise error


def _guarded(real: Callable[..., Any], call: str, instead: str, exempt: frozenset[str] = _RUNTIME) -> Any:
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


def _patches() -> list[_Patch]:
    found = [
        _Patch(time, name, _guarded(getattr(time, name), f"time.{name}()", _CLOCK))
        for name in (
            "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time",
            "process_time_ns",
        )
    ]  # fmt: skip
    found += [
        _Patch(time, name, _guarded_without_arguments(getattr(time, name), f"time.{name}()", _CLOCK))
        for name in ("localtime", "gmtime", "ctime")
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
        _Patch(
            trio.to_thread, "run_sync", _guarded(trio.to_thread.run_sync, "trio.to_thread.run_sync()", _THREAD, _OURS)
        ),
        _Patch(threading.Thread, "start", _guarded(threading.Thread.start, "threading.Thread.start()", _THREAD)),
        _Patch(socket.socket, "__init__", _guarded(socket.socket.__init__, "socket.socket()", _NETWORK, _OURS)),
        _Patch(socket, "getaddrinfo", _guarded(socket.getaddrinfo, "socket.getaddrinfo()", _NETWORK, _OURS)),
        _Patch(
            subprocess.Popen, "__init__", _guarded(subprocess.Popen.__init__, "subprocess.Popen()", _PROCESS, _OURS)
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
    skipped = (_STANDARD | _RUNTIME) - {"__main__"}
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
