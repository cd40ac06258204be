"""Clients of the store who watch, and are away for just the moment in which what they watch changes once.

Who is back names its watches and what it has seen, and is told what it has missed. That is easily wrong by one, and
only where the very next transaction was the change, and the last one of that node until the client was back. So others
do little in these moments.
"""

from __future__ import annotations

from typing import Final

from attrs import evolve

from harness.faults import Ask, Connect, Op, Script, Step, Vanish
from harness.script.chance import Draw
from harness.script.kinds import PARENTS

SHARE: Final = 0.25
"""Of all scripts with several clients."""
BEFORE_MS: Final = 30
BEHIND_MS: Final = 80
"""So long before and after it nobody else asks anything."""
MOMENTS_MAX: Final = 3


def with_absences(draw: Draw, script: Script) -> Script:
    clients = sorted({op.client for op in script.ops if isinstance(op, Connect)})
    room = script.length_ms - BEHIND_MS - 200
    begin = 300 + BEFORE_MS
    if len(clients) < 2 or room <= begin or not draw.chance(SHARE):
        return script
    ops = list(script.ops)
    for _ in range(draw.upto(1, MOMENTS_MAX)):
        who = clients[draw.upto(0, len(clients) - 1)]
        others = [client for client in clients if client != who]
        moment = _moment(draw, draw.upto(begin, room), who, others[draw.upto(0, len(others) - 1)])
        first, last = moment[0].at - BEFORE_MS, moment[-1].at + BEHIND_MS
        ops = [op for op in ops if not (isinstance(op, Ask) and first <= op.at <= last)] + moment
    kept = sorted(ops, key=lambda op: op.at)
    return evolve(script, ops=tuple(kept[: len(script.ops)]))


def _moment(draw: Draw, at: int, who: int, other: int) -> list[Op]:
    parent = PARENTS[draw.upto(0, len(PARENTS) - 1)]
    watch, change = (
        (Step("children", parent, watch="once"), Step("create", f"{parent}/s-", mode="sequential")),
        (Step("get", parent, watch="once"), Step("set", parent)),
    )[draw.upto(0, 1)]
    gone = at + draw.short(10, 60)
    away_ms = draw.upto(15, 60)
    return [Ask(at, who, (watch,)), Vanish(gone, away_ms, who), Ask(gone + draw.upto(1, 5), other, (change,))]
