"""What the other process does: load the file that defines the machine, and tell it the same transactions.

It loads nothing of the harness that the file does not ask for: it is begun with every campaign.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from zab.core.zxid import Zxid

SHIFT_S: Final = 86_400 + 3_600 + 60 + 1
"""A day, an hour, a minute and a second: whatever part of the time a machine uses, it is another one."""
_CLOCKS: Final = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
"""The clocks of `time` that have a name of their own. Each has a twin that counts nanoseconds."""
CHILD: Final = "ZAB_HARNESS_ELSEWHERE"


class Called(BaseException):
    """The file runs a campaign when it is loaded. All that stands above is defined by then."""


@contextmanager
def loading() -> Iterator[None]:
    """Let a campaign at the top of a file raise `Called`, as in the other process."""
    before = os.environ.get(CHILD)
    os.environ[CHILD] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[CHILD]
        else:
            os.environ[CHILD] = before


def shown(result: object) -> str | None:
    """None where the text says where in memory something is."""
    text = repr(result)
    return None if " at 0x" in text else text


def _shifted(clock_ns: Callable[..., int]) -> Callable[..., int]:
    return lambda *which: clock_ns(*which) + SHIFT_S * 1_000_000_000


def _in_seconds(clock_ns: Callable[..., int]) -> Callable[..., float]:
    return lambda *which: clock_ns(*which) / 1e9


def shift_clock() -> None:
    """Let every clock of the standard library be wrong, so that a machine that reads one makes something else here."""
    real_local, real_utc, real_format, real_text = time.localtime, time.gmtime, time.strftime, time.asctime
    patched: Any = time
    for name in _CLOCKS:
        setattr(patched, f"{name}_ns", _shifted(getattr(time, f"{name}_ns")))
        setattr(patched, name, _in_seconds(getattr(time, f"{name}_ns")))
    patched.clock_gettime_ns = _shifted(time.clock_gettime_ns)
    patched.clock_gettime = _in_seconds(time.clock_gettime_ns)
    patched.localtime = lambda seconds=None: real_local(time.time() if seconds is None else seconds)
    patched.gmtime = lambda seconds=None: real_utc(time.time() if seconds is None else seconds)
    patched.strftime = lambda form, at=None: real_format(form, time.localtime() if at is None else at)
    patched.asctime = lambda at=None: real_text(time.localtime() if at is None else at)
    patched.ctime = lambda seconds=None: real_text(time.localtime(seconds))

    class Shifted(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Shifted:
            return cls.fromtimestamp(time.time(), tz)

        @classmethod
        def utcnow(cls) -> Shifted:
            return cls.fromtimestamp(time.time(), dt.UTC).replace(tzinfo=None)

        @classmethod
        def today(cls) -> Shifted:
            return cls.now()

    class ShiftedDate(dt.date):
        @classmethod
        def today(cls) -> ShiftedDate:
            return cls.fromtimestamp(time.time())

    dt.datetime, dt.date = Shifted, ShiftedDate  # type: ignore[misc]


def main() -> None:
    asked = json.loads(sys.stdin.read())
    shift_clock()
    with open(asked["file"]) as file:
        code = compile(file.read(), asked["file"], "exec")
    names: dict[str, Any] = {"__name__": "__elsewhere__", "__file__": asked["file"]}
    try:
        exec(code, names)
    except Called:
        pass
    made: Any = names
    for part in asked["name"].split("."):
        made = made[part] if isinstance(made, dict) else getattr(made, part)
    machine = made()
    told = [
        shown(machine.apply(Zxid(1 << 32 | number), bytes.fromhex(txn)))
        for number, txn in enumerate(asked["txns"], start=1)
    ]
    state = [bytes(chunk).hex() for chunk in machine.snapshot()] if asked["state"] else None
    sys.stdout.write("\n" + json.dumps([told, state]) + "\n")
