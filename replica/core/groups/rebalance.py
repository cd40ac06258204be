"""From one generation of a group to the next: everybody joins anew, one of them leads, its assignment is written down.

The assignment is given to nobody before the record of it is safe: a coordinator that comes after this one must know the
generation that members act in.
"""

from __future__ import annotations

from typing import Final

from replica.core.groups.alarms import Alarm, Kind
from replica.core.groups.desk import Desk, E, group_error
from replica.core.groups.group import CONSUMER, Group, Member
from replica.core.groups.messages import Joined, Synced
from replica.core.groups.ready import Dropped, GroupRecord, NotWritten, Rebalancing
from replica.core.groups.states import Cause, GroupState, may

S = GroupState
AGAIN_MS: Final = 1_000
"""The shortest wait before the next look at a group in which only static members are left, all of them away. Members
may name any rebalance timeout, also none."""


def join_alarm(group: Group) -> Alarm:
    return Alarm(group.id, Kind.JOIN)


def sync_alarm(group: Group) -> Alarm:
    return Alarm(group.id, Kind.SYNC)


# -- it begins -------------------------------------------------------------------------------------------


def maybe_begin(desk: Desk, group: Group, cause: Cause, why: str, now: int) -> None:
    """Unless it has begun already."""
    if may(group.state, S.PREPARING_REBALANCE):
        begin(desk, group, cause, why, now)


def begin(desk: Desk, group: Group, cause: Cause, why: str, now: int) -> None:
    desk.note(Rebalancing(group.id, cause, why, group.generation))
    if group.state is S.COMPLETING_REBALANCE:
        _take_back(desk, group, E.REBALANCE_IN_PROGRESS, now)
    desk.alarms.clear(sync_alarm(group))
    group.unsynced.clear()
    group.assigning = None
    if group.state is S.EMPTY:
        # Members of a new group come one after the other, and each would rebalance those that came before.
        delay = desk.settings.group_initial_rebalance_delay_ms
        group.delay_left = max(group.rebalance_timeout_ms - delay, 0)
        group.newcomer = False
        desk.alarms.set(join_alarm(group), now + delay)
    else:
        group.delay_left = None
        desk.alarms.set(join_alarm(group), now + group.rebalance_timeout_ms)
    desk.move(group, S.PREPARING_REBALANCE, now)
    try_complete(desk, group, now)


def _take_back(desk: Desk, group: Group, error: E, now: int) -> None:
    """There will be no assignment of this generation: who waits for it is told, and nobody keeps one of before."""
    group.give({})
    for member in group.members.values():
        if member.syncing is not None:
            desk.answer(member.syncing, Synced(error))
            member.syncing = None
            desk.session(group, member, now)


# -- everybody joins -------------------------------------------------------------------------------------


def try_complete(desk: Desk, group: Group, now: int) -> None:
    """There is nobody to wait for any more. The initial delay is waited for in any case."""
    if group.state is S.PREPARING_REBALANCE and group.delay_left is None and group.everybody_joined:
        complete(desk, group, now)


def on_join_alarm(desk: Desk, group: Group, now: int) -> None:
    if group.state is not S.PREPARING_REBALANCE:
        return
    if group.newcomer and group.delay_left:
        more = min(desk.settings.group_initial_rebalance_delay_ms, group.delay_left)
        group.newcomer = False
        group.delay_left -= more
        desk.alarms.set(join_alarm(group), now + more)
        return
    complete(desk, group, now)


def complete(desk: Desk, group: Group, now: int) -> None:
    """Who has joined is in the next generation. Static members stay, too, until their session is over."""
    for member in [each for each in group.members.values() if each.joining is None and each.instance is None]:
        why = "it did not join again in time"
        desk.note(Dropped(group.id, member.id, why))
        drop(desk, group, member)
    group.delay_left = None
    if group.members and not group.elect():
        desk.alarms.set(join_alarm(group), now + max(group.rebalance_timeout_ms, AGAIN_MS))
        return
    desk.alarms.clear(join_alarm(group))
    group.generation += 1
    group.unsynced.clear()
    if group.members:
        _open(desk, group, now)
    else:
        _close(desk, group, now)


def _open(desk: Desk, group: Group, now: int) -> None:
    group.protocol = group.choose()
    group.subscribed = subscribed(desk, group)
    desk.move(group, S.COMPLETING_REBALANCE, now)
    for member in group.members.values():
        if member.joining is None:
            continue  # a static member that is away: its session goes on, and nobody waits for its sync
        member.is_new = False
        group.unsynced[member.id] = None
        answer_join(desk, group, member, now)
    desk.alarms.set(sync_alarm(group), now + group.rebalance_timeout_ms)


