"""Members whose coordinator comes or goes: nobody loses its place by that, and nobody waits for one who has gone."""

from __future__ import annotations

from replica.core.groups import rebalance
from replica.core.groups.alarms import Alarm, Kind
from replica.core.groups.desk import Desk, E
from replica.core.groups.group import Group
from replica.core.groups.messages import Joined, Synced
from replica.core.groups.states import Cause, GroupState


def take_over(desk: Desk, group: Group, now: int) -> None:
    """As it was read. Nobody knows how long members have been silent: each gets a whole session."""
    group.subscribed = rebalance.subscribed(desk, group) if group.members else frozenset()
    for member in group.members.values():
        desk.session(group, member, now)
    most = desk.settings.group_max_size
    if len(group.members) > most:
        why = f"{len(group.members)} members were loaded, and group.max.size is {most}"
        rebalance.begin(desk, group, Cause.TOO_LARGE, why, now)


def dismiss(desk: Desk, group: Group, now: int) -> None:
    """Whoever waits here shall look for the coordinator anew."""
    for member in group.members.values():
        if member.joining is not None:
            desk.answer(member.joining, Joined(E.NOT_COORDINATOR, member=member.id))
        if member.syncing is not None:
            desk.answer(member.syncing, Synced(E.NOT_COORDINATOR))
        member.joining = member.syncing = None
        desk.alarms.clear(Alarm(group.id, Kind.SESSION, member.id))
    for ident in group.pending:
        desk.alarms.clear(Alarm(group.id, Kind.PENDING, ident))
    desk.alarms.clear(rebalance.join_alarm(group))
    desk.alarms.clear(rebalance.sync_alarm(group))
    desk.move(group, GroupState.DEAD, now)
    group.close()
