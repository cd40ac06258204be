"""What members and those who want to be say: join, sync, heartbeat, leave; and what happens when they say nothing."""

from __future__ import annotations

from attrs import evolve, frozen

from replica.core.groups import rebalance
from replica.core.groups.alarms import Alarm, Kind
from replica.core.groups.desk import Desk, E, group_error
from replica.core.groups.group import Group, Member
from replica.core.groups.holding import of_join
from replica.core.groups.messages import (
    Beaten,
    Heartbeat,
    Identity,
    Join,
    Joined,
    Leave,
    Leaver,
    Left,
    Offer,
    Sync,
    Synced,
    Ticket,
)
from replica.core.groups.ready import Dropped, GroupRecord, Refused
from replica.core.groups.states import Cause, GroupState

S = GroupState


def wrong(group: Group, who: Identity) -> E | None:
    """Why it is not, or not any more, the member that it says it is."""
    if who.instance is not None:
        current = group.statics.get(who.instance)
        if current is not None and current != who.member:
            return E.FENCED_INSTANCE_ID
        if current is None:
            return E.UNKNOWN_MEMBER_ID
    if who.member not in group.members:
        return E.UNKNOWN_MEMBER_ID
    return None


# -- join ------------------------------------------------------------------------------------------------


def on_join(desk: Desk, group: Group, ticket: Ticket, ask: Join, now: int) -> None:
    who = ask.who
    if not _has_room(desk, group, who.member):
        _refuse(desk, group, ticket, ask, E.GROUP_MAX_SIZE_REACHED, "the group is as large as group.max.size allows")
        _turn_away(desk, group, who.member, now)
    elif not _has_memory(desk, group, ask):
        most = desk.settings.group_members_bytes_max
        why = f"the members of all groups here hold {desk.ledger.bytes} bytes, and with it more than {most}"
        _refuse(desk, group, ticket, ask, E.GROUP_MAX_SIZE_REACHED, why)
    elif not group.understands(ask.protocol_type, ask.offers):
        _refuse(desk, group, ticket, ask, E.INCONSISTENT_GROUP_PROTOCOL, _disagreement(group, ask))
    elif not who.member:
        _on_newcomer(desk, group, ticket, ask, now)
    elif who.member in group.pending:
        if who.instance is not None:  # ids are only given out in advance to those who have no name
            desk.answer(ticket, Joined(E.UNKNOWN_MEMBER_ID, member=who.member))
        else:
            _add(desk, group, ticket, ask, who.member, now)
    elif (error := wrong(group, who)) is not None:
        desk.answer(ticket, Joined(error, member=who.member))
    else:
        _on_known(desk, group, ticket, ask, group.members[who.member], now)
    rebalance.try_complete(desk, group, now)


def _has_room(desk: Desk, group: Group, member: str) -> bool:
    most = desk.settings.group_max_size
    known = group.members.get(member)
    match group.state:
        case S.PREPARING_REBALANCE:
            return (known is not None and known.joining is not None) or group.waiting_to_join < most
        case S.COMPLETING_REBALANCE | S.STABLE:
            return known is not None or len(group.members) < most
        case _:
            return True


def _has_memory(desk: Desk, group: Group, ask: Join) -> bool:
    """Who is a member already, and says no more than it said before, may do so in any case."""
    ident, instance = ask.who.member, ask.who.instance
    if not ident and instance is not None:
        ident = group.statics.get(instance, "")
    known = group.members.get(ident)
    more = of_join(ask, ident or instance or ask.client_id) - (known.said_bytes if known is not None else 0)
    return more <= 0 or desk.ledger.bytes + more <= desk.settings.group_members_bytes_max


def _refuse(desk: Desk, group: Group, ticket: Ticket, ask: Join, error: E, why: str) -> None:
    desk.note(Refused(group.id, ask.who.member or ask.client_id, error, why))
    desk.answer(ticket, Joined(error, member=ask.who.member))


