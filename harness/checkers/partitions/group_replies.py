"""The replies of a group coordinator, judged against the requests and replies before them.

This is a reference model of Kafka's group protocol. It follows the replies of one coordinator, and derives what a later
reply must or must not be. It uses only facts that are certain. If several replies are right, for example during a
rebalance, it judges none.

    requested(ticket, ask, now)    before the coordinator handles a request
    answered(ticket, reply, now)   when the coordinator replies
    ticked(now)                    after the coordinator has handled the timers that were due
    removed(group)                 when the coordinator has removed an empty group

A term of a coordinator ends when another broker may have served its partition. The model then forgets the group,
because a new coordinator restarts the sessions of all members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from attrs import define, field, frozen

from harness.checkers.oracle_state import Violation
from replica.core.errors import ErrorCode
from replica.core.groups.group_messages import (
    NO_GENERATION,
    Ask,
    Commit,
    CommitInTransaction,
    Committed,
    GroupIdentity,
    Heartbeat,
    HeartbeatAnswered,
    Join,
    Joined,
    Leave,
    MembersLeft,
    Reply,
    Sync,
    Synced,
    Ticket,
)

MEMBER: Final = "a request of a current member of a stable group succeeds"
FORMER: Final = "a request of a former member or generation is refused"
REBALANCE: Final = "heartbeats report a rebalance that members wait for"
GENERATION: Final = "a generation has one leader and one protocol, and follows the one before"
JOINED: Final = "a generation consists of members that have joined"
ASSIGNMENT: Final = "a member receives the assignment that the leader of its generation sent"
LEADER: Final = "a join of the leader of a stable group begins a rebalance"
IN_TIME: Final = "a join is answered within the rebalance timeout"

E = ErrorCode
REFUSALS: Final = frozenset({E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION, E.REBALANCE_IN_PROGRESS, E.FENCED_INSTANCE_ID})
SLACK_MS: Final = 2_000
"""The time that a join may wait in addition to twice the rebalance timeout: for the initial delay, and for members that
never join."""


@define(eq=False)
class _Member:
    """A dynamic member that received the current generation.

    renewed_min, renewed_max   the earliest and the latest time of the last restart of its session timeout
    """

    session_ms: int
    renewed_min: int
    renewed_max: int
    synced: bool = False
    pending: int = 0
    """The number of its unanswered joins and syncs. The session does not expire while there are any."""


@define(eq=False)
class _Group:
    """The certain facts about one group in one term of its coordinator."""

    name: str
    term: int
    generation: int = NO_GENERATION
    leader: str = ""
    listed: set[str] | None = None
    """The members that the leader received; None if it received no list. A loaded group has none, because a join of its
    leader begins another generation."""
    protocol: str | None = None
    members: dict[str, _Member] = field(factory=dict)
    """The members that received the generation."""
    former: set[str] = field(factory=set)
    """Member ids that have left or expired in this term. Ids are unique, so none comes back."""
    joining: dict[Ticket, tuple[Join, int]] = field(factory=dict)
    """Unanswered joins, and the times of their requests."""
    is_followed: bool = False
    """True if the generation before this one was also seen in this term, so that no join is unknown."""
    has_requested: set[str] = field(factory=set)
    """The members that have requested to join since the last generation began."""
    disturbed: bool = False
    """True if anything since the generation began may have caused a rebalance."""
    assignments: Mapping[str, bytes] | None = None
    """The assignments of the first SyncGroup of the leader."""
    static: bool = False
    """True if the group has had a static member. The ids of static members are replaced, so the rules do not apply."""

    def is_stable(self, now: int) -> bool:
        """Return whether the group certainly has its generation, and no rebalance has begun."""
        return (
            self.listed == set(self.members)
            and not (self.disturbed or self.joining)
            and all(each.synced and now < each.renewed_min + each.session_ms for each in self.members.values())
        )

    def is_completing(self) -> bool:
        """Return whether all members certainly wait for the leader's assignment."""
        return self.listed is not None and not (
            self.disturbed or self.joining or any(each.synced for each in self.members.values())
        )


@frozen
class _Request:
    group: str
    term: int
    ask: Ask
    refused: str | None
    """The reason why the request must be refused; None if it need not be."""
    granted: bool
    """True if the request must not be refused."""
    leader: str
    generation: int


