"""The coordinator of groups on one broker: which of them are its own, and what everybody hears who asks.

    coordinator.elected(partition, epoch)         # this broker leads a partition of the offsets topic: load it
    coordinator.step(ticket, ask, now)            # somebody asks
    coordinator.appended(append.id, NONE, offset, now)
    coordinator.tick(now)                         # not before `coordinator.deadline`
    ready = coordinator.ready()                   # after any of these: what to do now

A group lives in the partition of the offsets topic that its name falls into, and its coordinator is that partition's
leader. Everything that must outlast a coordinator stands there: an answer that depends on a record goes out when
every replica in sync has it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final

from replica.core.coordinating import TopicCoordinator, taken
from replica.core.groups import commits, forgetting, handover, membership, rebalance
from replica.core.groups.alarms import Alarm, Kind
from replica.core.groups.desk import Desk, E, Settings
from replica.core.groups.group import Group
from replica.core.groups.holding import of_request
from replica.core.groups.loading import Loading
from replica.core.groups.messages import (
    Ask,
    Beaten,
    Commit,
    CommitInTransaction,
    Committed,
    Delete,
    Deleted,
    DeleteOffsets,
    Describe,
    Described,
    Fetch,
    Fetched,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Left,
    Listed,
    ListedGroup,
    ListGroups,
    OffsetsDeleted,
    Reply,
    Sync,
    Synced,
    Ticket,
)
from replica.core.groups.ready import Load, Loaded, Ready, Record, Refused, Unloaded
from replica.core.groups.states import GroupState

NAME_MAX: Final = 0x7FFF
"""What has a longer name has no place in the offsets topic."""


class Coordinator(TopicCoordinator[Ask, Group, Loading]):
    def __init__(
        self,
        settings: Settings,
        now: int,
        new_id: Callable[[], str],
        topics_of: Callable[[bytes], frozenset[str] | None],
    ) -> None:
        self._desk = Desk(settings, new_id, topics_of)
        super().__init__(self._desk, Loading)
        self._next_sweep = now + settings.offsets_retention_check_interval_ms

    # -- whose groups ----------------------------------------------------------------------------------

    def replay(self, load: Load, offset: int, record: Record, producer: int | None = None) -> None:
        """Found in the topic, in the order in which it stands there. `producer`: in whose transaction."""
        if (found := self._found(load)) is not None:
            found.replay(offset, record, producer)

    def replay_end(self, load: Load, offset: int, producer: int, committed: bool) -> None:
        """The end of a producer's transaction was found there."""
        if (found := self._found(load)) is not None:
            found.replay_end(offset, producer, committed)

    def loaded(self, load: Load, now: int) -> None:
        found = self._found(load)
        if found is None:
            return
        groups = found.build(load.partition, now, self._desk.ledger)
        epoch = self._serve(load, groups)
        for name, group in groups.items():
            for producer in group.offsets.producers:
                self._desk.open.setdefault((load.partition, producer), {})[name] = None
        count = sum(len(group.offsets.positions) for group in groups.values())
        self._desk.note(Loaded(load.partition, epoch, len(groups), count))
        for group in groups.values():
            handover.take_over(self._desk, group, now)

    def _lost(self, partition: int, things: dict[str, Group], now: int) -> None:
        for group in things.values():
            handover.dismiss(self._desk, group, now)
        for key in [key for key in self._desk.open if key[0] == partition]:
            del self._desk.open[key]
        self._desk.note(Unloaded(partition, len(things)))

    # -- who asks ----------------------------------------------------------------------------------------

    def step(self, ticket: Ticket, ask: Ask, now: int) -> None:
        match ask:
            case Join():
                self._on_join(ticket, ask, now)
            case Sync(who):
                if (error := self._refusal(who.group)) is not None:
                    # While groups are loaded nobody's assignment is known: it joins again, and then it will be.
                    loading = error is E.COORDINATOR_LOAD_IN_PROGRESS
                    self._answer(ticket, Synced(E.REBALANCE_IN_PROGRESS if loading else error))
                elif (group := self._find(who.group)) is None:
                    self._answer(ticket, Synced(E.UNKNOWN_MEMBER_ID))
                else:
                    membership.on_sync(self._desk, group, ticket, ask, now)
            case Heartbeat(who):
                if (error := self._refusal(who.group)) is not None:
                    # No member shall give up what it has because its coordinator is reading.
                    loading = error is E.COORDINATOR_LOAD_IN_PROGRESS
                    self._answer(ticket, Beaten(E.NONE if loading else error))
                elif (group := self._find(who.group)) is None:
                    self._answer(ticket, Beaten(E.UNKNOWN_MEMBER_ID))
                else:
                    membership.on_heartbeat(self._desk, group, ticket, ask, now)
            case Leave(name, leavers):
                if (error := self._refusal(name)) is not None:
                    self._answer(ticket, Left(error))
                elif (group := self._find(name)) is None:
                    self._answer(ticket, Left(E.NONE, tuple((leaver, E.UNKNOWN_MEMBER_ID) for leaver in leavers)))
                else:
                    membership.on_leave(self._desk, group, ticket, ask, now)
            case Commit():
                self._on_commit(ticket, ask, now)
            case CommitInTransaction():
                self._on_commit_in_transaction(ticket, ask, now)
            case Fetch(name):
                if (error := self._refusal(name, nameless=True)) is not None:
                    self._answer(ticket, Fetched(error))
                else:
                    commits.on_fetch(self._desk, self._find(name), ticket, ask)
            case Describe(name):
                self._answer(ticket, self._described(name))
            case ListGroups():
                self._answer(ticket, self._listed(ask))
            case Delete(name):
                if (error := self._refusal(name, nameless=True)) is not None:
                    self._answer(ticket, Deleted(error))
                elif (group := self._find(name)) is None:
                    self._answer(ticket, Deleted(E.GROUP_ID_NOT_FOUND))
                else:
                    forgetting.on_delete(self._desk, group, ticket, ask, now, self._gone)
            case DeleteOffsets(name):
                if (error := self._refusal(name, nameless=True)) is not None:
                    self._answer(ticket, OffsetsDeleted(error))
                elif (group := self._find(name)) is None:
                    self._answer(ticket, OffsetsDeleted(E.GROUP_ID_NOT_FOUND))
                else:
                    forgetting.on_delete_offsets(self._desk, group, ticket, ask, now)

    def _answer(self, ticket: Ticket, reply: Reply) -> None:
        self._desk.answer(ticket, reply)

    def _refusal(self, group: str, *, nameless: bool = False) -> E | None:
        """Why nothing can be said of this group here and now. `nameless`: a group without a name is legal in this."""
        if (not group and not nameless) or len(group) > NAME_MAX:
            return E.INVALID_GROUP_ID
        return self._not_here(group)

    def _make(self, name: str, now: int) -> Group:
        partition = self._place(name)
        group = self._here[partition][name] = Group(name, partition, now, ledger=self._desk.ledger)
        return group

    def _on_join(self, ticket: Ticket, ask: Join, now: int) -> None:
        name, settings = ask.who.group, self._desk.settings
        least, most = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
        error = self._refusal(name)
        if error is None and (held := of_request(ask)) > settings.group_member_bytes_max:
            error = E.INVALID_REQUEST
            why = f"it would hold {held} bytes, and {settings.group_member_bytes_max} is the most of one member"
            self._desk.note(Refused(name, ask.who.member or ask.client_id, error, why))
        if error is None and not least <= ask.session_timeout_ms <= most:
            error = E.INVALID_SESSION_TIMEOUT
        group = self._find(name) if error is None else None
        if error is None and group is None and ask.who.member:
            error = E.UNKNOWN_MEMBER_ID
        if error is not None:
            self._answer(ticket, Joined(error, member=ask.who.member))
            return
        found = group if group is not None else self._make(name, now)
        membership.on_join(self._desk, found, ticket, ask, now)
        self._drop_if_unused(found)

    def _drop_if_unused(self, group: Group) -> None:
        """Forget a group whose first member or first positions were refused: clients make up any number of names."""
        if (
            group.saved_at < 0
            and not group.generation
            and not group.members
            and not group.pending
            and not group.offsets
        ):
            del self._here[group.partition][group.id]

    def _on_commit(self, ticket: Ticket, ask: Commit, now: int) -> None:
        name = ask.who.group
        error = self._refusal(name, nameless=True)
        group = self._find(name) if error is None else None
        if error is None and group is None and ask.who.generation >= 0:
            error = E.ILLEGAL_GENERATION
        if error is not None:
            self._answer(ticket, Committed(dict.fromkeys(ask.positions, error)))
        else:
            # Who keeps its positions here and balances nothing needs no member: its group begins with its first commit.
            made = group if group is not None else self._make(name, now)
            commits.on_commit(self._desk, made, ticket, ask, now)
            self._drop_if_unused(made)

    def _on_commit_in_transaction(self, ticket: Ticket, ask: CommitInTransaction, now: int) -> None:
        name = ask.who.group
        error = self._refusal(name)
        group = self._find(name) if error is None else None
        if error is None and group is None and commits.says_who(ask.who):
            error = E.UNKNOWN_MEMBER_ID
        if error is not None:
            self._answer(ticket, Committed(dict.fromkeys(ask.positions, error)))
        else:
            made = group if group is not None else self._make(name, now)
            commits.on_commit_in_transaction(self._desk, made, ticket, ask, now)
            self._drop_if_unused(made)

    def transaction_ended(self, partition: int, producer: int, committed: bool, offset: int) -> None:
        """Its end stands in the topic, at that offset, and is safe. What the producer has committed before it counts
        now, or never will."""
        if partition in self._loading:
            self._loading[partition].found.ended.append((offset, producer, committed))
            return
        groups = self._here.get(partition, {})
        for name in self._desk.open.pop((partition, producer), {}):
            group = groups.get(name)
            if group is None:
                continue
            group.offsets.end_of(producer, committed, offset)
            if producer in group.offsets.producers:
                self._desk.open.setdefault((partition, producer), {})[name] = None

    # -- looking ---------------------------------------------------------------------------------------

    def _described(self, name: str) -> Described:
        if (error := self._refusal(name, nameless=True)) is not None:
            return Described(error)
        group = self._find(name)
        if group is None:
            return Described(E.NONE)
        return group.described()

    def _listed(self, ask: ListGroups) -> Listed:
        if self.partitions is None:
            return Listed(E.COORDINATOR_NOT_AVAILABLE)
        wanted = {state.lower() for state in ask.states}
        found = tuple(
            ListedGroup(group.id, group.protocol_type or "", group.state)
            for group in sorted(self.groups(), key=lambda group: group.id)
            if not wanted or group.state.value.lower() in wanted
        )
        return Listed(E.COORDINATOR_LOAD_IN_PROGRESS if self._loading else E.NONE, found)

    def groups(self) -> Iterator[Group]:
        """For metrics and tests. To be looked at only."""
        return self._all()

    # -- what comes of waiting -----------------------------------------------------------------------------

    @property
    def deadline(self) -> int:
        alarm = self._desk.alarms.next
        return self._next_sweep if alarm is None else min(alarm, self._next_sweep)

    def tick(self, now: int) -> None:
        while (alarm := self._desk.alarms.pop(now)) is not None:
            group = self._find(alarm.group)
            if group is not None:
                self._on_alarm(group, alarm, now)
        if now >= self._next_sweep:
            self._next_sweep = now + self._desk.settings.offsets_retention_check_interval_ms
            for group in list(self.groups()):
                forgetting.sweep(self._desk, group, now, self._gone)

    def _on_alarm(self, group: Group, alarm: Alarm, now: int) -> None:
        match alarm.kind:
            case Kind.SESSION:
                membership.on_session_alarm(self._desk, group, alarm.member, now)
            case Kind.PENDING:
                membership.on_pending_alarm(self._desk, group, alarm.member, now)
            case Kind.JOIN:
                rebalance.on_join_alarm(self._desk, group, now)
            case Kind.SYNC:
                rebalance.on_sync_alarm(self._desk, group, now)

    def forget_topics(self, topics: Collection[str], now: int) -> None:
        """They are deleted."""
        for group in list(self.groups()):
            forgetting.topics_gone(self._desk, group, topics, now, self._gone)

    def _gone(self, group: Group, now: int) -> None:
        """Nothing is left of it in the topic. Unless somebody came meanwhile: then it begins anew, and stays."""
        if group.state is GroupState.EMPTY and not group.offsets and not group.pending and group.saved_at < 0:
            self._desk.move(group, GroupState.DEAD, now)
            del self._here[group.partition][group.id]

    # -- what to do ----------------------------------------------------------------------------------------

    def ready(self) -> Ready:
        """All that came up since the last call."""
        desk = self._desk
        return Ready(taken(desk.answers), taken(desk.appends), taken(desk.loads), taken(desk.notes))