def _turn_away(desk: Desk, group: Group, ident: str, now: int) -> None:
    """There is no room for it: nobody waits for it any more, either."""
    if ident in group.pending:
        _forget_pending(desk, group, ident, now)
    elif ident in group.members:
        rebalance.drop(desk, group, group.members[ident])


def _disagreement(group: Group, ask: Join) -> str:
    """Names who stands against whom: the error code alone sends people looking for days."""
    if not ask.protocol_type or not ask.offers:
        return "it names no protocol type, or no protocol"
    if ask.protocol_type != group.protocol_type:
        return f"its protocol type is {ask.protocol_type!r}, that of the group {group.protocol_type!r}"
    offered = {offer.name for offer in ask.offers}
    against = [
        f"{member.id} at {member.client_host} ({', '.join(offer.name for offer in member.offers)})"
        for member in group.members.values()
        if not offered & {offer.name for offer in member.offers}
    ]
    whom = "; ".join(against) or "no single member, but there is none that all of them share"
    return f"it offers {', '.join(sorted(offered))}, which does not go together with: {whom}"


def _on_newcomer(desk: Desk, group: Group, ticket: Ticket, ask: Join, now: int) -> None:
    instance = ask.who.instance
    fresh = f"{instance if instance is not None else ask.client_id}-{desk.new_id()}"
    if instance is not None:
        old = group.statics.get(instance)
        if old is None:
            _add(desk, group, ticket, ask, fresh, now)
        else:
            _replace(desk, group, ticket, ask, group.members[old], fresh, now)
    elif ask.id_first:
        # A client whose answer is lost would join again and again, and leave a member behind each time. One that has
        # to come back with its id is one member, however often it comes.
        group.expect(fresh)
        desk.alarms.set(Alarm(group.id, Kind.PENDING, fresh), now + ask.session_timeout_ms)
        desk.answer(ticket, Joined(E.MEMBER_ID_REQUIRED, member=fresh))
    else:
        _add(desk, group, ticket, ask, fresh, now)


def _add(desk: Desk, group: Group, ticket: Ticket, ask: Join, ident: str, now: int) -> None:
    member = Member(
        ident,
        ask.who.instance,
        ask.client_id,
        ask.client_host,
        ask.rebalance_timeout_ms,
        ask.session_timeout_ms,
        ask.offers,
        joining=ticket,
        is_new=True,
    )
    desk.alarms.clear(Alarm(group.id, Kind.PENDING, ident))
    if group.delay_left is not None:
        group.newcomer = True
    group.add(member, ask.protocol_type)
    desk.alarms.set(Alarm(group.id, Kind.SESSION, ident), now + desk.settings.new_member_join_timeout_ms)
    rebalance.maybe_begin(desk, group, Cause.MEMBER_JOINED, _because(f"{ident} joined", ask), now)


def _because(what: str, ask: Join) -> str:
    return f"{what}: {ask.reason}" if ask.reason else what


def _on_known(desk: Desk, group: Group, ticket: Ticket, ask: Join, member: Member, now: int) -> None:
    same = member.offers == ask.offers
    leads = group.leader == member.id
    match group.state:
        case S.PREPARING_REBALANCE:
            _rejoin(desk, group, ticket, ask, member)
        case S.COMPLETING_REBALANCE if same:
            # Its answer was lost: it gets it again.
            desk.session(group, member, now)
            desk.answer(ticket, rebalance.joined(group, member))
        case S.STABLE if same and not leads:
            desk.session(group, member, now)
            desk.answer(ticket, rebalance.joined(group, member))
        case S.COMPLETING_REBALANCE | S.STABLE:
            _rejoin(desk, group, ticket, ask, member)
            cause, what = (Cause.LEADER_REJOINED, "the leader") if same else (Cause.MEMBER_CHANGED, "changed metadata;")
            rebalance.begin(desk, group, cause, _because(f"{what} {member.id} joined again", ask), now)
        case _:
            desk.answer(ticket, Joined(E.UNKNOWN_MEMBER_ID, member=member.id))


