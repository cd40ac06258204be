"""The state of a whole cluster, from the brokers that have it: each leader, each coordinator.

A broker that does not answer costs the pages its part, and adds a sentence about it. Visitors share the results for a
few seconds.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

import trio
from attrs import evolve, frozen

from kraft_controller.core.names import TopicPartition
from replica.core.errors import KafkaError, WireError
from replica.runtime.admin_client import group_admin, transaction_admin
from replica.runtime.admin_client.group_admin import EARLIEST, LATEST, GroupSummary, offsets_at_leader
from replica.runtime.admin_client.transaction_admin import TransactionSummary
from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import Unreachable, raise_for
from replica.wire.schemas.cluster_schemas import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from zab.console.shared_value import SharedValue
from zab.host.clocks import wall_ms

T = TypeVar("T")

EXPECTED: Final = (KafkaError, Unreachable, WireError)
METADATA_S: Final = 2.0
LISTS_S: Final = 3.0
SUMS_S: Final = 5.0
BROKER_S: Final = 4.0
"""The time limit for the part of one broker."""
BATCH: Final = 1_000
"""The maximum number of partitions in one request for offsets."""
SUMMED_MAX: Final = 50_000
"""The records of a cluster with more partitions are not summed up."""
LAGS_MAX: Final = 1_000
"""The lags of more groups than this are not summed up."""
SAMPLES_MAX: Final = 120
UNSEEN_S: Final = 600.0
"""The sums are sampled while a visitor has seen them within this time."""

_log: Final = logging.getLogger("zab.console")


@frozen
class Metadata:
    """live: the registered brokers. `topics` are sorted, with the internal ones last."""

    cluster: str
    controller: int
    live: Mapping[int, MetadataResponseBroker]
    topics: Mapping[str, MetadataResponseTopic]

    def offline(self, topic: MetadataResponseTopic) -> int:
        return sum(each.leader_id not in self.live for each in topic.partitions)

    def under_replicated(self, topic: MetadataResponseTopic) -> int:
        return sum(self.lacks_replicas(each) for each in topic.partitions)

    def lacks_replicas(self, partition: MetadataResponsePartition) -> bool:
        """Return whether the ISR has fewer live brokers than the partition has replicas."""
        return sum(each in self.live for each in partition.isr_nodes) < len(partition.replica_nodes)

    @property
    def partitions(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics.values())

    @property
    def brokers(self) -> list[int]:
        """All brokers: the registered ones, and those that only hold replicas."""
        held = {
            each for topic in self.topics.values() for partition in topic.partitions for each in partition.replica_nodes
        }
        return sorted({*self.live, *held})

    def leaders(self, names: Iterable[str]) -> dict[TopicPartition, int]:
        """Return the live leaders of the partitions of these topics."""
        return {
            TopicPartition(name, each.partition_index): each.leader_id
            for name in names
            for each in self.topics[name].partitions
            if each.leader_id in self.live
        }


@frozen
class Offsets:
    """found     the first offset and the high watermark of each partition whose leader has answered
    problems  one sentence for each leader that has not
    """

    found: Mapping[TopicPartition, tuple[int, int]]
    problems: tuple[str, ...] = ()

    def records(self, wheres: Iterable[TopicPartition]) -> int | None:
        """Return the number of offsets in these partitions; None if not all of them are known."""
        pairs = [self.found.get(where) for where in wheres]
        return None if None in pairs else sum(pair[1] - pair[0] for pair in pairs if pair is not None)


@frozen
class Sums:
    """The number of offsets in all partitions (None: too many partitions, or some are unknown), and problems."""

    records: int | None
    problems: tuple[str, ...]


@frozen
class Listed:
    """The groups or transactions of all coordinators, and a sentence for each broker that has not answered."""

    groups: tuple[GroupSummary, ...] = ()
    transactions: tuple[TransactionSummary, ...] = ()
    problems: tuple[str, ...] = ()


class ClusterView:
    """Queries the brokers with one client."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.metadata = SharedValue(self._load_metadata, METADATA_S)
        self.sums = SharedValue(self._load_sums, SUMS_S)
        self.groups = SharedValue(self._load_groups, LISTS_S)
        self.lag_of_all = SharedValue(self._load_lag, SUMS_S)
        """The lag of all groups; None if there are too many groups, or a part is unknown."""
        self.transactions = SharedValue(self._load_transactions, LISTS_S)
        self.rates: deque[tuple[int, float]] = deque(maxlen=SAMPLES_MAX)
        """The growth of all logs: times, and records per second since the sample before."""
        self._ends: tuple[float, Mapping[TopicPartition, int]] | None = None
        """The time of the last load of the sums, and the high watermarks then."""
        self._seen_at = -UNSEEN_S

    async def run(self) -> None:
        """Sample the sums while they are looked at, until cancelled."""
        while True:
            await trio.sleep(SUMS_S)
            if trio.current_time() - self._seen_at < UNSEEN_S:
                try:
                    with trio.move_on_after(SUMS_S * 2):
                        await self.sums.get()
                except EXPECTED:
                    pass  # the next page shows the reason
                except Exception:
                    _log.exception("console_sample_failed")

    def seen(self) -> None:
        """Note that a visitor looks at the sums."""
        self._seen_at = trio.current_time()

    async def at_each(
        self, brokers: Iterable[int], act: Callable[[int], Awaitable[T]]
    ) -> tuple[dict[int, T], tuple[str, ...]]:
        """Call `act` for all brokers at the same time. Return the results, and a sentence for each that failed."""
        results: dict[int, T] = {}
        problems: dict[int, str] = {}

        async def one(broker: int) -> None:
            try:
                with trio.fail_after(BROKER_S):
                    results[broker] = await act(broker)
            except trio.TooSlowError:
                problems[broker] = f"broker {broker} has not answered in {BROKER_S:g} s"
            except EXPECTED as error:
                problems[broker] = f"broker {broker}: {error}"

        async with trio.open_nursery() as nursery:
            for each in brokers:
                nursery.start_soon(one, each)
        return results, tuple(problems[each] for each in sorted(problems))

    async def offsets(self, leaders: Mapping[TopicPartition, int]) -> Offsets:
        """Return the first offsets and the high watermarks of partitions with these leaders."""
        led: dict[int, list[TopicPartition]] = {}
        for where, leader in leaders.items():
            led.setdefault(leader, []).append(where)

        async def at(leader: int) -> dict[TopicPartition, tuple[int, int]]:
            found: dict[TopicPartition, tuple[int, int]] = {}
            wheres = led[leader]
            for start in range(0, len(wheres), BATCH):
                batch = wheres[start : start + BATCH]
                begins = await offsets_at_leader(self.client, leader, dict.fromkeys(batch, EARLIEST))
                ends = await offsets_at_leader(self.client, leader, dict.fromkeys(batch, LATEST))
                found |= {where: (begins[where], ends[where]) for where in batch if where in begins and where in ends}
            return found

        results, problems = await self.at_each(led, at)
        return Offsets({where: pair for found in results.values() for where, pair in found.items()}, problems)

    async def lags(self, groups: Iterable[GroupSummary]) -> tuple[dict[str, tuple[int, int | None]], tuple[str, ...]]:
        """Return for each group the number of partitions with a committed offset, and the lag if it is known."""
        coordinated: dict[int, list[str]] = {}
        for each in groups:
            coordinated.setdefault(each.coordinator, []).append(each.group)

        async def at(coordinator: int) -> dict[str, dict[TopicPartition, tuple[int, str]]]:
            return {
                group: await group_admin.committed_at(self.client, coordinator, group)
                for group in coordinated[coordinator]
            }

        results, problems = await self.at_each(coordinated, at)
        committed = {group: offsets for found in results.values() for group, offsets in found.items()}
        metadata = await self.metadata.get()
        topics = {where.topic for offsets in committed.values() for where in offsets} & metadata.topics.keys()
        leaders = metadata.leaders(topics)
        wanted = {where for offsets in committed.values() for where in offsets if where in leaders}
        ends = await self.offsets({where: leaders[where] for where in sorted(wanted)})
        lags: dict[str, tuple[int, int | None]] = {}
        for group, offsets in committed.items():
            known = all(where in ends.found for where in offsets)
            behind = sum(max(ends.found[where][1] - at[0], 0) for where, at in offsets.items()) if known else None
            lags[group] = len(offsets), behind
        return lags, (*problems, *ends.problems)

    # -- loading -----------------------------------------------------------------------------------

    async def _load_metadata(self) -> Metadata:
        reply = await self.client.metadata(None)
        topics = sorted(reply.topics, key=lambda topic: (topic.is_internal, topic.name or ""))
        return Metadata(
            reply.cluster_id or "",
            reply.controller_id,
            {each.node_id: each for each in reply.brokers},
            {each.name or "": each for each in topics},
        )

    async def _load_sums(self) -> Sums:
        metadata = await self.metadata.get()
        records: int | None = None
        problems: tuple[str, ...] = (f"more than {SUMMED_MAX} partitions: their records are not summed up",)
        if metadata.partitions <= SUMMED_MAX:
            leaders = metadata.leaders(metadata.topics)
            offsets = await self.offsets(leaders)
            records, problems = offsets.records(leaders), offsets.problems
            self._sample({where: end for where, (_, end) in offsets.found.items()})
        return Sums(records, problems)

    def _sample(self, ends: Mapping[TopicPartition, int]) -> None:
        now, before = trio.current_time(), self._ends
        self._ends = now, ends
        if before is not None and now > before[0]:
            grown = sum(max(end - before[1][where], 0) for where, end in ends.items() if where in before[1])
            self.rates.append((wall_ms(), grown / (now - before[0])))

    async def _load_groups(self) -> Listed:
        have_topic = await group_admin.have_coordinators(self.client)
        results, problems = await self.at_each(
            (await self.metadata.get()).live,
            lambda broker: group_admin.groups_of(self.client, broker, have_topic=have_topic),
        )
        groups = sorted((each for found in results.values() for each in found), key=lambda group: group.group)
        return Listed(groups=tuple(groups), problems=problems)

    async def _load_lag(self) -> int | None:
        groups = (await self.groups.get()).groups
        if len(groups) > LAGS_MAX:
            return None
        lags, problems = await self.lags(groups)
        known = [lag for _, lag in lags.values() if lag is not None]
        return None if problems or len(known) < len(groups) else sum(known)

    async def _load_transactions(self) -> Listed:
        have_topic = await self.client.patiently(lambda: transaction_admin.have_coordinators(self.client))
        results, problems = await self.at_each(
            (await self.metadata.get()).live,
            lambda broker: transaction_admin.transactions_of(self.client, broker, have_topic=have_topic),
        )
        found = sorted((each for found in results.values() for each in found), key=lambda each: each.id)
        return Listed(transactions=tuple(found), problems=problems)


async def checked_topic(view: ClusterView, name: str) -> tuple[Metadata, MetadataResponseTopic]:
    """Return a topic. Raise `KafkaError` if it does not exist, or this client may not describe it."""
    metadata = await view.metadata.get()
    topic = metadata.topics.get(name)
    if topic is None:
        [topic] = (await view.client.metadata([name])).topics
        raise_for(topic.error_code, f"topic {name}")
        metadata = evolve(metadata, topics={**metadata.topics, name: topic})
    return metadata, topic
