"""The internal topic of a coordinator, for groups and for transactions alike. A name is a group id or a transactional
id.

A name hashes to a partition of the topic, and the leader of that partition coordinates the name. The partition holds
the state of the name, and a new coordinator reads it. If this broker gives up a partition, pending writes to the
partition fail with NOT_LEADER_OR_FOLLOWER, although the new leader may have their records.

    topic.role_taken(taken, now)             this broker became the leader of a partition and loads it, or gave it up
    coordinator.loaded(load, now)            the load is complete: the coordinator serves the partition's names
    topic.appended(append.id, NONE, offset, now)    records are committed, the first at this offset
    topic.partitions = count                 the answer to `CoordinatorReady.counts`
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Generic, NewType, Protocol, Self, TypeAlias, TypeVar

from attrs import define, field

from replica.core.errors import ErrorCode
from replica.core.groups.partitioning import partition_of
from replica.core.replica_messages import RoleTaken
from zab.core.frozen import frozen

Ticket = NewType("Ticket", int)
AppendId = NewType("AppendId", int)

# Type variables for a request, a record of the topic, a reply, a write to the topic, and a log message.
K_contra = TypeVar("K_contra", contravariant=True)
E_contra = TypeVar("E_contra", contravariant=True)
R = TypeVar("R")
A = TypeVar("A")
N = TypeVar("N")
# Type variables for the state of one name, and for the state of a partition that is being loaded.
T = TypeVar("T")
F = TypeVar("F")


@frozen
class Load:
    """A request to load a partition of the topic: see `replica.core.coordinator_loader`."""

    partition: int
    epoch: int
    number: int
    """A unique number, which tells this load from earlier ones of the partition."""


@frozen
class Answer(Generic[R]):
    """The reply to the request with this ticket."""

    ticket: Ticket
    reply: R


@frozen
class CoordinatorReady(Generic[R, A, N]):
    """Work for the runtime. The fields may be processed in any order, because an answer that depends on a write is in a
    later `CoordinatorReady`."""

    answers: tuple[Answer[R], ...] = field(default=())
    appends: tuple[A, ...] = field(default=())
    loads: tuple[Load, ...] = field(default=())
    notes: tuple[N, ...] = field(default=())
    counts: bool = field(default=False)
    """True if the coordinator needs the number of partitions of the topic."""


@define(eq=False)
class CoordinatorOutbox(Generic[R, A, N]):
    """Collects the effects of a coordinator for the runtime."""

    answers: list[Answer[R]] = field(factory=list)
    appends: list[A] = field(factory=list)
    loads: list[Load] = field(factory=list)
    notes: list[N] = field(factory=list)
    """Messages for the broker's log."""
    counts: bool = False

    def answer(self, ticket: Ticket, reply: R) -> None:
        self.answers.append(Answer(ticket, reply))

    def note(self, note: N) -> None:
        self.notes.append(note)

    def take(self) -> tuple[tuple[Answer[R], ...], tuple[A, ...], tuple[Load, ...], tuple[N, ...], bool]:
        """Return all effects, and clear them."""
        taken = tuple(self.answers), tuple(self.appends), tuple(self.loads), tuple(self.notes), self.counts
        self.counts = False
        for each in (self.answers, self.appends, self.loads, self.notes):
            each.clear()
        return taken


Done: TypeAlias = Callable[[ErrorCode, int, int], None]
"""Receives the outcome of a write: the error (NONE on success), the offset of the first record (only on success), and
the time."""


@define(eq=False)
class _Write:
    partition: int
    done: Done


@define(eq=False)
class _Loading(Generic[F]):
    number: int
    epoch: int
    found: F