def _rejoin(desk: Desk, group: Group, ticket: Ticket, ask: Join, member: Member) -> None:
    group.change(member, ask.offers, ask.rebalance_timeout_ms, ask.session_timeout_ms)
    if member.joining is not None:  # it has another connection now, and nobody listens for this answer
        desk.answer(member.joining, Joined(E.REBALANCE_IN_PROGRESS, member=member.id))
    member.joining = ticket


def _replace(desk: Desk, group: Group, ticket: Ticket, ask: Join, member: Member, fresh: str, now: int) -> None:
    """A static member was started again. Its old self, should it still be there, is fenced off."""
    before = _Before(member.id, group.leader, member.offers, member.rebalance_timeout_ms, member.session_timeout_ms)
    if member.joining is not None:
        desk.answer(member.joining, Joined(E.FENCED_INSTANCE_ID, member=member.id))
    if member.syncing is not None:
        desk.answer(member.syncing, Synced(E.FENCED_INSTANCE_ID))
        member.syncing = None
    _rename(desk, group, member, fresh, now)
    group.change(member, ask.offers, ask.rebalance_timeout_ms, ask.session_timeout_ms)
    member.joining = ticket
    match group.state:
        case S.STABLE if group.choose() == group.protocol:
            _keep(desk, group, ticket, ask.can_skip, member, before, now)
        case S.STABLE | S.COMPLETING_REBALANCE:
            why = _because(f"{before.id} of instance {member.instance} was replaced by {fresh}", ask)
            rebalance.begin(desk, group, Cause.STATIC_MEMBER_REPLACED, why, now)
        case _:
            pass  # everybody is being waited for, and this one has joined


@frozen
class _Before:
    """What a static member was before it was replaced."""

    id: str
    leader: str | None
    offers: tuple[Offer, ...]
    rebalance_timeout_ms: int
    session_timeout_ms: int


def _rename(desk: Desk, group: Group, member: Member, new: str, now: int) -> None:
    desk.alarms.clear(Alarm(group.id, Kind.SESSION, member.id))
    group.rename(member, new)
    lives = desk.settings.new_member_join_timeout_ms if member.is_new else member.session_timeout_ms
    desk.alarms.set(Alarm(group.id, Kind.SESSION, new), now + lives)


def _keep(desk: Desk, group: Group, ticket: Ticket, can_skip: bool, member: Member, before: _Before, now: int) -> None:
    """It takes over what its old self had, without a rebalance, when its new id is safe."""
    assignments = {each.id: each.assignment for each in group.members.values()}

    def done(error: E, at: int, later: int) -> None:
        if error is E.NONE:
            group.saved_at = max(group.saved_at, at)
        if group.state is not S.STABLE or member.joining != ticket:
            return  # replaced once more, or gone; or it has joined a rebalance with this, which answers it
        member.joining = None
        if error is not E.NONE:
            group.change(member, before.offers, before.rebalance_timeout_ms, before.session_timeout_ms)
            _rename(desk, group, member, before.id, later)
            desk.answer(ticket, Joined(group_error(error)))
            return
        desk.session(group, member, later)
        answer = rebalance.joined(group, member)
        if group.leader == member.id and can_skip:
            answer = evolve(answer, skip_assignment=True)
        elif not can_skip:
            # It may lead, and must not assign: nobody asks for that now. So it hears the name of who led before.
            answer = evolve(answer, leader=before.leader or "", members=())
        desk.answer(ticket, answer)

    desk.write(group.partition, (GroupRecord(group.id, group.saved(assignments, now)),), now, done)


# -- sync, heartbeat ---------------------------------------------------------------------------------------


