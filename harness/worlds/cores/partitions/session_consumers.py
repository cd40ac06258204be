"""Consumers that fetch in sessions: all partitions of a client at one broker with one request, of changes only.

A client also behaves as clients do in bad networks: its requests arrive late or twice, it skips epochs, and it stops to
read a partition for a while. Other clients take its slot at the broker.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from attrs import evolve

from harness.checkers.partitions.fetch_sessions import SessionFetch, epoch_after
from harness.worlds.cores.partitions.clients import ANSWER_US, POLL_MS, Consumer
from harness.worlds.cores.partitions.consumer_sessions import SessionAnswer
from harness.worlds.cores.partitions.simulator import FETCH_BYTES, PartitionsSimulator
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.core.fetching.fetch_session_cache import BEGIN, END, NO_SESSION
from replica.core.replica_messages import Fetched, FetchPartition

SHARE: Final = 0.4
"""The share of runs whose consumers fetch in sessions."""
OWNER: Final = "User:consumer"
OTHER: Final = "User:other"
TROUBLE: Final = 0.15
"""The probability that a request goes wrong, before the last fault of the run."""
TROUBLE_US: Final = 800_000
"""The longest delay of a late request."""
PAUSE: Final = 0.02
"""The probability at each look that a client stops to read one of its partitions."""
PAUSE_US: Final = 500_000
KINDS: Final = (
    "late", "out of order", "final", "with a repeated partition", "of a larger client", "of another owner", "repeated",
)  # fmt: skip
ABSENT: Final = tuple(FetchPartition(TopicPartition("absent", number), 0, 1) for number in range(2))
MOVES: Final = 0.1
"""The probability at each look that a partition is read at another replica, if consumers read from followers."""


def uses_sessions(seed: object) -> bool:
    return Random(f"{seed}/fetch sessions").random() < SHARE


class SessionConsumer(Consumer):
    """One partition of a client that fetches in sessions."""

    def __init__(self, reader: SessionReader, where: TopicPartition, *, committed: bool) -> None:
        self.reader = reader
        self.broker: Any = None
        """The broker that it reads from; None before the client has found the leader."""
        self.paused_until = 0
        super().__init__(reader.world, reader.number, where, committed=committed)

    def _poll(self) -> None:
        """Do nothing: the reader fetches."""

    def find(self) -> None:
        """Look for the leader, or sometimes for another replica."""
        if self.broker is None or (self.world.reads_anywhere and self.random.random() < MOVES):
            self.broker = self.replica()


class SessionReader:
    """A client of several partitions, with a session at each broker that it reads from."""

    def __init__(self, world: PartitionsSimulator, number: int, *, committed: bool) -> None:
        self.world = world
        self.later = world.later
        self.number = number
        self.committed = committed
        self.consumers: list[SessionConsumer] = []
        self.random = Random(f"{world.script.seed}/fetch sessions/{number}/{committed}")
        self._connections: dict[int, Connection] = {}
        self._look()

    def consume(self, where: TopicPartition) -> SessionConsumer:
        made = SessionConsumer(self, where, committed=self.committed)
        self.consumers.append(made)
        return made

    @property
    def calm(self) -> bool:
        """True after the last fault of the run."""
        return bool(self.world.liveness.began)

    def _look(self) -> None:
        world = self.world
        if world.over:
            return
        for consumer in self.consumers:
            consumer.find()
            if not self.calm and self.random.random() < PAUSE:
                consumer.paused_until = world.now + int(self.random.random() * PAUSE_US)
            if consumer.broker is not None and consumer.broker.id not in self._connections:
                self._connections[consumer.broker.id] = Connection(self, consumer.broker)
        for connection in self._connections.values():
            connection.send()
        self.later(POLL_MS * 500, self._look)

    def wanted(self, broker: Any) -> dict[TopicPartition, FetchPartition]:
        """Return the partitions to read from a broker."""
        now, calm = self.world.now, self.calm
        return {
            each.where: FetchPartition(each.where, each.offset, FETCH_BYTES)
            for each in self.consumers
            if each.broker is broker and (calm or each.paused_until <= now)
        }


class Connection:
    """The client's half of its session at one broker, with one request at a time."""

    def __init__(self, reader: SessionReader, broker: Any) -> None:
        self._reader = reader
        self._broker = broker
        self._ident = NO_SESSION
        self._epoch = BEGIN
        self._known: dict[TopicPartition, FetchPartition] = {}
        """The partitions of the session, as the client last named them."""
        self._sent = 0
        """The number of requests that were sent or given up, which identifies the request in progress."""
        self._busy = False

    def send(self) -> None:
        reader = self._reader
        if self._busy or reader.world.over:
            return
        wanted = reader.wanted(self._broker)
        full = self._epoch == BEGIN
        if not wanted and full:
            return
        changed = tuple(part for where, part in wanted.items() if full or self._known.get(where) != part)
        forgotten = () if full else tuple(where for where in self._known if where not in wanted)
        asked = SessionFetch(
            self._ident,
            self._epoch,
            OWNER,
            changed,
            forgotten,
            POLL_MS,
            reader.committed,
            reader.world.reads_anywhere,
        )
        self._known = wanted
        self._busy = True
        self._sent += 1
        number = self._sent
        delay_us = 0
        if not reader.calm and reader.random.random() < TROUBLE:
            asked, delay_us = self._trouble(asked)

        def on_reply(answer: SessionAnswer | None, begins: dict[TopicPartition, int]) -> None:
            if number == self._sent:
                self._sent += 1
                self._busy = False
                self._replied(asked, wanted, answer, begins)

        if delay_us:
            reader.later(delay_us, lambda: self._ask(asked, wanted, lambda *_: None))
            on_reply(None, {})
            return
        self._ask(asked, wanted, on_reply)
        reader.later(ANSWER_US, lambda: on_reply(None, {}))

    def _trouble(self, asked: SessionFetch) -> tuple[SessionFetch, int]:
        """Return the request to send, and its delay if the client gives it up at once. Send other requests, whose
        responses are dropped."""
        reader, wanted = self._reader, self._known
        random = reader.random
        wait_us = int(random.random() ** 2 * TROUBLE_US)
        kind = random.choice(KINDS)
        reader.world.counted(f"fetch session request {kind}")
        match kind:
            case "late":
                return asked, 1 + (wait_us if random.random() < 0.5 else 0)
            case "out of order" if asked.epoch != BEGIN:  # as if the request before it was lost on its way
                return evolve(asked, epoch=epoch_after(asked.epoch)), 0
            case "final":
                return evolve(asked, epoch=END, parts=tuple(wanted.values()), forgotten=()), 0
            case "with a repeated partition" if asked.parts:
                return evolve(asked, parts=(evolve(asked.parts[0], offset=0), *asked.parts)), 0
            case "of a larger client":
                parts = (*wanted.values(), *ABSENT)
                second = SessionFetch(NO_SESSION, BEGIN, OTHER, parts, committed=asked.committed)
            case "of another owner":
                second = evolve(asked, owner=OTHER)
            case _:
                second = asked
        reader.later(wait_us, lambda: self._ask(second, wanted, lambda *_: None))
        return asked, 0

    def _ask(
        self,
        asked: SessionFetch,
        wanted: dict[TopicPartition, FetchPartition],
        on_reply: Callable[[SessionAnswer | None, dict[TopicPartition, int]], None],
    ) -> None:
        reader, broker = self._reader, self._broker
        if not reader.consumers:
            return
        party = reader.consumers[0]

        def answer(found: SessionAnswer) -> None:
            begins = {}
            for result in found.results:
                where = result.where
                if result.error is ErrorCode.NONE and where in wanted:
                    self._check(result, wanted[where].offset)
                elif result.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                    begins[where] = broker.earliest(where)
            party.reply(broker, lambda: on_reply(found, begins))

        party.ask(broker, lambda: broker.consumer_sessions.fetch(asked, answer), lambda: on_reply(None, {}))

    def _check(self, result: Fetched, offset: int) -> None:
        checkers, broker = self._reader.world.checkers, self._broker
        checkers.commitment.delivered(broker, result.where, offset, result.records)
        if self._reader.committed:
            checkers.stability.delivered(broker, result.where, offset, result)

    def _replied(
        self,
        asked: SessionFetch,
        wanted: dict[TopicPartition, FetchPartition],
        answer: SessionAnswer | None,
        begins: dict[TopicPartition, int],
    ) -> None:
        reader = self._reader
        if answer is None:
            self._epoch = BEGIN
            for consumer in reader.consumers:
                if consumer.broker is self._broker:
                    consumer.broker = None
            return
        if answer.error is not ErrorCode.NONE:
            self._ident = self._ident if answer.error is ErrorCode.INVALID_FETCH_SESSION_EPOCH else NO_SESSION
            self._epoch = BEGIN
            return
        self._ident = answer.ident
        self._epoch = epoch_after(asked.epoch) if answer.ident else BEGIN
        results = {result.where: result for result in answer.results}
        for consumer in reader.consumers:
            result = results.get(consumer.where)
            if result is None or consumer.where not in wanted or consumer.offset != wanted[consumer.where].offset:
                continue
            consumer.take(result, begins.get(consumer.where, 0))
            if result.error is not ErrorCode.NONE:
                consumer.broker = None
        if any(result.records for result in answer.results):
            reader.later(5_000, self.send)