class CoordinatorTopic(Generic[T, F]):
    """The partitions of the topic that this broker serves or loads, the groups or transactional ids in them, and
    pending writes."""

    def __init__(
        self,
        name: str,
        outbox: CoordinatorOutbox[Any, Any, Any],
        nothing: Callable[[], F],
        lost: Callable[[int, dict[str, T], int], None],
    ) -> None:
        """`nothing` returns the empty state with which a load begins. `lost` receives a served partition that is given
        up, the states of its names, and the time."""
        self.name = name
        self.partitions: int | None = None
        """The number of partitions; None if it is unknown, or if the topic does not exist."""
        self.epochs: dict[int, int] = {}
        """The partitions that this broker serves, with their leader epochs."""
        self._outbox = outbox
        self._nothing = nothing
        self._lost = lost
        self._state: dict[int, dict[str, T]] = {}
        """The state of each name, by partition. It has the same keys as `epochs`."""
        self._loading: dict[int, _Loading[F]] = {}
        """Partitions that are being loaded; none of them is in `epochs`."""
        self._seen: dict[int, int] = {}
        """The newest known leader epoch of each partition. Reports of earlier epochs are ignored."""
        self._loads = 0
        self._writing: dict[AppendId, _Write] = {}
        """Pending writes, all to partitions of `epochs`."""
        self._last_append = 0

    def succeed(self, former: Self) -> None:
        """Take over from a coordinator whose state may be inconsistent: load each partition that it served or was
        loading."""
        self.partitions = former.partitions
        self._loads = former._loads
        self._last_append = former._last_append  # late outcomes of the former coordinator's writes match no new write
        for partition in (*former.epochs, *former._loading):
            self.elected(partition, former._seen[partition])
        self._seen = dict(former._seen)
        former._loading.clear()

    # -- partitions ----------------------------------------------------------------------------------------

    def is_counted(self) -> bool:
        """Return whether the number of partitions is known. If not, request it."""
        if self.partitions is None:
            self._outbox.counts = True
        return self.partitions is not None

    def changed(self) -> None:
        """Request the number of partitions, because the topic was created, deleted, or re-created.

        The state of a deleted topic is dropped when this broker's roles in its partitions end.
        """
        self.partitions = None
        self._outbox.counts = True

    def role_taken(self, taken: RoleTaken, now: int) -> None:
        """Load or give up a partition after a change of this broker's role."""
        self.is_counted()
        partition = taken.where.partition
        if taken.leads:
            self.elected(partition, taken.epoch)
        else:
            self.resigned(partition, None if taken.leads is None else taken.epoch, now)

    def elected(self, partition: int, epoch: int) -> None:
        """Load a partition that this broker leads now. If the partition is already served or being loaded, this broker
        was re-elected and the log is unchanged: keep the loaded state, or continue the load. Ignore an epoch that is
        not newer than the newest known one."""
        if epoch <= self._seen.get(partition, -1):
            return
        self._seen[partition] = epoch
        if partition in self.epochs:
            self.epochs[partition] = epoch
        elif partition in self._loading:
            self._loading[partition].epoch = epoch
        else:
            self._loads += 1
            self._loading[partition] = _Loading(self._loads, epoch, self._nothing())
            self._outbox.loads.append(Load(partition, epoch, self._loads))

    def awaits(self, load: Load) -> bool:
        """Return whether a load is still needed. It is not if the partition was given up, or is served already."""
        loading = self._loading.get(load.partition)
        return loading is not None and loading.number == load.number

    def found(self, load: Load) -> F | None:
        """Return the state loaded so far; None if the load is not needed any more."""
        return self._loading[load.partition].found if self.awaits(load) else None

    def found_in(self, partition: int) -> F | None:
        """Return the state loaded so far for a partition; None if it is not being loaded."""
        loading = self._loading.get(partition)
        return None if loading is None else loading.found

    def serve(self, load: Load, state: dict[str, T]) -> int:
        """Serve a partition from now on, with this state. Return its leader epoch."""
        epoch = self.epochs[load.partition] = self._loading.pop(load.partition).epoch
        self._state[load.partition] = state
        return epoch

    def resigned(self, partition: int, epoch: int | None, now: int) -> None:
        """Give up a partition that this broker no longer leads. `epoch` is None if this broker has no role in it any
        more. Ignore an epoch that is earlier than the newest known one."""
        if epoch is None:
            self._seen.pop(partition, None)  # If the topic is re-created, its leader epochs start again.
        elif epoch < self._seen.get(partition, -1):
            return
        else:
            self._seen[partition] = epoch
        self._loading.pop(partition, None)
        if self.epochs.pop(partition, None) is None:
            return
        self._lost(partition, self._state.pop(partition), now)
        for ident in [ident for ident, each in self._writing.items() if each.partition == partition]:
            # The new leader may or may not have the records. A write that cannot be confirmed counts as refused.
            self._writing.pop(ident).done(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, now)

    def resign_all(self, now: int) -> None:
        """Give up all partitions, because other brokers may lead them now.

        Their epochs stay known, so that only a newer election counts.
        """
        for partition in (*self.epochs, *self._loading):
            self.resigned(partition, self._seen[partition], now)

    @property
    def loading(self) -> Collection[int]:
        return self._loading.keys()

    # -- names ---------------------------------------------------------------------------------------------

    def partition_of(self, name: str) -> int:
        assert self.partitions is not None
        return partition_of(name, self.partitions)

    def refusal(self, name: str) -> ErrorCode | None:
        """Return the error for a request about this name; None if this broker serves the name."""
        if not self.is_counted():
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = self.partition_of(name)
        if partition in self._loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if partition not in self.epochs:
            return ErrorCode.NOT_COORDINATOR
        return None

    def find(self, name: str) -> T | None:
        if self.partitions is None:
            return None  # the topic was deleted or re-created, and the old state is about to be dropped
        return self._state.get(self.partition_of(name), {}).get(name)

    def names_in(self, partition: int) -> dict[str, T]:
        """Return the names of a partition with their states; empty if this broker does not serve it."""
        return self._state.get(partition, {})

    def __iter__(self) -> Iterator[T]:
        for names in self._state.values():
            yield from names.values()

    def add(self, partition: int, name: str, state: T) -> None:
        self._state[partition][name] = state

    def remove(self, partition: int, name: str) -> None:
        del self._state[partition][name]

    # -- writes --------------------------------------------------------------------------------------------

    def write(self, partition: int, done: Done) -> AppendId:
        """Register a write. `done` is called once with the outcome, or never if the coordinator is replaced."""
        self._last_append += 1
        ident = AppendId(self._last_append)
        self._writing[ident] = _Write(partition, done)
        return ident

    def appended(self, ident: AppendId, error: ErrorCode, offset: int, now: int) -> None:
        """Handle the outcome of a write. `offset` is that of its first record, if there is no error."""
        write = self._writing.pop(ident, None)
        if write is not None:  # otherwise the partition was given up, or a former coordinator made the write
            write.done(error, offset, now)


class TopicCoordinator(Protocol[K_contra, E_contra]):
    """The interface through which a runtime drives a coordinator."""

    @property
    def topic(self) -> CoordinatorTopic[Any, Any]: ...

    def succeed(self, former: Self) -> None:
        """Replace a coordinator whose state may be inconsistent: load each partition that it served or was still
        loading."""

    def step(self, ticket: Ticket, ask: K_contra, now: int) -> None:
        """Handle a request. The ticket is answered once, or never if the coordinator is replaced."""

    @property
    def deadline(self) -> int:
        """The time of the next `tick`."""

    def tick(self, now: int) -> None: ...

    def replay(self, load: Load, offset: int, record: E_contra, producer: int | None = None) -> None:
        """Apply a record of the topic, in log order. `producer`: the id of its transactional producer, or None."""

    def replay_end(self, load: Load, offset: int, producer: int, committed: bool) -> None:
        """Apply the transaction marker of a producer."""

    def loaded(self, load: Load, now: int) -> None:
        """Serve a partition whose records have all been replayed. Ignore an obsolete load."""
