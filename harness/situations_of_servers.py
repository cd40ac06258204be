"""What is asked of servers, and what is done to them, in the profiles whose moments must fit each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from harness.faults import (
    LEADER,
    Barrier,
    Clog,
    Crash,
    CutLinks,
    Fault,
    Isolate,
    LoseDisk,
    OneWay,
    Op,
    Partition,
    Reconfigure,
    Write,
)
from harness.script.chance import Draw

# -- groups of servers -----------------------------------------------------------------------------------


def groups_of_voters(draw: Draw) -> dict[str, Any]:
    """Two groups or more, and in some runs some of their servers count more than others, or nothing."""
    sids = list(range(1, draw.voters + 1))
    draw.random.shuffle(sids)
    count = min(len(sids), draw.upto(2, 4))
    groups: list[list[int]] = [[] for _ in range(count)]
    for place, sid in enumerate(sids):
        groups[place if place < count else draw.upto(0, count - 1)].append(sid)
    weights = tuple(draw.upto(0, 3) for _ in sids) if draw.chance(0.4) else ()
    if not any(weights):
        weights = ()
    return {"groups": tuple(tuple(sorted(group)) for group in groups), "weights": weights}


def some_without_the_others(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """They fall apart anyhow: often some of them are a quorum by their number and not by their groups, or only so."""
    lasts = draw.upto(100, gap)
    share = draw.random.random()
    if share < 0.6:
        return (Partition(at, lasts, draw.groups()),)
    if share < 0.8:
        return Isolate(at, lasts, LEADER), Isolate(at + draw.upto(0, 50), lasts, draw.upto(1, draw.servers))
    return (Crash(at, lasts, LEADER if draw.chance(0.5) else draw.upto(1, draw.servers), "keep"),)


# -- a link in the place of another one ------------------------------------------------------------------

TURN_MS: Final = 500
"""So often somebody's link is replaced, whoever's turn it is."""
ASKING_MS: Final = 120


def _whose(draw: Draw, turn: int) -> int:
    return 1 + turn // TURN_MS % draw.voters


def replaced(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """A follower asks, and its link breaks, which its leader does not hear before it is there again and asks again.
    What others have acknowledged arrives meanwhile, and what would prove that there is no newer leader does not.
    """
    turn = (at // TURN_MS + 1) * TURN_MS
    who = _whose(draw, turn)
    breaks = turn + draw.upto(4, 11)
    silent = turn + draw.upto(0, 10)
    lasts = draw.upto(60, ASKING_MS)
    others = [sid for sid in range(1, draw.servers + 1) if sid != who]
    return (
        CutLinks(turn - 150, who),  # so that its questions are counted from the first one on
        OneWay(breaks, draw.upto(3, 6), who, LEADER),
        CutLinks(breaks, who) if draw.chance(0.7) else Crash(breaks, 1, who, "keep"),
        *(Clog(silent, lasts, sid, LEADER) for sid in others),
    )


def questions_of_one(draw: Draw, length_ms: int) -> Sequence[Op]:
    ops: list[Op] = [Write(at, 1, 8) for at in range(200, length_ms, 3)]
    for turn in range(TURN_MS, length_ms, TURN_MS):
        who = _whose(draw, turn)
        ops += [Barrier(at, who) for at in range(turn, min(length_ms, turn + ASKING_MS), 2)]
    return ops


# -- members that change unseen --------------------------------------------------------------------------

CHANGE_MS: Final = 400
"""So often a voter is made an observer, or one again."""


def changes_unseen(draw: Draw, length_ms: int) -> Sequence[Op]:
    ops: list[Op] = [Write(at, 1, 8) for at in range(200, length_ms, 12)]
    for number, at in enumerate(range(2 * CHANGE_MS, length_ms, CHANGE_MS)):
        ops.append(Reconfigure(at, ("observe", "promote")[number % 2], 1))
    return ops


def hidden(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """Who only watches is back from where it was when the members change: it has found its leader, who has not told it
    what it lacks. When it does, a snapshot hides the change.
    """
    changes = (at // CHANGE_MS + 1) * CHANGE_MS
    gone = changes - draw.upto(120, 250)
    back = changes - draw.upto(0, 30)
    faults: list[Fault] = [Crash(gone, back - gone, draw.voters + 1, "keep")]
    if draw.chance(0.3):
        faults.append(Crash(changes + draw.upto(0, 100), draw.upto(1, 100), LEADER, "keep"))
    return faults


# -- changes that only their leader has -------------------------------------------------------------------


def proposed_alone(draw: Draw, length_ms: int) -> Sequence[Op]:
    """A voter more or less, again and again; writes follow, so that what stays pending goes into force."""
    ops: list[Op] = [Write(at, 1, 8) for at in range(200, length_ms, 12)]
    watches = draw.voters + 1
    for at in range(2 * CHANGE_MS, length_ms, CHANGE_MS):
        ops += [Reconfigure(at, change, watches) for change in ("promote", "remove", "add")]
    return ops


def leader_cut_off(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """The leader is isolated around its proposal, and back when another leader has what the change is not in."""
    changes = (at // CHANGE_MS + 1) * CHANGE_MS
    return (Isolate(changes - draw.upto(0, 3), draw.upto(120, 300), LEADER),)


def leader_replaced(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """The leader is isolated around its proposal, for so long that the others have purged the logs before it."""
    changes = (at // CHANGE_MS + 1) * CHANGE_MS
    return (Isolate(changes - draw.upto(0, 3), draw.upto(300, 390), LEADER),)


# -- who is healed while the members change ----------------------------------------------------------------


def healed_meanwhile(draw: Draw, at: int, gap: int) -> Sequence[Fault]:
    """Somebody is back without its disk, and changes are under way: what others say of them takes its time."""
    who = draw.upto(1, draw.voters)
    back = at + draw.upto(20, 60)
    others = [sid for sid in range(1, draw.voters + 1) if sid != who]
    return (LoseDisk(at, back - at, who), *(Clog(back, draw.upto(20, 90), sid, LEADER) for sid in others))


def changes_all_the_time(draw: Draw, length_ms: int) -> Sequence[Op]:
    """One server more votes, and less again."""
    ops: list[Op] = [Write(at, 1, 8) for at in range(200, length_ms, draw.upto(4, 10))]
    watches = draw.voters + 1
    for number, at in enumerate(range(300, length_ms, draw.upto(25, 60))):
        ops.append(Reconfigure(at, ("remove", "add")[number % 2], watches))
    return ops