def on_sync(desk: Desk, group: Group, ticket: Ticket, ask: Sync, now: int) -> None:
    who = ask.who
    error = wrong(group, who)
    if error is None and who.generation != group.generation:
        error = E.ILLEGAL_GENERATION
    if error is None and (
        (ask.protocol_type is not None and ask.protocol_type != group.protocol_type)
        or (ask.protocol is not None and ask.protocol != group.protocol)
    ):
        error = E.INCONSISTENT_GROUP_PROTOCOL
    if error is None and group.state is S.PREPARING_REBALANCE:
        error = E.REBALANCE_IN_PROGRESS
    if error is not None:
        desk.answer(ticket, Synced(error))
        return
    member = group.members[who.member]
    rebalance.synced(desk, group, member)
    if member.syncing is not None:  # it has another connection now, and nobody listens for this answer
        desk.answer(member.syncing, Synced(E.REBALANCE_IN_PROGRESS))
    member.syncing = ticket
    if group.state is S.STABLE:
        rebalance.answer_sync(desk, group, member, now)
    elif group.leader == member.id:
        rebalance.assign(desk, group, dict(ask.assignments), now)


def on_heartbeat(desk: Desk, group: Group, ticket: Ticket, ask: Heartbeat, now: int) -> None:
    error = wrong(group, ask.who)
    if error is None and ask.who.generation != group.generation:
        error = E.ILLEGAL_GENERATION
    if error is None:
        alive(desk, group, group.members[ask.who.member], now)
        if group.state is S.PREPARING_REBALANCE:
            error = E.REBALANCE_IN_PROGRESS
    desk.answer(ticket, Beaten(error if error is not None else E.NONE))


def alive(desk: Desk, group: Group, member: Member, now: int) -> None:
    """It said something. One that joins for the first time has a longer time to live than its session, and keeps it."""
    if not member.is_new:
        desk.session(group, member, now)


# -- leave, or be gone -------------------------------------------------------------------------------------


def on_leave(desk: Desk, group: Group, ticket: Ticket, ask: Leave, now: int) -> None:
    each = tuple((leaver, _leave(desk, group, leaver, now)) for leaver in ask.leavers)
    desk.answer(ticket, Left(E.NONE, each))


def _leave(desk: Desk, group: Group, leaver: Leaver, now: int) -> E:
    ident = leaver.member
    if not ident and leaver.instance is not None:
        named = group.statics.get(leaver.instance)
        if named is None:
            return E.UNKNOWN_MEMBER_ID
        ident = named
    elif ident in group.pending:
        if leaver.instance is not None:
            return E.UNKNOWN_MEMBER_ID
        _forget_pending(desk, group, ident, now)
        return E.NONE
    elif (error := wrong(group, Identity(group.id, ident, instance=leaver.instance))) is not None:
        return error
    why = f"{ident} left" + (f": {leaver.reason}" if leaver.reason else "")
    rebalance.remove(desk, group, group.members[ident], Cause.MEMBER_LEFT, why, now)
    return E.NONE


def _forget_pending(desk: Desk, group: Group, ident: str, now: int) -> None:
    group.unexpect(ident)
    desk.alarms.clear(Alarm(group.id, Kind.PENDING, ident))
    rebalance.try_complete(desk, group, now)


def on_pending_alarm(desk: Desk, group: Group, ident: str, now: int) -> None:
    if ident in group.pending:
        desk.note(Dropped(group.id, ident, "it was given this id, and did not join with it"))
        _forget_pending(desk, group, ident, now)


def on_session_alarm(desk: Desk, group: Group, ident: str, now: int) -> None:
    member = group.members.get(ident)
    if member is None:
        return
    if not member.is_new and (member.joining is not None or member.syncing is not None):
        return  # it waits for us. Its session begins anew with the answer
    why = f"nothing was heard of {ident} for {member.session_timeout_ms} ms, its session timeout"
    if member.is_new:
        why = f"the first join of {ident} was not answered for so long that nobody may wait for it any more"
    desk.note(Dropped(group.id, ident, why))
    rebalance.remove(desk, group, member, Cause.SESSION_EXPIRED, why, now)
