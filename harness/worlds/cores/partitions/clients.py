"""Producers and consumers of partitions.

A producer with acks=all is idempotent. It numbers its batches, has a few of them in flight, and repeats each of them
until it receives a definite outcome. Some of its requests arrive twice, the second time late or at a new leader. Now
and then its connection breaks, and it sends all batches in flight again while the first requests still wait. The other
producers do not number their batches. Those with acks=none send each batch once, those with acks=one repeat it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final

from attrs import define

from harness.checkers.partitions.copies import sequence_after
from harness.checkers.partitions.producers import BATCHES
from harness.checkers.partitions.stability import visible
from harness.checkers.transactions import Read
from harness.worlds.cores.partitions.simulator import PartitionsSimulator
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.core.replica_messages import CONSUMER, Deleted, Fetch, Fetched, FetchPartition, Produced
from replica.wire.batch import walk
from replica.wire.records import Record, build

RETRY_US: Final = 25_000
ANSWER_US: Final = 450_000
"""The time for which a client waits for the reply to a request without a timeout."""
LATE_US: Final = 150_000
"""The time for which a client waits for a reply after the timeout of its request."""
POLL_MS: Final = 120
UNDER_WAY: Final = (1, 3, 5)
"""The largest number of batches in flight, by the number of the producer."""
ACKS: Final = {"all": -1, "one": 1, "none": 0}
TWICE_SHARE: Final = 0.4
"""The share of runs in which idempotent requests arrive twice now and then."""
TWICE: Final = 0.1
"""The probability in such a run that a request arrives a second time."""
TWICE_US: Final = 1_500_000
"""The longest delay of a second arrival. Short delays mix requests in flight, and long ones span a restart."""
BREAKS: Final = 0.03
"""The probability in any run that the connection breaks soon after a request of an idempotent producer."""
BREAKS_US: Final = 60_000
"""The longest time from the request until the connection breaks."""
ANEW: Final = 0.9
"""The probability in any run that an acknowledged batch arrives once more at a new leader."""
FIRST_SEQUENCE: Final = 0
"""The sequence of the first batch of a producer id. After 2**31 - 1 comes 0."""
OUT_OF_ORDER: Final = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH)


class Party:
    """A client that looks for the leader of a partition and sends it requests."""

    def __init__(self, world: PartitionsSimulator, number: int, where: TopicPartition, kind: str) -> None:
        self.world = world
        self.later = world.later
        self.number = number
        self.where = where
        self.timeout_ms = world.replication.timeout_ms
        self.random = Random(f"{world.script.seed}/{kind}/{number}/{where}")

    def found(self, named_by: Callable[[Any], int | None], random: Random | None = None) -> Any:
        """Ask a random broker for the broker that it names, a leader or a coordinator. Return None if there is none, or
        no reply."""
        brokers = self.world.brokers
        broker = brokers[1 + int((random or self.random).random() * len(brokers))]
        if not broker.up or broker.paused or not self.world.wires.reach(-self.number, broker.id):
            return None
        named = named_by(broker)
        return None if named is None else brokers[named]

    def leader(self) -> Any:
        return self.found(lambda broker: broker.metadata.leader(self.where))

    def replica(self) -> Any:
        """Return the leader, or sometimes any broker if consumers read from all replicas."""
        broker, brokers = self.leader(), self.world.brokers
        if broker is not None and self.world.reads_anywhere and self.random.random() < 0.5:
            return brokers[1 + int(self.random.random() * len(brokers))]
        return broker

    def ask(self, broker: Any, act: Callable[[], None], refused: Callable[[], None]) -> None:
        """Send a request: `act` runs at the broker, or `refused` at the client if the broker is down."""

        def arrive() -> None:
            if broker.up:
                broker.soon(act)
            else:
                self.reply(broker, refused)

        self.world.wires.send(-self.number, broker.id, arrive)

    def reply(self, broker: Any, act: Callable[[], None]) -> None:
        self.world.wires.send(broker.id, -self.number, act)

    def request(
        self,
        broker: Any,
        act: Callable[[Callable[[Any], None]], None],
        on_reply: Callable[[Any], None],
        wait_us: int = ANSWER_US,
    ) -> None:
        """Send a request: `act` runs at the broker, and receives the function to reply with.

        `on_reply` receives the first reply. It receives None if the broker is down or None, or does not reply in time.
        """
        if broker is None:
            self.later(RETRY_US, partial(on_reply, None))
            return
        over = False

        def receive(reply: Any) -> None:
            nonlocal over
            if not over:
                over = True
                on_reply(reply)

        self.ask(
            broker,
            lambda: act(lambda reply: self.reply(broker, partial(receive, reply))),
            partial(receive, None),
        )
        self.later(wait_us, partial(receive, None))


@define(eq=False)
class Batch:
    values: list[bytes]
    sequence: int
    tries: int = 0
    under_way: bool = False
    data: bytes = b""


class Producer(Party):
    """A producer with one setting of acks, in one partition."""

    def __init__(self, world: PartitionsSimulator, number: int, where: TopicPartition, acks: str) -> None:
        super().__init__(world, number, where, f"producer {acks}")
        self.acks = acks
        self.numbered = acks == "all"
        self.most = UNDER_WAY[number % len(UNDER_WAY)]
        self._line: list[Batch] = []
        self._made = 0
        self._broker: Any = None
        self._process = 0, 0
        """The broker and its life of the leader process that the producer found last."""
        self._resting = False
        self._repeats = Random(f"{world.script.seed}/repeats/{number}/{where}")
        self._twice = TWICE if Random(f"{world.script.seed}/repeats").random() < TWICE_SHARE else 0.0
        self._begin()

    def _begin(self) -> None:
        self._id = self.world.new_producer() if self.numbered else -1
        self._sequence = FIRST_SEQUENCE
        self._stored: deque[Batch] = deque(maxlen=BATCHES)
        """The last acknowledged batches, of which a leader recognizes duplicates."""

    @property
    def settled(self) -> bool:
        return not self._line

    def give(self, count: int) -> None:
        for _ in range(count):
            values = []
            for _ in range(1 + int(self.random.random() * 2.5)):
                self._made += 1
                values.append(b"%d.%s.%d" % (self.number, self.acks.encode(), self._made))
            self._line.append(Batch(values, self._sequence))
            self._sequence = sequence_after(self._sequence, len(values))
            self.world.counted("batches given")
        self._pump()

    def forget(self) -> None:
        """Give up all batches, because the partition is deleted."""
        self._line.clear()

    def _pump(self) -> None:
        if self._resting or not self._line:
            return
        if self._broker is None:
            self._broker = self.leader()
            if self._broker is None:
                self._rest()
                return
            self._found(self._broker)
        under_way = sum(batch.under_way for batch in self._line)
        for batch in self._line[: self.most]:
            if under_way >= self.most:
                break
            if not batch.under_way:
                under_way += 1
                self._say(self._broker, batch)
        if self.acks == "none":
            self._line.clear()

    def _found(self, leader: Any) -> None:
        """Repeat an acknowledged batch at a new leader process, which may have it only in its files."""
        before, self._process = self._process, (leader.id, leader.life)
        if before == self._process or not self._stored or self._repeats.random() >= ANEW:
            return
        oldest = self._repeats.random() < 0.7
        batch = self._stored[0 if oldest else int(self._repeats.random() * len(self._stored))]
        self.world.counted("batches repeated at a new leader")
        self._repeat_at(leader, batch, batch.data)

    def _rest(self) -> None:
        self._resting = True
        self.later(RETRY_US, self._go_on)

    def _go_on(self) -> None:
        self._resting = False
        self._pump()

    def _say(self, broker: Any, batch: Batch) -> None:
        batch.under_way = True
        batch.tries += 1
        number, ident, base, values = batch.tries, self._id, batch.sequence, batch.values
        clock = broker.clock()
        records = [Record(place, clock, None, value) for place, value in enumerate(values)]
        if self.numbered:
            data = build(records, producer_id=ident, producer_epoch=0, base_sequence=base)
        else:
            data = build(records)
        batch.data = data

        def on_reply(error: ErrorCode) -> None:
            if batch.under_way and batch.tries == number and self._id == ident:
                self._replied(batch, error)

        def answer(results: list[Produced]) -> None:
            [result] = results
            if result.error is ErrorCode.NONE and self.acks == "all":
                self.world.checkers.commitment.acknowledged(broker, self.where, result.base_offset, values)
            if self.acks != "none":
                self.reply(broker, lambda: on_reply(result.error))

        self.ask(
            broker,
            lambda: broker.produce(ACKS[self.acks], self.timeout_ms, self.where, data, answer),
            lambda: on_reply(ErrorCode.NETWORK_EXCEPTION),
        )
        if self.numbered and self._repeats.random() < self._twice:
            self.later(int(self._repeats.random() ** 4 * TWICE_US), lambda: self._repeat(broker, batch, data))
        if self.numbered and self._repeats.random() < BREAKS:
            self.later(int(self._repeats.random() * BREAKS_US), self._break)
        if self.acks != "none":
            self.later(self.timeout_ms * 1_000 + LATE_US, lambda: on_reply(ErrorCode.REQUEST_TIMED_OUT))

    def _break(self) -> None:
        """Lose the replies to all requests in flight, and send their batches again."""
        self.world.counted("producer connections broken")
        for batch in self._line:
            batch.under_way = False
        self._pump()

    def _repeat(self, broker: Any, batch: Batch, data: bytes) -> None:
        """Send a request a second time, to the present leader."""
        self._repeat_at(self.leader() or broker, batch, data)

    def _repeat_at(self, broker: Any, batch: Batch, data: bytes) -> None:
        """Send a batch once more. The producer does not wait for the reply."""

        def answer(results: list[Produced]) -> None:
            [result] = results
            self.world.counted("batches repeated")
            if result.error is ErrorCode.NONE:
                self.world.checkers.commitment.acknowledged(broker, self.where, result.base_offset, batch.values)

        act = partial(broker.produce, ACKS[self.acks], self.timeout_ms, self.where, data, answer)
        self.ask(broker, act, lambda: None)

    def _replied(self, batch: Batch, error: ErrorCode) -> None:
        batch.under_way = False
        if error is ErrorCode.NONE:
            self._line.remove(batch)
            if self.numbered:
                self._stored.append(batch)
            self.world.counted(f"acknowledged {self.acks}")
            if self.acks == "all":
                self.world.acknowledged_at.append(self.world.now)
            self._pump()
            return
        self.world.counted(f"produce {error.name}")
        if error in OUT_OF_ORDER and batch is self._line[0]:
            self._out_of_order()
        if not self.numbered and batch.tries >= 3:
            self._line.remove(batch)
        self._broker = None
        if not self._resting:
            self._rest()

    def _out_of_order(self) -> None:
        """Renumber the batches, with a new producer id, because the oldest open batch was refused."""
        self.world.checkers.producers.gives_up(self._id)
        self._begin()
        for batch in self._line:
            batch.under_way = False
            batch.sequence = self._sequence
            self._sequence = sequence_after(self._sequence, len(batch.values))


class Consumer(Party):
    """A client that reads a partition from the beginning until the run ends.

    With `committed` its isolation level is read_committed.
    """

    def __init__(
        self, world: PartitionsSimulator, number: int, where: TopicPartition, *, committed: bool = False
    ) -> None:
        super().__init__(world, number, where, "consumer")
        self.offset = 0
        self.committed = committed
        self._poll()

    def _poll(self) -> None:
        if self.world.over:
            return
        broker = self.replica()
        if broker is None:
            self.later(POLL_MS * 1_000, self._poll)
            return
        offset = self.offset
        wanted = FetchPartition(self.where, offset, 1 << 16)
        anywhere = self.world.reads_anywhere
        asked = Fetch((wanted,), CONSUMER, wait_ms=POLL_MS, committed=self.committed, any_replica=anywhere)

        def answer(reply: Callable[[Any], None], results: list[Fetched]) -> None:
            [result] = results
            if result.error is ErrorCode.NONE:
                self.world.checkers.commitment.delivered(broker, self.where, offset, result.records)
                if self.committed:
                    self.world.checkers.stability.delivered(broker, self.where, offset, result)
            reply((result, broker.earliest(self.where)))

        self.request(broker, lambda reply: broker.fetch(asked, partial(answer, reply)), self._replied)

    def _replied(self, reply: tuple[Fetched, int] | None) -> None:
        if reply is not None:
            self.take(*reply)
        self.later(5_000 if reply is not None and reply[0].records else POLL_MS * 500, self._poll)

    def take(self, result: Fetched, begins: int) -> None:
        """Process an answer for the consumer's offset. `begins` is the first offset of the broker's log."""
        if result.error is ErrorCode.NONE and result.records:
            last = [header for _, header in walk(result.records)][-1]
            if self.committed:
                seen = tuple(visible(result, self.offset))
                self.world.journal.reads.append(Read(str(self.where), self.offset, last.next_offset, seen))
            self.offset = last.next_offset
            self.world.counted("committed reads" if self.committed else "reads")
        elif result.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self.offset = begins


class Deleter(Party):
    """A client that requests a deletion of records until a leader has replied, a limited number of times."""

    TRIES: Final = 20

    def __init__(self, world: PartitionsSimulator, number: int, where: TopicPartition, percent: int) -> None:
        super().__init__(world, number, where, "deleter")
        self._percent = percent
        self._tries = 0
        self._over = False
        self._ask()

    def _ask(self) -> None:
        self._tries += 1
        if self._over or self.world.over or self._tries > self.TRIES:
            return
        self.later(self.timeout_ms * 1_000 + LATE_US, self._ask)
        broker = self.leader()
        if broker is None:
            return

        def answer(results: list[Deleted]) -> None:
            [result] = results
            self.reply(broker, lambda: self._replied(result))

        self.ask(
            broker, lambda: broker.delete_records(self.timeout_ms, self.where, self._percent, answer), lambda: None
        )

    def _replied(self, result: Deleted) -> None:
        self.world.counted(f"delete records {result.error.name}")
        self._over = self._over or result.error in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE)
