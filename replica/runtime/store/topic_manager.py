"""Creation, growth and deletion of topics for clients.

A broker writes the change to the store, and the controller executes it. So any broker can serve the request, and the
change is completed even if that broker stops. `kraft_controller.runtime.admin` checks and writes the change, for
clients and for administrators' commands alike. This module adds Kafka's error codes and waits for the result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import trio
from attrs import frozen

import zab
from kraft_controller.core.names import BrokerId, TopicId, TopicPartition, metric_name
from kraft_controller.core.state import Topic
from kraft_controller.runtime.admin import topic_requests as admin
from replica.core.errors import ErrorCode, KafkaError
from replica.core.metadata_cache import MetadataCache
from replica.runtime.store.store_call import call_store

T = TypeVar("T")
DELETION_WAIT_S: Final = 5.0

Manual = Mapping[int, Sequence[int]]
"""The replicas of each partition, as a request assigns them."""
Replicas = Mapping[int, tuple[BrokerId, ...]]


@frozen
class Defaults:
    """The settings `num.partitions` and `default.replication.factor`."""

    partitions: int = 1
    factor: int = 1


@frozen
class CreatedTopic:
    """A created topic, or one that was only validated: then `id` is None."""

    id: TopicId | None
    replicas: Replicas


class TopicManager:
    """Writes changes of topics to the store, and waits until this broker's metadata shows them.

    session       returns the current session with the store; None while there is none
    random_bytes  supplies topic ids and the random start of a round-robin assignment
    """

    def __init__(
        self,
        session: Callable[[], zab.Session | None],
        cache: MetadataCache,
        defaults: Defaults,
        random_bytes: Callable[[int], bytes],
        *,
        deletion: bool = True,
    ) -> None:
        self.defaults = defaults
        self._session = session
        self._cache = cache
        self._random_bytes = random_bytes
        self._deletion = deletion
        self._listing = admin.TopicListing()
        self._being_created: set[str] = set()
        """The `metric_name` of each topic that `make_if_missing` is creating."""
        self._metadata_changed = trio.Event()
        """Each change of `cache` sets this event and replaces it."""

    # -- creating ----------------------------------------------------------------------------------------------

    async def create(
        self,
        name: str,
        partitions: int = -1,
        factor: int = -1,
        configs: Mapping[str, str] | None = None,
        manual: Manual | None = None,
        *,
        check_only: bool = False,
    ) -> CreatedTopic:
        """Write the topic to the store, or only check it. -1 stands for the default number. The controller creates the
        partitions later."""
        values = configs or {}

        async def create(session: zab.Session) -> CreatedTopic:
            await admin.check_name(session, name, self._listing)
            if manual is None:
                count = self.defaults.partitions if partitions == -1 else partitions
                copies = self.defaults.factor if factor == -1 else factor
                replicas: Replicas = await admin.plan_topic(session, name, count, copies, self._below)
            else:
                replicas = {number: tuple(map(BrokerId, brokers)) for number, brokers in manual.items()}
            await admin.check_topic(session, replicas, values)
            if check_only:
                return CreatedTopic(None, replicas)
            return CreatedTopic(await admin.write_topic(session, name, replicas, values, self._random_bytes), replicas)

        return await self._at_the_store(create)

    def _below(self, count: int) -> int:
        return int.from_bytes(self._random_bytes(4), "big") % count

    async def make_if_missing(
        self, name: str, partitions: int = -1, factor: int = -1, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a missing topic, and return before its partitions have leaders.

        While a call runs, another one returns at once if its topic has the same name or collides with the first in
        metrics: of two concurrent creations, neither would detect the collision.
        """
        alike = metric_name(name)
        if alike in self._being_created:
            return
        self._being_created.add(alike)
        try:
            await self.create(name, partitions, factor, configs)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        finally:
            self._being_created.discard(alike)

    # -- growing, deleting, reading ----------------------------------------------------------------------------

    async def grow(
        self, name: str, count: int, manual: Sequence[Sequence[int]] | None, *, check_only: bool = False
    ) -> None:
        """Increase the number of partitions to `count`."""
        rows = None if manual is None else [tuple(map(BrokerId, row)) for row in manual]
        await self._at_the_store(lambda s: admin.add_partitions(s, name, count, rows, check_only=check_only))

    async def delete(self, name: str) -> None:
        if not self._deletion:
            raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
        await self._at_the_store(lambda session: admin.delete_topic(session, name))

    async def read(self, name: str) -> Topic | None:
        """Return the topic, or None if it does not exist. Raises `KafkaError` if it cannot be read."""
        return await self._at_the_store(lambda session: admin.read_topic(session, name, missing_is_fine=True))

    async def has(self, where: TopicPartition) -> bool:
        """Return whether the store has the partition; True if the topic cannot be read."""
        try:
            found = await self.read(where.topic)
        except KafkaError:
            return True
        return found is not None and where.partition in found.partitions

    # -- waiting ----------------------------------------------------------------------------------------

    def on_metadata_changed(self) -> None:
        """Check the conditions of all waiting requests again. Call it after each change of the metadata cache."""
        self._metadata_changed.set()
        self._metadata_changed = trio.Event()

    async def led(self, name: str, partitions: int, timeout_ms: int) -> None:
        """Wait until this broker knows a leader of each partition. Raises REQUEST_TIMED_OUT after `timeout_ms`."""
        cache = self._cache

        def is_led() -> bool:
            return all(cache.leader(TopicPartition(name, number)) is not None for number in range(partitions))

        await self._until(is_led, timeout_ms, f"topic {name} is in the store, but not all partitions have leaders yet")

    async def unknown(self, name: str, ident: TopicId | None, timeout_ms: int) -> None:
        """Wait until this broker's metadata lacks the topic with this id. Raises REQUEST_TIMED_OUT after
        `timeout_ms`."""
        cache = self._cache

        def is_gone() -> bool:
            return name not in cache.topics or cache.topic_id(name) != ident

        await self._until(is_gone, timeout_ms, f"topic {name} is marked for deletion, but not deleted yet")

    async def until_deleted(self, names: Iterable[str], timeout_ms: int) -> None:
        """Wait until the controller has completed the deletion of topics that this broker's metadata lacks already.

        Only then can topics of the same names be created. Return after `timeout_ms` or `DELETION_WAIT_S` at the latest,
        since the deletion completes only when all brokers have deleted their replicas, and one of them may be down.
        """
        with trio.move_on_after(min(timeout_ms / 1000, DELETION_WAIT_S)):
            for name in names:
                pause_s = 0.02
                while await self._is_being_deleted(name):
                    await trio.sleep(pause_s)
                    pause_s = min(2 * pause_s, 0.5)

    async def _is_being_deleted(self, name: str) -> bool:
        try:
            return await self._at_the_store(lambda session: admin.is_being_deleted(session, name))
        except KafkaError as error:
            return error.code.retriable

    async def _until(self, condition: Callable[[], bool], timeout_ms: int, why: str) -> None:
        if condition():
            return
        if timeout_ms > 0:  # else each of many topics would cost a turn of the event loop after the deadline
            with trio.move_on_after(timeout_ms / 1000):
                while not condition():
                    await self._metadata_changed.wait()
                return
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, why)

    async def _at_the_store(self, act: Callable[[zab.Session], Awaitable[T]]) -> T:
        return await call_store(self._session(), act)
