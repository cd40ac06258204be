"""The other process: it loads the file that defines the machine, and applies the same transactions.

Every campaign starts such a process, so it imports nothing else of the harness.
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
"""A day, an hour, a minute and a second, so that every part of the time differs."""
_CLOCKS: Final = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
"""The clocks of `time` that have a name of their own. Each has a twin that counts nanoseconds."""
CHILD: Final = "ZAB_HARNESS_ELSEWHERE"


class Called(BaseException):
    """The file starts a campaign when it is loaded. All names above that line are defined by then."""


@contextmanager
def loading() -> Iterator[None]:
    """Let a campaign at the top level of a file raise `Called`, as in the other process."""
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
    """Return the result as text, or None if the text contains an address in memory."""
    text = repr(result)
    return None if " at 0x" in text else text


def _shifted(clock_ns: Callable[..., int]) -> Callable[..., int]:
    return lambda *which: clock_ns(*which) + SHIFT_S * 1_000_000_000


def _in_seconds(clock_ns: Callable[..., int]) -> Callable[..., float]:
    return lambda *which: clock_ns(*which) / 1e9


def shift_clock() -> None:
    """Shift every clock of the standard library, so that a machine that reads one returns other results here."""
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
    job = json.loads(sys.stdin.read())
    shift_clock()
    with open(job["file"]) as file:
        code = compile(file.read(), job["file"], "exec")
    names: dict[str, Any] = {"__name__": "__elsewhere__", "__file__": job["file"]}
    try:
        exec(code, names)
    except Called:
        pass
    made: Any = names
    for part in job["name"].split("."):
        made = made[part] if isinstance(made, dict) else getattr(made, part)
    machine = made()
    results = [
        shown(machine.apply(Zxid(1 << 32 | number), bytes.fromhex(txn)))
        for number, txn in enumerate(job["txns"], start=1)
    ]
    state = [bytes(chunk).hex() for chunk in machine.snapshot()] if job["state"] else None
    sys.stdout.write("\n" + json.dumps([results, state]) + "\n")