def _close(desk: Desk, group: Group, now: int) -> None:
    group.protocol = None
    group.leader = None
    group.subscribed = frozenset()
    desk.move(group, S.EMPTY, now)

    def done(error: E, at: int, _: int) -> None:
        if error is E.NONE:
            group.saved_at = max(group.saved_at, at)
        elif group.state is not S.DEAD:
            desk.note(NotWritten(group.id, "that nobody is in the group any more", error))

    desk.write(group.partition, (GroupRecord(group.id, group.saved({}, now)),), now, done)


def answer_join(desk: Desk, group: Group, member: Member, now: int) -> None:
    """With the generation as it is. Only its leader hears who the others are."""
    assert member.joining is not None
    desk.answer(member.joining, joined(group, member))
    member.joining = None
    desk.session(group, member, now)


def joined(group: Group, member: Member) -> Joined:
    return Joined(
        E.NONE,
        member=member.id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or "",
        members=group.entries() if group.leader == member.id else (),
    )


def subscribed(desk: Desk, group: Group) -> frozenset[str] | None:
    if group.protocol_type != CONSUMER or group.protocol is None:
        return None
    wanted: set[str] = set()
    for member in group.members.values():
        topics = desk.topics_of(member.metadata(group.protocol))
        if topics is None:
            return None
        wanted |= topics
    return frozenset(wanted)


# -- the leader's assignment -----------------------------------------------------------------------------


def assign(desk: Desk, group: Group, assignments: dict[str, bytes], now: int) -> None:
    """By the leader. Who is forgotten in it gets nothing."""
    if group.assigning == group.generation:
        return  # it asks again; what it said the first time is being written
    generation = group.assigning = group.generation
    given = {member: assignments.get(member, b"") for member in group.members}

    def done(error: E, at: int, later: int) -> None:
        if error is E.NONE:
            group.saved_at = max(group.saved_at, at)
        if group.state is not S.COMPLETING_REBALANCE or group.generation != generation:
            return  # somebody joined or left meanwhile: everybody has been told to join again
        if error is not E.NONE:
            _take_back(desk, group, group_error(error), later)
            why = f"its assignment could not be written: {error.name}"
            begin(desk, group, Cause.NOT_WRITTEN, why, later)
            return
        group.give(given)
        group.assigning = None
        desk.move(group, S.STABLE, later)
        for member in group.members.values():
            if member.syncing is not None:
                answer_sync(desk, group, member, later)

    desk.write(group.partition, (GroupRecord(group.id, group.saved(given, now)),), now, done)


def answer_sync(desk: Desk, group: Group, member: Member, now: int) -> None:
    assert member.syncing is not None
    desk.answer(member.syncing, Synced(E.NONE, member.assignment, group.protocol_type, group.protocol))
    member.syncing = None
    desk.session(group, member, now)


def synced(desk: Desk, group: Group, member: Member) -> None:
    """It has asked for its assignment."""
    group.unsynced.pop(member.id, None)
    if not group.unsynced:
        desk.alarms.clear(sync_alarm(group))


def on_sync_alarm(desk: Desk, group: Group, now: int) -> None:
    if group.state not in (S.COMPLETING_REBALANCE, S.STABLE) or not group.unsynced:
        return
    late = list(group.unsynced)
    for ident in late:
        desk.note(Dropped(group.id, ident, "it joined, and did not ask for its assignment"))
        drop(desk, group, group.members[ident])
    begin(desk, group, Cause.SYNC_EXPIRED, f"{', '.join(late)} did not ask for an assignment in time", now)


# -- somebody goes ---------------------------------------------------------------------------------------


def drop(desk: Desk, group: Group, member: Member) -> None:
    """Whatever it waits for, it hears that nobody knows it: if it lives, it begins anew."""
    if member.joining is not None:
        desk.answer(member.joining, Joined(E.UNKNOWN_MEMBER_ID))
        member.joining = None
    if member.syncing is not None:
        desk.answer(member.syncing, Synced(E.UNKNOWN_MEMBER_ID))
        member.syncing = None
    desk.alarms.clear(Alarm(group.id, Kind.SESSION, member.id))
    group.remove(member)


def remove(desk: Desk, group: Group, member: Member, cause: Cause, why: str, now: int) -> None:
    """It left or died, and the others take over what it had."""
    drop(desk, group, member)
    maybe_begin(desk, group, cause, why, now)
    try_complete(desk, group, now)
