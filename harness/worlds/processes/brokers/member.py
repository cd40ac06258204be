"""`python -m harness.worlds.processes.brokers.member JSON` is a member of a group that prints its events as JSON lines.

It uses a client library of another project, and as little of it as possible: it subscribes, polls, and commits its
positions periodically and before a partition is revoked. When it is assigned a partition, it looks up the position of
its group, and must continue there. If its library does not allow a lookup at that moment, it looks up the position
later, and may continue anywhere.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import frozen

from harness.checkers.records import history
from harness.json_lines import to_json

SESSION_MS: Final = 6_000
"""The session timeout, the minimum that brokers accept."""
BEAT_MS: Final = 500
POLL_S: Final = 0.1
PAUSE_S: Final = 0.05
LOOK_S: Final = 20.0
COMMIT_EVERY: Final = 10
"""The number of records between two commits."""
CALLS: Final = 1_000_000
"""The size of the range of call numbers that each client has."""


@frozen
class MemberOptions:
    """The parameters of a member."""

    library: str
    number: int
    hosts: str
    topic: str
    group: str
    began: float
    """The start of the run on the monotonic clock."""
    scale: float
    seconds: float
    """The time that the member stays after its first record, unless `upto` is given."""
    upto: Mapping[str, int] | None = None
    """The offsets by partition that its group must reach before it leaves."""


class Member(ABC):
    def __init__(self, options: MemberOptions) -> None:
        self.options = options
        self.topic = options.topic
        self._calls = options.number * CALLS
        self._positions: dict[int, int] = {}
        """The positions of the member in its partitions, for those in which it has read a record."""
        self._reached: dict[int, int] = {}
        """The last position of the group in each partition that the member has read or looked up."""
        self._since = 0
        self._until: float | None = None
        self._leaves = False

    def live(self) -> None:
        signal.signal(signal.SIGTERM, self._on_sigterm)
        self._join()
        try:
            while not self._has_enough():
                try:
                    self._poll(self.now_us())
                except Exception as error:  # retry, as applications do
                    print(f"a poll failed: {error!r}", file=sys.stderr, flush=True)
                    time.sleep(PAUSE_S)
                if self._since >= COMMIT_EVERY:
                    self.commit()
            self.commit()
        finally:
            self._leave()
        self.report(history.Ended(self.now_us(), self.options.number))

    def _on_sigterm(self, *_: object) -> None:
        self._leaves = True

    def _has_enough(self) -> bool:
        if self.options.upto is not None:
            return self._leaves or all(self._reached.get(int(at), 0) >= end for at, end in self.options.upto.items())
        return self._leaves or (self._until is not None and time.monotonic() > self._until)

    # -- events ----------------------------------------------------------------------------------------

    def now_us(self) -> int:
        return round((time.monotonic() - self.options.began) * 1e6 / self.options.scale)

    def report(self, event: history.Event) -> None:
        print(json.dumps(to_json(event)), flush=True)

    def _call(self) -> int:
        self._calls += 1
        return self._calls

    def _named(self, partition: int) -> str:
        return f"{self.topic}-{partition}"

    def seen(self, asked: int, partition: int, offset: int, value: bytes | None) -> None:
        text = (value or b"").decode(errors="backslashreplace")
        record = history.Record(self._named(partition), offset, text)
        self.report(history.Polled(self.now_us(), self.options.number, asked, (record,)))
        if self._until is None:
            self._until = time.monotonic() + self.options.seconds
        self._positions[partition] = self._reached[partition] = offset + 1
        self._since += 1

    def assigned(self, partitions: Iterable[int], *, looks: bool = True) -> None:
        """Report the partitions that are assigned to the member from now on."""
        chosen = sorted(partitions)
        begins = (
            self.look_up(chosen) if looks else [history.Place(self._named(each), history.NOWHERE) for each in chosen]
        )
        self._positions.clear()
        self.report(
            history.Assigned(
                self.now_us(), self.options.number, tuple(begins), (), self.options.group, self._generation()
            )
        )

    def look_up(self, partitions: Iterable[int]) -> list[history.Place]:
        """Look up the positions of the group, and return those at which the member continues."""
        number, call = self.options.number, self._call()
        names = {partition: self._named(partition) for partition in partitions}
        self.report(history.Looking(self.now_us(), number, call, self.options.group, tuple(names.values())))
        try:
            found = self._committed(names)
        except Exception as error:  # each library has exceptions of its own
            self.report(history.Unknown(self.now_us(), number, call, repr(error)))
            return [history.Place(name, history.NOWHERE) for name in names.values()]
        places = [history.Place(name, found.get(partition, history.NOWHERE)) for partition, name in names.items()]
        self.report(history.Found(self.now_us(), number, call, tuple(places)))
        for partition, offset in found.items():
            self._reached[partition] = max(offset, self._reached.get(partition, 0))
        return [history.Place(name, max(offset, 0)) for name, offset in places]

    def revoked(self, *, commit: bool = True) -> None:
        """Report the loss of all partitions. `commit`: commit first, as they are revoked in good order."""
        if commit:
            self.commit()
        self._positions.clear()
        self.report(history.Assigned(self.now_us(), self.options.number))

    def commit(self) -> None:
        positions, self._since = dict(self._positions), 0
        if not positions:
            return
        number, call = self.options.number, self._call()
        places = tuple(history.Place(self._named(partition), offset) for partition, offset in sorted(positions.items()))
        self.report(history.Committing(self.now_us(), number, call, self.options.group, places))
        try:
            self._commit(positions)
        except Exception as error:  # the commit may have succeeded nevertheless
            self.report(history.Unknown(self.now_us(), number, call, repr(error)))
        else:
            self.report(history.Committed(self.now_us(), number, call))

    # -- methods of each library -----------------------------------------------------------------------

    @abstractmethod
    def _join(self) -> None: ...

    @abstractmethod
    def _poll(self, asked: int) -> None: ...

    @abstractmethod
    def _generation(self) -> int: ...

    @abstractmethod
    def _committed(self, partitions: Iterable[int]) -> Mapping[int, int]:
        """Return the committed positions of these partitions."""

    @abstractmethod
    def _commit(self, positions: Mapping[int, int]) -> None: ...

    @abstractmethod
    def _leave(self) -> None: ...


class Confluent(Member):
    def _join(self) -> None:
        import confluent_kafka

        self._at = confluent_kafka.TopicPartition
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.options.hosts,
                "group.id": self.options.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": BEAT_MS,
                "log_level": 0,
            }
        )
        self._consumer.subscribe(
            [self.topic],
            on_assign=lambda _, parts: self.assigned([part.partition for part in parts]),
            on_revoke=lambda _, __: self.revoked(),
            on_lost=lambda _, __: self.revoked(commit=False),
        )

    def _poll(self, asked: int) -> None:
        message = self._consumer.poll(POLL_S)
        if message is not None and message.error() is None:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            self.seen(asked, partition, offset, message.value())

    def _generation(self) -> int:
        """Decode the opaque metadata of the library: a magic word, the generation, the group, the member."""
        written = bytes(self._consumer.consumer_group_metadata() or b"")
        head, colon, rest = written.partition(b":")
        return (
            int.from_bytes(rest[:4], sys.byteorder, signed=True)
            if head == b"CGMDv2" and colon
            else history.NO_GENERATION
        )

    def _committed(self, partitions: Iterable[int]) -> Mapping[int, int]:
        found = self._consumer.committed([self._at(self.topic, each) for each in partitions], timeout=LOOK_S)
        return {part.partition: part.offset for part in found if part.offset >= 0}

    def _commit(self, positions: Mapping[int, int]) -> None:
        offsets = [self._at(self.topic, partition, offset) for partition, offset in positions.items()]
        for part in self._consumer.commit(offsets=offsets, asynchronous=False):
            if part.error is not None:
                raise RuntimeError(part.error)

    def _leave(self) -> None:
        self._consumer.close()


class KafkaPython(Member):
    """A member whose rebalance listener may not send requests."""

    _unseen: tuple[int, ...] = ()

    def _join(self) -> None:
        import kafka

        member = self
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")

        class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]  # it has no types
            def on_partitions_assigned(self, assigned: Any) -> None:
                member._unseen = tuple(sorted(part.partition for part in assigned))
                member.assigned(member._unseen, looks=False)

            def on_partitions_revoked(self, revoked: Any) -> None:
                member.revoked(commit=False)

            def on_partitions_lost(self, lost: Any) -> None:
                member.revoked(commit=False)

        self._kafka = kafka
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.options.hosts,
            group_id=self.options.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=BEAT_MS,
        )
        keep_pending_rejoins(self._consumer)
        self._consumer.subscribe([self.topic], listener=Listener())

    def _poll(self, asked: int) -> None:
        found = self._consumer.poll(int(POLL_S * 1_000), max_records=COMMIT_EVERY)
        for part, records in found.items():
            for record in records:
                self.seen(asked, part.partition, record.offset, record.value)
        unseen, self._unseen = self._unseen, ()
        if unseen:
            self.look_up(unseen)

    def _generation(self) -> int:
        return int(self._consumer.group_metadata().generation_id)

    def _committed(self, partitions: Iterable[int]) -> Mapping[int, int]:
        wait_ms = int(LOOK_S * 1_000)
        found = {
            each: self._consumer.committed(self._kafka.TopicPartition(self.topic, each), timeout_ms=wait_ms)
            for each in partitions
        }
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def _commit(self, positions: Mapping[int, int]) -> None:
        made = {
            self._kafka.TopicPartition(self.topic, partition): self._kafka.OffsetAndMetadata(offset, "", -1)
            for partition, offset in positions.items()
        }
        self._consumer.commit(made, timeout_ms=int(LOOK_S * 1_000))

    def _leave(self) -> None:
        self._consumer.close()


def keep_pending_rejoins(consumer: Any) -> None:
    """Make a consumer of kafka-python finish each rejoin that it began.

    In kafka-python 3.0.12, the leader of a group rejoins after a change of metadata, for example when it receives the
    first metadata of its topic. When JoinGroup is answered, it takes the new metadata as a basis. If a poll ends before
    SyncGroup is answered too, the next poll finds no reason to rejoin. From then on the consumer has no new assignment
    and sends no heartbeats.
    """
    coordinator = consumer._coordinator
    needs_rejoin = coordinator.need_rejoin
    coordinator.need_rejoin = lambda: coordinator.rejoining or needs_rejoin()


BY_LIBRARY: Final[Mapping[str, type[Member]]] = {"confluent": Confluent, "python": KafkaPython}


def main(text: str) -> None:
    faulthandler.register(signal.SIGUSR1)  # the harness asks for the stacks of a member that stalls
    options = MemberOptions(**json.loads(text))
    BY_LIBRARY[options.library](options).live()


if __name__ == "__main__":
    main(*sys.argv[1:])
