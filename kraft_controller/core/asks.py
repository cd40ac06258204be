"""What a procedure asks of the store, and what it hears.

A procedure is a generator: it yields what it wants done, all of it at once if nothing waits for anything else, and
is sent the answers in the same order. It never sees a socket, a session or a node's bytes, so whoever drives it may be
the runtime or a test. Every change is made only if this controller still is one; the driver sees to that, and
throws `ControllerMoved` into the procedure when it is not.

Who asks for nothing says: all that was decided so far stands, and may be said to brokers before what comes next.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from attrs import frozen

from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition, Version
from kraft_controller.core.state import Broker, PartitionState, Topic


class ControllerMoved(Exception):
    """Another broker is the controller. Nothing that this one asked for since has come true."""


# -- asked: of brokers -----------------------------------------------------------------------------------


@frozen
class ListBrokers:
    """And hear when one comes or goes: `Brokers`."""


@frozen
class ReadBroker:
    """And hear when it says something else of itself: `Broker`."""

    id: BrokerId


# -- of topics and partitions ------------------------------------------------------------------------------


@frozen
class ListTopics:
    """And hear when one comes or goes: `Names`."""


@frozen
class ReadTopic:
    """And hear when it changes: `Topic`."""

    name: str


@frozen
class WriteTopic:
    """If its node is still at `topic.version`."""

    topic: Topic


@frozen
class ReadState:
    """`PartitionState`, and with `watch` hear when it changes."""

    where: TopicPartition
    watch: bool = False


@frozen
class MakeState:
    """The first one of a partition."""

    where: TopicPartition
    state: PartitionState


@frozen
class WriteState:
    """If its node is still at `state.version`."""

    where: TopicPartition
    state: PartitionState


@frozen
class ReadConfig:
    """Of a topic: `Config`."""

    topic: str


@frozen
class ReadBrokerConfig:
    """What is configured for a broker while it runs, or (None) for all of them: `Config`."""

    broker: BrokerId | None


@frozen
class TakeConfigChanges:
    """Whose configuration has changed since the note of this number, and hear of more: `ConfigChanges`.

    The notes stay, for the brokers. None: only the number of the newest.
    """

    seen: int | None
    of: int = 0
    """The zxid that made the node they are below: if somebody removes it, the next one counts anew."""


@frozen
class ForgetTopic:
    """All that is known of it, its configuration, and the request to delete it: in this order.

    `Changed` where others make nodes below it as fast as they are removed: then the request is left."""

    name: str


# -- of requests that people and brokers left ----------------------------------------------------------------


@frozen
class ListDeletions:
    """Topics to be deleted, and hear when there is another: `Names`."""


@frozen
class DropDeletion:
    """The request, and not the topic. With what is left of a topic that is gone: its configuration."""

    name: str


@frozen
class ReadMoves:
    """The reassignments asked for through the node, and hear when there are some: `Moves`."""


@frozen
class DropMoves:
    """These are dealt with. The node goes when nothing is left in it."""

    partitions: tuple[TopicPartition, ...]
    targets: tuple[tuple[BrokerId, ...], ...] = ()
    """To each of them what was wanted, so that what somebody wants instead since stays; none: whatever is wanted."""

    def left(self, wanted: Mapping[TopicPartition, tuple[BrokerId, ...]]) -> dict[TopicPartition, tuple[BrokerId, ...]]:
        """Of what the node asks for."""
        dealt = dict(zip(self.partitions, self.targets, strict=True)) if self.targets else {}
        named = set(self.partitions)
        return {
            where: to for where, to in wanted.items() if where not in named or (self.targets and dealt[where] != to)
        }


@frozen
class ReadPreferred:
    """The elections asked for through the node, and hear when there are some: `Partitions`."""


@frozen
class DropPreferred:
    pass


@frozen
class RaiseEpoch:
    """Of controllers, to this at least. Whoever asks is none any more when it is done."""

    to: ControllerEpoch


@frozen
class TakeIsrChanges:
    """Partitions whose leaders changed their ISR, and hear of more: `Partitions`. The notes are removed."""


@frozen
class TakeLogDirEvents:
    """Brokers with a disk that failed, and hear of more: `Brokers` without epochs. The notes are removed."""


Ask: TypeAlias = (
    ListBrokers | ReadBroker | ListTopics | ReadTopic | WriteTopic | ReadState | MakeState | WriteState | ReadConfig
    | ReadBrokerConfig | TakeConfigChanges
    | ForgetTopic | ListDeletions | DropDeletion | ReadMoves | DropMoves | ReadPreferred | DropPreferred
    | TakeIsrChanges | TakeLogDirEvents | RaiseEpoch
)  # fmt: skip

# -- heard -----------------------------------------------------------------------------------------------


@frozen
class Brokers:
    epochs: Mapping[BrokerId, BrokerEpoch]


@frozen
class Names:
    names: tuple[str, ...]


@frozen
class Moves:
    wanted: Mapping[TopicPartition, tuple[BrokerId, ...]]


@frozen
class Partitions:
    partitions: tuple[TopicPartition, ...]
    unclean: bool = False
    """Of elections: by anybody who is alive, where nobody leads."""


@frozen
class Config:
    values: Mapping[str, str]


@frozen
class ConfigChanges:
    entities: tuple[str, ...]
    """As `topics/t`, each once."""
    seen: int
    of: int = 0


@frozen
class Done:
    version: Version = Version(0)


@frozen
class Missing:
    """There is no such node."""


@frozen
class Changed:
    """It is at another version, or is there already. Nothing was done."""


@frozen
class Damaged:
    """What the node holds is not to be read. It is left as it is, and so is what it is about."""

    why: str
    written: int = 0
    """The zxid of the write that left it so."""


Answer: TypeAlias = (
    Broker
    | Topic
    | PartitionState
    | Brokers
    | Names
    | Moves
    | Partitions
    | Config
    | ConfigChanges
    | Done
    | Missing
    | Changed
    | Damaged
)

T = TypeVar("T")
Steps: TypeAlias = Generator[Sequence[Ask], Sequence[Answer], T]


def play(steps: Steps[T], answer: Callable[[Sequence[Ask]], Sequence[Answer]]) -> T:
    """Drive a procedure with a function from asks to answers, as tests and simulations do."""
    heard: Sequence[Answer] | None = None
    while True:
        try:
            asked = next(steps) if heard is None else steps.send(heard)
        except StopIteration as stop:
            result: T = stop.value
            return result
        heard = answer(asked) if asked else ()
