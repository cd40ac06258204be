"""The part of a trace that concerns a verdict.

A verdict names servers, brokers, clients, sessions, partitions and paths. Acts that involve these concern the verdict.
Faults always concern it, because they are the usual causes. Heartbeats and raw bytes never do. If a verdict also names
calls or zxids, the acts nearest to these are shown, however old they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from harness.report.diagram.words import family
from harness.trace import Act, line

_ALWAYS: Final = frozenset({"fault", "heals", "violation", "gives up"})
_RAW: Final = ("receives from",)
_SERVERS: Final = re.compile(r"\b(?:server|servers|leader)\s+\[?(\d+(?:, \d+)*)")
_NAMES: Final = re.compile(
    r"\bclient \d+\b|\b(?:broker|controller) \d+\b|\b[A-Za-z][\w.]*-\d+\b|(?<![\w/])/[A-Za-z][\w./-]*"
)
_EXACT: Final = re.compile(r"\bcall \d+\b|\b0x[0-9a-f]{6,}\b|(?<![\w/])\d+/\d+(?![\w/])")
"""Calls, and sessions and zxids in hexadecimal or as epoch/counter."""
_EPOCHS: Final = 1 << 16
"""A larger number is a session, not a zxid: no run has so many epochs."""
_AFTERWARDS: Final = 3
"""The factor by which the distance of an act after a named one is multiplied."""


def concerned(acts: Sequence[Act], what: str, most: int) -> tuple[list[Act], int]:
    """Return at most `most` acts that concern what the verdict names, in their order, and the number of all of them."""
    servers = {int(number) for found in _SERVERS.findall(what) for number in found.split(", ")}
    exactly = [spelling for name in _EXACT.findall(what) for spelling in _spellings(name)]
    sessions = [name for name in exactly if name.isdigit()]
    names = _pattern([*_NAMES.findall(what), *sessions])
    exact = _pattern([name for name in exactly if name not in sessions])
    wanted: list[Act] = []
    places: list[int] = []
    for act in acts:
        is_exact = exact is not None and _can_concern(act) and exact.search(line(act)) is not None
        if is_exact or _is_wanted(act, servers, names):
            if is_exact:
                places.append(len(wanted))
            wanted.append(act)
    if not places:
        return wanted[-most:] if most else [], len(wanted)
    nearest = sorted(range(len(wanted)), key=lambda at: min(_distance(at, place) for place in places))[:most]
    return [wanted[at] for at in sorted(nearest)], len(wanted)


def _distance(at: int, place: int) -> int:
    return place - at if at <= place else _AFTERWARDS * (at - place)


def _spellings(name: str) -> list[str]:
    """Return a call, a session or a zxid as a trace writes it: a session in decimal, a zxid as epoch/counter."""
    if not name.startswith("0x"):
        return [] if name == "0/0" else [name]
    number = int(name, 16)
    return [str(number)] if number >> 32 > _EPOCHS else [f"{number >> 32}/{number & 0xFFFF_FFFF}"]


def _pattern(names: Sequence[str]) -> re.Pattern[str] | None:
    some = "|".join(sorted(map(re.escape, set(names))))
    return re.compile(rf"(?<![\w/.-])(?:{some})(?![\w/.-])") if some else None


def _can_concern(act: Act) -> bool:
    _, _, verb, _, what = act
    return verb not in _RAW and family(verb, what) != "heartbeat"


def _is_wanted(act: Act, servers: set[int], names: re.Pattern[str] | None) -> bool:
    _, server, verb, _, _ = act
    if verb in _ALWAYS or not _can_concern(act):
        return verb in _ALWAYS
    if server in servers or (not servers and names is None):
        return True
    return names is not None and names.search(line(act)) is not None
