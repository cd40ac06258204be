"""Measure a command with all of its processes: wall time, CPU time, and peak memory."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

LOOK_S: Final = 0.2
"""A process that lives for less than this may be missed, and so may the last moments of any."""
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_TICK: Final = os.sysconf("SC_CLK_TCK")


@frozen
class Footprint:
    code: int
    wall_s: float
    cpu_s: float
    """CPU time of all processes, user and system."""
    rss_mib: float
    """Memory of all processes at one moment. Shared memory counts for each process, so the real value is lower."""
    processes: int
    """At once."""


@frozen
class Seen:
    """One process of a session, at one moment."""

    pid: int
    began: int
    ticks: int
    pages: int


def of_session(leader: int) -> list[Seen]:
    """Return all processes of the session's leader, with their descendants."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[3]) == leader:
            found.append(Seen(int(entry), int(fields[19]), int(fields[11]) + int(fields[12]), int(fields[21])))
    return found


def measured(
    command: Sequence[str], log: Path, look: Callable[[float, float], None] = lambda seconds, rss_mib: None
) -> Footprint:
    """Run it to its end. What it says goes to `log`. `look` is told now and then how long it has taken and how much
    memory it has; if it raises, the command is over."""
    ticks: dict[tuple[int, int], int] = {}
    pages = processes = 0
    began = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            while True:
                seen = of_session(process.pid)
                ticks |= {(each.pid, each.began): each.ticks for each in seen}
                now = sum(each.pages for each in seen)
                pages = max(pages, now)
                look(time.monotonic() - began, now * _PAGE / (1 << 20))
                processes = max(processes, len(seen))
                try:
                    code = process.wait(LOOK_S)
                    break
                except subprocess.TimeoutExpired:
                    continue
        finally:
            process.kill()
            process.wait()
    wall_s = time.monotonic() - began
    return Footprint(code, wall_s, sum(ticks.values()) / _TICK, pages * _PAGE / (1 << 20), processes)
