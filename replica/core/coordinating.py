"""A coordinator that lives on an internal topic, whatever it coordinates: which partitions of it are its own, what it
knows of whoever falls into these, and what is being written.

    coordinator.elected(partition, epoch)         # this broker leads a partition of the topic: load it
    coordinator.loaded(load, now)                 # all of it was read: from now on it is answered for
    coordinator.resigned(partition, epoch, now)   # somebody else leads it
    coordinator.appended(append.id, NONE, offset, now)

A name falls into a partition of the topic, and its coordinator is that partition's leader. What is known of a partition
stands in it: so whoever comes next has read it, and what whoever was before had not written yet counts as refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from typing import Any, Generic, NewType, Self, TypeAlias, TypeVar

from attrs import define, field, frozen

from replica.core.errors import ErrorCode
from replica.core.groups.partitioning import partition_of

Ticket = NewType("Ticket", int)
AppendId = NewType("AppendId", int)

# What is asked, and answered; written to the topic; told to whoever reads logs.
K = TypeVar("K")
R = TypeVar("R")
A = TypeVar("A")
N = TypeVar("N")
# What is known of one name; and of a partition that is being read.
T = TypeVar("T")
F = TypeVar("F")


@frozen
class Load:
    """Read this partition of the topic from its start, `replay` what is found, and say `loaded`.

    Not before everything that was in the log when the leader was elected is known to be on every replica in sync: what
    is shown to anybody must not be lost with this leader.
    """

    partition: int
    epoch: int
    number: int
    """No two loads have the same: whoever still reads for one that is over is not heard."""


@frozen
class Answer(Generic[R]):
    ticket: Ticket
    reply: R


@frozen
class Ready(Generic[R, A, N]):
    """What the world should do. Nothing in here needs to wait for anything else in here: an answer that has to wait for
    a record comes later."""

    answers: tuple[Answer[R], ...] = field(default=())
    appends: tuple[A, ...] = field(default=())
    loads: tuple[Load, ...] = field(default=())
    notes: tuple[N, ...] = field(default=())


Done: TypeAlias = Callable[[ErrorCode, int, int], None]
"""What came of a write: NONE and where it stands, or the error; and the time."""


@define(eq=False)
class Writing:
    partition: int
    done: Done


@define(eq=False)
class TopicDesk(Generic[R, A, N]):
    """What all parts of a coordinator work with.

    epochs   partitions of the topic that are answered for, and under which epoch they are led
    """

    epochs: dict[int, int] = field(factory=dict, init=False)
    writing: dict[AppendId, Writing] = field(factory=dict, init=False)
    answers: list[Answer[R]] = field(factory=list, init=False)
    appends: list[A] = field(factory=list, init=False)
    loads: list[Load] = field(factory=list, init=False)
    notes: list[N] = field(factory=list, init=False)
    _last_append: int = field(default=0, init=False)

    def answer(self, ticket: Ticket, reply: R) -> None:
        self.answers.append(Answer(ticket, reply))

    def note(self, note: N) -> None:
        self.notes.append(note)

    def count_on(self, former: Self) -> None:
        """Use no number again that a former desk has given out: what is under way for it may still be reported."""
        self._last_append = former._last_append

    def writes(self, partition: int, done: Done) -> AppendId:
        self._last_append += 1
        ident = AppendId(self._last_append)
        self.writing[ident] = Writing(partition, done)
        return ident


@define(eq=False)
class _Loading(Generic[F]):
    number: int
    epoch: int
    found: F


class TopicCoordinator(ABC, Generic[K, T, F]):
    def __init__(self, desk: TopicDesk[Any, Any, Any], nothing: Callable[[], F]) -> None:
        """`nothing`: what a load begins with."""
        self.partitions: int | None = None
        """How many the topic has; None: there is none yet, as far as this broker knows."""
        self._led = desk
        self._nothing = nothing
        self._here: dict[int, dict[str, T]] = {}
        """By partition and name. Of every partition that is answered for, and of no other."""
        self._loading: dict[int, _Loading[F]] = {}
        self._seen: dict[int, int] = {}
        """The newest epoch that was heard of, of each partition: who speaks of an older one comes too late."""
        self._loads = 0

    def succeed(self, former: Self) -> None:
        """Take the place of a coordinator whose state is in doubt: load everything that it led."""
        self.partitions = former.partitions
        self._loads = former._loads
        self._led.count_on(former._led)
        for partition in (*former._led.epochs, *former._loading):
            self.elected(partition, former._seen[partition])
        self._seen = dict(former._seen)

    @abstractmethod
    def step(self, ticket: Ticket, ask: K, now: int) -> None:
        """Somebody asks."""

    @property
    @abstractmethod
    def deadline(self) -> int: ...

    @abstractmethod
    def tick(self, now: int) -> None:
        """Not before the deadline."""

    @abstractmethod
    def loaded(self, load: Load, now: int) -> None:
        """All of it was read. From now on it is answered for."""

    @abstractmethod
    def _lost(self, partition: int, things: dict[str, T], now: int) -> None:
        """These are somebody else's from now on. What is being written for them is refused next."""

    # -- whose partitions ------------------------------------------------------------------------------------

    def elected(self, partition: int, epoch: int) -> None:
        """This broker leads it. One that led it already goes on: nothing of its log can have changed meanwhile."""
        if epoch <= self._seen.get(partition, -1):
            return
        self._seen[partition] = epoch
        if partition in self._led.epochs:
            self._led.epochs[partition] = epoch
        elif partition in self._loading:
            self._loading[partition].epoch = epoch
        else:
            self._loads += 1
            self._loading[partition] = _Loading(self._loads, epoch, self._nothing())
            self._led.loads.append(Load(partition, epoch, self._loads))

    def awaits(self, load: Load) -> bool:
        """Whether it is still of use. Not when the partition was lost meanwhile, even if it was won again."""
        loading = self._loading.get(load.partition)
        return loading is not None and loading.number == load.number

    def _found(self, load: Load) -> F | None:
        """What was read until now; None: nobody awaits it any more."""
        return self._loading[load.partition].found if self.awaits(load) else None

    def _serve(self, load: Load, things: dict[str, T]) -> int:
        """It is led here, and this is known of it. Returns under which epoch."""
        epoch = self._led.epochs[load.partition] = self._loading.pop(load.partition).epoch
        self._here[load.partition] = things
        return epoch

    def resigned(self, partition: int, epoch: int | None, now: int) -> None:
        """Somebody else leads it, or nobody. `epoch` None: this broker has no replica of it any more."""
        if epoch is None:
            self._seen.pop(partition, None)  # a topic that is made anew counts its epochs anew
        elif epoch < self._seen.get(partition, -1):
            return
        else:
            self._seen[partition] = epoch
        self._loading.pop(partition, None)
        if self._led.epochs.pop(partition, None) is None:
            return
        self._lost(partition, self._here.pop(partition), now)
        writing = self._led.writing
        for ident in [ident for ident, each in writing.items() if each.partition == partition]:
            # Written or not: whoever leads now decides. What nobody may confirm any more is refused.
            writing.pop(ident).done(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, now)

    def resign_all(self, now: int) -> None:
        """Somebody else may lead all that was led here. Whatever is led here again is so under a newer epoch."""
        for partition in (*self._led.epochs, *self._loading):
            self.resigned(partition, self._seen[partition], now)

    # -- whose names -----------------------------------------------------------------------------------------

    def _place(self, name: str) -> int:
        assert self.partitions is not None
        return partition_of(name, self.partitions)

    def _not_here(self, name: str) -> ErrorCode | None:
        """Why nothing can be said of it here and now."""
        if self.partitions is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if self._place(name) in self._loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if self._place(name) not in self._led.epochs:
            return ErrorCode.NOT_COORDINATOR
        return None

    def _find(self, name: str) -> T | None:
        if self.partitions is None:
            return None  # the topic was deleted, and what was known of it is about to go
        return self._here.get(self._place(name), {}).get(name)

    def _all(self) -> Iterator[T]:
        for things in self._here.values():
            yield from things.values()

    @property
    def loading(self) -> Collection[int]:
        return self._loading.keys()

    def epoch(self, partition: int) -> int | None:
        """Under which it is answered for; None: it is not."""
        return self._led.epochs.get(partition)

    # -- what comes of writes --------------------------------------------------------------------------------

    def appended(self, ident: AppendId, error: ErrorCode, offset: int, now: int) -> None:
        """`offset`: of the first record, where there is no error."""
        writing = self._led.writing.pop(ident, None)
        if writing is not None:  # else nobody waits for it: its partition has another leader
            writing.done(error, offset, now)


U = TypeVar("U")


def taken(things: list[U]) -> tuple[U, ...]:
    """All of them; the list is empty then."""
    found = tuple(things)
    things.clear()
    return found