class GroupReplies:
    """The replies of the coordinator of one broker process.

    `term_of` returns the term in which the coordinator serves a group, or None if it does not serve it.
    """

    def __init__(self, broker: int, term_of: Callable[[str], int | None]) -> None:
        self._broker = broker
        self._term_of = term_of
        self._groups: dict[str, _Group] = {}
        self._requests: dict[Ticket, _Request] = {}
        self.judged: dict[str, int] = {}
        """The number of replies that had to be a success, and of those that had to be a refusal."""

    # -- requests ----------------------------------------------------------------------------------------------

    def requested(self, ticket: Ticket, ask: Ask, now: int) -> None:
        if (name := _group_of(ask)) is None or (group := self._group(name)) is None:
            return
        identity = ask.identity if isinstance(ask, Join | Sync | Heartbeat | Commit | CommitInTransaction) else None
        group.static |= identity is not None and identity.instance is not None
        refused, granted = None, False
        if identity is not None and not group.static and identity.member:
            refused = self._must_refuse(group, identity, ask)
            granted = identity.member in group.members and group.is_stable(now)
            granted = granted and (isinstance(ask, Join) or identity.generation == group.generation)
        self._requests[ticket] = _Request(name, group.term, ask, refused, granted, group.leader, group.generation)
        match ask:
            case Join():
                group.disturbed = True
                group.joining[ticket] = ask, now
                if ask.identity.member or not ask.id_first:  # otherwise it receives an id first
                    group.has_requested.add(ask.identity.member)
                self._begins(group, ask.identity)
            case Sync():
                self._begins(group, ask.identity)
                is_from_leader = ask.identity.member == group.leader and ask.identity.generation == group.generation
                if is_from_leader and group.assignments is None:
                    group.assignments = dict(ask.assignments)
            case Heartbeat() | Commit():
                if (member := group.members.get(ask.identity.member)) is not None:
                    member.renewed_max = now
            case Leave():
                group.disturbed = True
            case _:
                pass
        self._overdue(group, now)

    def ticked(self, now: int) -> None:
        """Remove the members whose session has certainly expired."""
        for name, group in self._groups.items():
            if self._term_of(name) != group.term:
                continue
            for ident, member in list(group.members.items()):
                if not member.pending and now >= member.renewed_max + member.session_ms and not group.static:
                    group.disturbed = True
                    group.former.add(ident)
                    del group.members[ident]
            self._overdue(group, now)

    def removed(self, name: str) -> None:
        """Forget a group that the coordinator has removed, because it was empty and its offsets were old. Its name may
        be used again, with generations from 1 on. A group with a member must not be removed, so it is remembered."""
        group = self._groups.get(name)
        if group is not None and not group.members:
            self._groups[name] = _Group(name, group.term, former=group.former, static=group.static)

    # -- replies -----------------------------------------------------------------------------------------------

    def answered(self, ticket: Ticket, reply: Reply, now: int) -> None:
        request = self._requests.pop(ticket, None)
        group = None if request is None else self._groups.get(request.group)
        if request is None or group is None or self._term_of(request.group) != request.term:
            return
        match request.ask, reply:
            case Join() as join, Joined():
                group.joining.pop(ticket, None)
                self._ends(group, join.identity, now)
                self._judge(request, group, join.identity, reply.error)
                by_leader = request.granted and join.identity.member == request.leader
                if by_leader and reply.generation == request.generation:
                    what = f"the join of leader {request.leader} returns its generation {request.generation} again"
                    self._violated(LEADER, group, what)
                if reply.error is E.NONE and not group.static:
                    self._joined(group, join, reply, now)
            case Sync(identity), Synced():
                self._ends(group, identity, now)
                self._judge(request, group, identity, reply.error)
                if reply.error is E.NONE and not group.static:
                    self._synced(group, identity, reply, now)
            case Heartbeat(identity), HeartbeatAnswered(error):
                self._judge(request, group, identity, error)
                waiting = not group.static and any(j.identity.instance is None for j, _ in group.joining.values())
                if waiting and error is E.NONE:
                    self._violated(REBALANCE, group, f"the heartbeat of {identity.member} succeeds while joins wait")
                if error is not E.NONE:
                    group.disturbed = True
                elif (member := group.members.get(identity.member)) is not None:
                    member.renewed_min = now
            case Commit(identity) | CommitInTransaction(identity), Committed(errors) if errors:
                error = next((each for each in errors.values() if each in REFUSALS), E.NONE)
                if error is not E.NONE or E.NONE in errors.values():
                    self._judge(request, group, identity, error)
            case Leave(), MembersLeft(E.NONE, each):
                for leaver, error in each:
                    if error is E.NONE and leaver.member in group.former:
                        self._violated(FORMER, group, f"{leaver.member} leaves a second time")
                    if error is E.NONE and leaver.member:
                        group.former.add(leaver.member)
                        group.members.pop(leaver.member, None)
            case _:
                pass

    # -- the model ---------------------------------------------------------------------------------------------

    def _group(self, name: str) -> _Group | None:
        """Return the facts about a group in the present term, or None if this coordinator does not serve it."""
        term = self._term_of(name)
        if term is None:
            self._groups.pop(name, None)
            return None
        if name not in self._groups or self._groups[name].term != term:
            self._groups[name] = _Group(name, term)
        return self._groups[name]

    def _must_refuse(self, group: _Group, identity: GroupIdentity, ask: Ask) -> str | None:
        if identity.member in group.former:
            return f"{identity.member} has left or expired"
        if not isinstance(ask, Join) and identity.generation < group.generation:
            return f"the group is in generation {group.generation}, the request in {identity.generation}"
        if isinstance(ask, Commit) and identity.member in group.members and group.is_completing():
            return f"the members of generation {group.generation} wait for their assignment"
        return None

    def _judge(self, request: _Request, group: _Group, identity: GroupIdentity, error: E) -> None:
        # A member that joins again supersedes its earlier join, which then gets REBALANCE_IN_PROGRESS.
        superseded = {E.REBALANCE_IN_PROGRESS} if isinstance(request.ask, Join) else set()
        kind = type(request.ask).__name__
        what = f"{kind} of {identity.member} in generation {identity.generation} gets {error.name}"
        if request.refused is not None and error is E.NONE:
            self._violated(FORMER, group, f"{what}, although {request.refused}")
        elif request.granted and error in REFUSALS - superseded and identity.member not in group.former:
            self._violated(MEMBER, group, f"{what}, although generation {group.generation} is stable")
        for word, counts in (("refused", request.refused is not None), ("granted", request.granted)):
            if counts:
                self.judged[word] = self.judged.get(word, 0) + 1

    def _joined(self, group: _Group, ask: Join, reply: Joined, now: int) -> None:
        if ask.identity.member not in ("", reply.member):
            self._violated(JOINED, group, f"{ask.identity.member} receives the member id {reply.member}")
        if reply.generation < group.generation:
            self._violated(GENERATION, group, f"generation {reply.generation} follows generation {group.generation}")
        if reply.generation > group.generation:
            group.is_followed = group.generation != NO_GENERATION
            group.generation, group.leader, group.protocol = reply.generation, reply.leader, reply.protocol
            group.members, group.assignments, group.listed = {}, None, None
            group.disturbed = False
        elif (reply.leader, reply.protocol) != (group.leader, group.protocol):
            what = f"has leader {reply.leader} with {reply.protocol}, and leader {group.leader} with {group.protocol}"
            self._violated(GENERATION, group, f"generation {reply.generation} {what}")
        if reply.leader == reply.member:
            group.listed = {each.member for each in reply.members}
            strangers = group.listed - group.has_requested - set(group.members)
            if strangers and group.is_followed and "" not in group.has_requested:
                what = f"generation {reply.generation} has {sorted(strangers)}, which did not join"
                self._violated(JOINED, group, what)
            if reply.member not in group.listed:
                self._violated(JOINED, group, f"generation {reply.generation} lacks its leader {reply.member}")
        elif reply.members:
            self._violated(JOINED, group, f"{reply.member} is not the leader, but receives the members")
        member = group.members.setdefault(reply.member, _Member(ask.session_timeout_ms, now, now))
        member.session_ms = ask.session_timeout_ms

    def _synced(self, group: _Group, identity: GroupIdentity, reply: Synced, now: int) -> None:
        member = group.members.get(identity.member)
        if member is None or identity.generation != group.generation:
            return
        member.synced, member.renewed_min = True, now
        group.has_requested.discard(identity.member)
        sent = group.assignments
        if sent is not None and reply.assignment != (given := sent.get(identity.member, b"")):
            what = f"{identity.member} receives {reply.assignment!r} in generation {identity.generation}"
            self._violated(ASSIGNMENT, group, f"{what}, but leader {group.leader} sent {given!r}")

    def _begins(self, group: _Group, identity: GroupIdentity) -> None:
        if (member := group.members.get(identity.member)) is not None:
            member.pending += 1

    def _ends(self, group: _Group, identity: GroupIdentity, now: int) -> None:
        if (member := group.members.get(identity.member)) is not None:
            member.pending = max(member.pending - 1, 0)
            member.renewed_max = now

    def _overdue(self, group: _Group, now: int) -> None:
        if not group.joining or group.static:
            return
        longest = max(join.rebalance_timeout_ms for join, _ in group.joining.values())
        for join, since in group.joining.values():
            if now - since > 2 * longest + SLACK_MS:
                name = join.identity.member or join.client_id
                self._violated(IN_TIME, group, f"the join of {name} has waited for {now - since} ms")

    def _violated(self, invariant: str, group: _Group, what: str) -> None:
        raise Violation(invariant, f"broker {self._broker} answers for group {group.name}: {what}")


def _group_of(ask: Ask) -> str | None:
    match ask:
        case Join(identity) | Sync(identity) | Heartbeat(identity) | Commit(identity) | CommitInTransaction(identity):
            return identity.group
        case Leave(name):
            return name
        case _:
            return None
