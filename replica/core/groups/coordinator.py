"""The coordinator of groups on one broker: which of them are its own, and what everybody hears who asks.

    coordinator.elected(partition, epoch, now)    # this broker leads a partition of the offsets topic: load it
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
from typing import TypeVar

from kraft_controller.core.names import TopicPartition
from replica.core.groups import commits, membership, rebalance
from replica.core.groups.alarms import Alarm, Kind
from replica.core.groups.desk import Desk, E, Settings
from replica.core.groups.group import Group
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
from replica.core.groups.partitioning import partition_of
from replica.core.groups.ready import (
    AppendId,
    Expired,
    Load,
    Loaded,
    Ready,
    Record,
    Unloaded,
)
from replica.core.groups.states import Cause, GroupState

S = GroupState


class Coordinator:
    def __init__(
        self,
        settings: Settings,
        now: int,
        new_id: Callable[[], str],
        topics_of: Callable[[bytes], frozenset[str] | None],
    ) -> None:
        self.partitions: int | None = None
        """How many the offsets topic has; None: there is none yet, as far as this broker knows."""
        self._desk = Desk(settings, new_id, topics_of)
        self._groups: dict[int, dict[str, Group]] = {}
        self._loading: dict[int, Loading] = {}
        self._seen: dict[int, int] = {}
        """The newest epoch that was heard of, of each partition: who speaks of an older one comes too late."""
        self._loads = 0
        self._next_sweep = now + settings.offsets_retention_check_interval_ms

    # -- whose groups ----------------------------------------------------------------------------------

    def elected(self, partition: int, epoch: int) -> None:
        """This broker leads it. One that led it already goes on: nothing of its log can have changed meanwhile."""
        if epoch <= self._seen.get(partition, -1):
            return
        self._seen[partition] = epoch
        if partition in self._desk.epochs:
            self._desk.epochs[partition] = epoch
        elif partition in self._loading:
            self._loading[partition].epoch = epoch
        else:
            self._loads += 1
            self._loading[partition] = Loading(self._loads, epoch)
            self._desk.loads.append(Load(partition, epoch, self._loads))

    def awaits(self, load: Load) -> bool:
        """Whether it is still of use. Not when the partition was lost meanwhile, even if it was won again."""
        loading = self._loading.get(load.partition)
        return loading is not None and loading.number == load.number

    def replay(self, load: Load, offset: int, record: Record, producer: int | None = None) -> None:
        """Found in the topic, in the order in which it stands there. `producer`: in whose transaction."""
        if self.awaits(load):
            self._loading[load.partition].replay(offset, record, producer)

    def replay_end(self, load: Load, offset: int, producer: int, committed: bool) -> None:
        """The end of a producer's transaction was found there."""
        if self.awaits(load):
            self._loading[load.partition].replay_end(offset, producer, committed)

    def loaded(self, load: Load, now: int) -> None:
        """All of it was read. From now on its groups are answered for."""
        if not self.awaits(load):
            return
        partition = load.partition
        loading = self._loading.pop(partition)
        self._desk.epochs[partition] = loading.epoch
        groups = self._groups[partition] = loading.build(partition, now)
        for name, group in groups.items():
            for producer in group.offsets.producers:
                self._desk.open.setdefault((partition, producer), {})[name] = None
        count = sum(len(group.offsets.positions) for group in groups.values())
        self._desk.note(Loaded(partition, loading.epoch, len(groups), count))
        for group in groups.values():
            # Nobody knows how long members have been silent: each gets a whole session.
            group.subscribed = rebalance.subscribed(self._desk, group) if group.members else frozenset()
            for member in group.members.values():
                self._desk.session(group, member, now)
            most = self._desk.settings.group_max_size
            if len(group.members) > most:
                why = f"{len(group.members)} members were loaded, and group.max.size is {most}"
                rebalance.begin(self._desk, group, Cause.TOO_LARGE, why, now)

    def resigned(self, partition: int, epoch: int | None, now: int) -> None:
        """Somebody else leads it, or nobody. `epoch` None: this broker has no replica of it any more."""
        if epoch is None:
            self._seen.pop(partition, None)  # a topic that is made anew counts its epochs anew
        elif epoch < self._seen.get(partition, -1):
            return
        else:
            self._seen[partition] = epoch
        self._loading.pop(partition, None)
        if self._desk.epochs.pop(partition, None) is None:
            return
        groups = self._groups.pop(partition, {})
        for group in groups.values():
            self._dismiss(group, now)
        for key in [key for key in self._desk.open if key[0] == partition]:
            del self._desk.open[key]
        lost = [ident for ident, writing in self._desk.writing.items() if writing.partition == partition]
        for ident in lost:
            # Written or not: whoever leads now decides. What nobody may confirm any more is refused.
            self._desk.writing.pop(ident).done(E.NOT_LEADER_OR_FOLLOWER, -1, now)
        self._desk.note(Unloaded(partition, len(groups)))

    def resign_all(self, now: int) -> None:
        """Somebody else may lead all that was led here. Whatever is led here again is so under a newer epoch."""
        for partition in (*self._desk.epochs, *self._loading):
            self.resigned(partition, self._seen[partition], now)

    def _dismiss(self, group: Group, now: int) -> None:
        """Whoever waits here shall look for the coordinator anew."""
        for member in group.members.values():
            if member.joining is not None:
                self._desk.answer(member.joining, Joined(E.NOT_COORDINATOR, member=member.id))
            if member.syncing is not None:
                self._desk.answer(member.syncing, Synced(E.NOT_COORDINATOR))
            member.joining = member.syncing = None
            self._desk.alarms.clear(Alarm(group.id, Kind.SESSION, member.id))
        for ident in group.pending:
            self._desk.alarms.clear(Alarm(group.id, Kind.PENDING, ident))
        self._desk.alarms.clear(rebalance.join_alarm(group))
        self._desk.alarms.clear(rebalance.sync_alarm(group))
        self._desk.move(group, S.DEAD, now)

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
                    commits.on_delete(self._desk, group, ticket, ask, now, self._forget)
            case DeleteOffsets(name):
                if (error := self._refusal(name, nameless=True)) is not None:
                    self._answer(ticket, OffsetsDeleted(error))
                elif (group := self._find(name)) is None:
                    self._answer(ticket, OffsetsDeleted(E.GROUP_ID_NOT_FOUND))
                else:
                    commits.on_delete_offsets(self._desk, group, ticket, ask, now)

    def _answer(self, ticket: Ticket, reply: Reply) -> None:
        self._desk.answer(ticket, reply)

    def _refusal(self, group: str, *, nameless: bool = False) -> E | None:
        """Why nothing can be said of this group here and now. `nameless`: a group without a name is legal in this."""
        if not group and not nameless:
            return E.INVALID_GROUP_ID
        if self.partitions is None:
            return E.COORDINATOR_NOT_AVAILABLE
        partition = partition_of(group, self.partitions)
        if partition in self._loading:
            return E.COORDINATOR_LOAD_IN_PROGRESS
        if partition not in self._desk.epochs:
            return E.NOT_COORDINATOR
        return None

    def _find(self, group: str) -> Group | None:
        assert self.partitions is not None
        return self._groups.get(partition_of(group, self.partitions), {}).get(group)

    def _make(self, name: str, now: int) -> Group:
        assert self.partitions is not None
        partition = partition_of(name, self.partitions)
        group = self._groups.setdefault(partition, {})[name] = Group(name, partition, now)
        return group

    def _on_join(self, ticket: Ticket, ask: Join, now: int) -> None:
        name, settings = ask.who.group, self._desk.settings
        least, most = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
        error = self._refusal(name)
        if error is None and not least <= ask.session_timeout_ms <= most:
            error = E.INVALID_SESSION_TIMEOUT
        group = self._find(name) if error is None else None
        if error is None and group is None and ask.who.member:
            error = E.UNKNOWN_MEMBER_ID
        if error is not None:
            self._answer(ticket, Joined(error, member=ask.who.member))
        else:
            membership.on_join(self._desk, group if group is not None else self._make(name, now), ticket, ask, now)

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
            commits.on_commit(self._desk, group if group is not None else self._make(name, now), ticket, ask, now)

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

    def transaction_ended(self, partition: int, producer: int, committed: bool, offset: int) -> None:
        """Its end stands in the topic, at that offset, and is safe. What the producer has committed before it counts
        now, or never will."""
        if partition in self._loading:
            self._loading[partition].ended.append((offset, producer, committed))
            return
        groups = self._groups.get(partition, {})
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
        for groups in self._groups.values():
            yield from groups.values()

    @property
    def loading(self) -> Collection[int]:
        return self._loading.keys()

    def epoch(self, partition: int) -> int | None:
        """Under which its groups are answered for; None: they are not."""
        return self._desk.epochs.get(partition)

    # -- what comes of writes, and of waiting --------------------------------------------------------------

    def appended(self, ident: AppendId, error: E, offset: int, now: int) -> None:
        """`offset`: of the first record, where there is no error."""
        writing = self._desk.writing.pop(ident, None)
        if writing is not None:  # else nobody waits for it: its partition has another leader
            writing.done(error, offset, now)

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
            self._sweep(now)

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

    def _sweep(self, now: int) -> None:
        """Positions that nobody wants any more go, and groups of which nothing is left."""
        for group in list(self.groups()):
            old = list(commits.expired(self._desk, group, now))
            self._bury(group, old, now)

    def forget_topics(self, topics: Collection[str], now: int) -> None:
        """They are deleted: a topic that gets one of their names begins at 0, and so must whoever reads it."""
        for group in list(self.groups()):
            gone = [where for where in group.offsets.positions if where.topic in topics]
            if gone:
                self._bury(group, gone, now)

    def _bury(self, group: Group, wheres: list[TopicPartition], now: int) -> None:
        nothing_left = len(wheres) == len(group.offsets.positions) and not group.offsets.on_the_way
        group_too = nothing_left and group.state is S.EMPTY and not group.pending
        if not wheres and not group_too:
            return

        def then(error: E, later: int) -> None:
            if error is not E.NONE:
                commits.not_buried(self._desk, group, error)
                return
            self._desk.note(Expired(group.id, len(wheres), group_too))
            if group_too:
                self._forget(group, later)

        commits.bury(self._desk, group, wheres, group_too, now, then)

    def _forget(self, group: Group, now: int) -> None:
        """Nothing is left of it in the topic. Unless somebody came meanwhile: then it begins anew, and stays."""
        if group.state is S.EMPTY and not group.offsets and not group.pending and group.saved_at < 0:
            self._desk.move(group, S.DEAD, now)
            del self._groups[group.partition][group.id]

    # -- what to do ----------------------------------------------------------------------------------------

    def ready(self) -> Ready:
        """All that came up since the last call."""
        desk = self._desk
        return Ready(_taken(desk.answers), _taken(desk.appends), _taken(desk.loads), _taken(desk.notes))


T = TypeVar("T")


def _taken(things: list[T]) -> tuple[T, ...]:
    taken = tuple(things)
    things.clear()
    return taken
