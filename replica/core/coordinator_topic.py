"""The internal topic of a coordinator, for groups and for transactions alike.

A name falls into a partition of the topic, and the leader of that partition coordinates the name. The state of a name
is in the partition: the next coordinator reads it, and writes that were under way count as refused.

    topic.role_taken(taken, now)             this broker leads a partition, whose state is loaded, or leads it no more
    coordinator.loaded(load, now)            all of it was read: the coordinator answers for its names from now on
    topic.appended(append.id, NONE, offset, now)
    topic.partitions = count                 the answer to `CoordinatorReady.counts`
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Generic, NewType, Protocol, Self, TypeAlias, TypeVar

from attrs import define, field, frozen

from replica.core.errors import ErrorCode
from replica.core.groups.partitioning import partition_of
from replica.core.replica_messages import RoleTaken

Ticket = NewType("Ticket", int)
AppendId = NewType("AppendId", int)

# A request and its reply; a record of the topic; a write to the topic; a message for operators.
K_contra = TypeVar("K_contra", contravariant=True)
E_contra = TypeVar("E_contra", contravariant=True)
R = TypeVar("R")
A = TypeVar("A")
N = TypeVar("N")
# The state of one name; the state of a partition that is being read.
T = TypeVar("T")
F = TypeVar("F")


@frozen
class Load:
    """A request to load a partition of the topic: see `replica.core.coordinator_loader`."""

    partition: int
    epoch: int
    number: int
    """Unique, so that a reader of a load that is over is ignored."""


@frozen
class Answer(Generic[R]):
    """The reply to the request of a ticket."""

    ticket: Ticket
    reply: R


@frozen
class CoordinatorReady(Generic[R, A, N]):
    """Work for the runtime. No part waits for another: an answer that waits for a record comes in a later one."""

    answers: tuple[Answer[R], ...] = field(default=())
    appends: tuple[A, ...] = field(default=())
    loads: tuple[Load, ...] = field(default=())
    notes: tuple[N, ...] = field(default=())
    counts: bool = field(default=False)
    """The number of partitions of the topic is needed, and unknown."""


@define(eq=False)
class CoordinatorOutbox(Generic[R, A, N]):
    """Collects the effects of a coordinator for the runtime."""

    answers: list[Answer[R]] = field(factory=list)
    appends: list[A] = field(factory=list)
    loads: list[Load] = field(factory=list)
    notes: list[N] = field(factory=list)
    """Messages for operators."""
    counts: bool = False

    def answer(self, ticket: Ticket, reply: R) -> None:
        self.answers.append(Answer(ticket, reply))

    def note(self, note: N) -> None:
        self.notes.append(note)

    def take(self) -> tuple[tuple[Answer[R], ...], tuple[A, ...], tuple[Load, ...], tuple[N, ...], bool]:
        """Return all effects and begin anew."""
        taken = tuple(self.answers), tuple(self.appends), tuple(self.loads), tuple(self.notes), self.counts
        self.counts = False
        for each in (self.answers, self.appends, self.loads, self.notes):
            each.clear()
        return taken


Done: TypeAlias = Callable[[ErrorCode, int, int], None]
"""Receives the outcome of a write: NONE and the offset of the first record, or the error; and the time."""


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
    """The partitions of the topic that this broker leads, the state of their names, and writes under way."""

    def __init__(
        self,
        name: str,
        outbox: CoordinatorOutbox[Any, Any, Any],
        nothing: Callable[[], F],
        lost: Callable[[int, dict[str, T], int], None],
    ) -> None:
        """`nothing` makes the state that a load begins with. `lost` gives up the names of a partition at a time."""
        self.name = name
        self.partitions: int | None = None
        """The number of partitions; None while it is unknown, perhaps because there is no topic."""
        self.epochs: dict[int, int] = {}
        """The partitions that this broker answers for, with their leader epochs."""
        self._outbox = outbox
        self._nothing = nothing
        self._lost = lost
        self._state: dict[int, dict[str, T]] = {}
        """State of each name, by partition; same keys as `epochs`."""
        self._loading: dict[int, _Loading[F]] = {}
        """Partitions that are being loaded; none of them is in `epochs`."""
        self._seen: dict[int, int] = {}
        """The newest known leader epoch of each partition. News of earlier ones come too late."""
        self._loads = 0
        self._writing: dict[AppendId, _Write] = {}
        """Writes without an outcome, to partitions of `epochs`."""
        self._last_append = 0

    def succeed(self, former: Self) -> None:
        """Take the place of a topic whose state is in doubt: load every partition that it led. Its own loads end."""
        self.partitions = former.partitions
        self._loads = former._loads
        self._last_append = former._last_append  # outcomes of its writes may still be reported
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
        """Count the partitions anew: the topic was deleted, perhaps re-created. Loaded state ends with the roles."""
        self.partitions = None
        self._outbox.counts = True

    def role_taken(self, taken: RoleTaken, now: int) -> None:
        """Take or give up a partition with this broker's new role in it."""
        self.is_counted()
        partition = taken.where.partition
        if taken.leads:
            self.elected(partition, taken.epoch)
        else:
            self.resigned(partition, None if taken.leads is None else taken.epoch, now)

    def elected(self, partition: int, epoch: int) -> None:
        """Lead a partition. If this broker led it already, nothing in its log has changed, and it goes on."""
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
        """Return whether a load is still needed. After the loss of its partition it is not, even after an election."""
        loading = self._loading.get(load.partition)
        return loading is not None and loading.number == load.number

    def found(self, load: Load) -> F | None:
        """Return the records read so far, or None if the load is not needed any more."""
        return self._loading[load.partition].found if self.awaits(load) else None

    def found_in(self, partition: int) -> F | None:
        """Return the records read so far of a partition that is being loaded."""
        loading = self._loading.get(partition)
        return None if loading is None else loading.found

    def serve(self, load: Load, state: dict[str, T]) -> int:
        """Answer for a partition from now on, with this state. Return its leader epoch."""
        epoch = self.epochs[load.partition] = self._loading.pop(load.partition).epoch
        self._state[load.partition] = state
        return epoch

    def resigned(self, partition: int, epoch: int | None, now: int) -> None:
        """Give up a partition that another broker leads, or none. `epoch` None: this broker has no replica any more."""
        if epoch is None:
            self._seen.pop(partition, None)  # a new topic of the same name counts its epochs anew
        elif epoch < self._seen.get(partition, -1):
            return
        else:
            self._seen[partition] = epoch
        self._loading.pop(partition, None)
        if self.epochs.pop(partition, None) is None:
            return
        self._lost(partition, self._state.pop(partition), now)
        for ident in [ident for ident, each in self._writing.items() if each.partition == partition]:
            # The new leader decides whether it was written. A write that cannot be confirmed counts as refused.
            self._writing.pop(ident).done(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, now)

    def resign_all(self, now: int) -> None:
        """Give up all partitions: other brokers may lead them. A later election has a newer epoch."""
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
        """Return the error of a request for a name that this broker does not answer for now."""
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
            return None  # the topic was deleted, and its state is about to go
        return self._state.get(self.partition_of(name), {}).get(name)

    def names_in(self, partition: int) -> dict[str, T]:
        """Return the state of a partition that this broker answers for; empty for others."""
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
        """Begin a write. `done` is called once."""
        self._last_append += 1
        ident = AppendId(self._last_append)
        self._writing[ident] = _Write(partition, done)
        return ident

    def appended(self, ident: AppendId, error: ErrorCode, offset: int, now: int) -> None:
        """Report the outcome of a write. `offset`: of the first record, without an error."""
        write = self._writing.pop(ident, None)
        if write is not None:  # else its partition has another leader, and the write counts as refused
            write.done(error, offset, now)


class TopicCoordinator(Protocol[K_contra, E_contra]):
    """A coordinator as its runtime drives it."""

    @property
    def topic(self) -> CoordinatorTopic[Any, Any]: ...

    def succeed(self, former: Self) -> None:
        """Take the place of a coordinator whose state is in doubt: load every partition that it led."""

    def step(self, ticket: Ticket, ask: K_contra, now: int) -> None:
        """Take a request. The ticket is answered once."""

    @property
    def deadline(self) -> int:
        """The next time at which `tick` has something to do."""

    def tick(self, now: int) -> None: ...

    def replay(self, load: Load, offset: int, record: E_contra, producer: int | None = None) -> None:
        """Apply a record of the topic, in order. `producer`: the producer of its transaction, if it has one."""

    def replay_end(self, load: Load, offset: int, producer: int, committed: bool) -> None:
        """Apply the marker of a producer's transaction."""

    def loaded(self, load: Load, now: int) -> None:
        """Answer for a partition: all of it was read. A load that is not needed any more is ignored."""
