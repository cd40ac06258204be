"""What the controller's procedures ask of the store, done through a session: reads side by side, changes fenced.

All that is asked together is under way together, up to a bound.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

import zab
from kraft_controller.core import asks
from kraft_controller.core.asks import Answer, Ask, Changed, Damaged, Done, Missing
from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition, Version
from kraft_controller.core.state import Topic
from kraft_controller.runtime.fenced import Fenced
from kraft_controller.runtime.together import together
from kraft_controller.wire import znodes
from kraft_controller.wire.znodes import DamagedNode


class Store:
    """One controller's view, from its election to its end. `watch` hears, once each, of what was read with a watch."""

    def __init__(self, session: zab.Session, fenced: Fenced, watch: zab.Watch) -> None:
        self._session = session
        self._fenced = fenced
        self._watch = watch

    async def answer(self, asked: Sequence[Ask]) -> list[Answer]:
        """Each by itself, and all that can be at the same time."""
        return await together([partial(self._answer, ask) for ask in asked])

    async def _answer(self, ask: Ask) -> Answer:
        try:
            return await self._ANSWERS[type(ask)](self, ask)
        except DamagedNode as damaged:
            return Damaged(str(damaged))
        except zab.NoNode:
            return Missing()

    # -- reading -----------------------------------------------------------------------------------------

    async def _get(self, path: str, watched: bool) -> tuple[bytes | None, zab.Stat]:
        """With a watch also on what is not there, so that its coming is heard."""
        watch = self._watch if watched else None
        while True:
            try:
                return await self._session.get(path, watch)
            except zab.NoNode:
                if watch is None or await self._session.exists(path, watch) is None:
                    raise

    async def _brokers(self, _: asks.ListBrokers) -> Answer:
        names = await self._session.children(znodes.BROKERS, self._watch)
        ids = sorted(BrokerId(int(name)) for name in names if name.isdecimal())
        stats = await together([partial(self._session.exists, znodes.broker_path(broker)) for broker in ids])
        return asks.Brokers(
            {broker: BrokerEpoch(stat.czxid) for broker, stat in zip(ids, stats, strict=True) if stat is not None}
        )

    async def _broker(self, ask: asks.ReadBroker) -> Answer:
        data, stat = await self._get(znodes.broker_path(ask.id), True)
        return znodes.read_broker(ask.id, data, BrokerEpoch(stat.czxid))

    async def _topics(self, _: asks.ListTopics) -> Answer:
        return asks.Names(tuple(sorted(await self._session.children(znodes.TOPICS, self._watch))))

    async def _topic(self, ask: asks.ReadTopic) -> Answer:
        data, stat = await self._get(znodes.topic_path(ask.name), True)
        return znodes.read_topic(ask.name, data, Version(stat.version))

    async def _state(self, ask: asks.ReadState) -> Answer:
        data, stat = await self._get(znodes.state_path(ask.where), ask.watch)
        return znodes.read_partition_state(ask.where, data, Version(stat.version))

    async def _config(self, ask: asks.ReadConfig) -> Answer:
        path = znodes.config_path("topics", ask.topic)
        data, _ = await self._get(path, False)
        return asks.Config(znodes.read_config(path, data))

    async def _deletions(self, _: asks.ListDeletions) -> Answer:
        return asks.Names(tuple(sorted(await self._session.children(znodes.DELETE_TOPICS, self._watch))))

    async def _moves(self, _: asks.ReadMoves) -> Answer:
        data, _stat = await self._get(znodes.REASSIGN, True)
        return asks.Moves(znodes.read_reassignment(data))

    async def _preferred(self, _: asks.ReadPreferred) -> Answer:
        data, _stat = await self._get(znodes.PREFERRED, True)
        return asks.Partitions(znodes.read_partitions(znodes.PREFERRED, data))

    # -- changing ----------------------------------------------------------------------------------------

    async def _write_topic(self, ask: asks.WriteTopic) -> Answer:
        topic: Topic = ask.topic
        data = znodes.topic(topic.id, topic.partitions)
        return _written(await self._fenced.set(znodes.topic_path(topic.name), data, topic.version))

    async def _write_state(self, ask: asks.WriteState) -> Answer:
        data = znodes.partition_state(ask.state)
        return _written(await self._fenced.set(znodes.state_path(ask.where), data, ask.state.version))

    async def _make_state(self, ask: asks.MakeState) -> Answer:
        """The partition and its state in one; what is above them was made by whoever came first."""
        where, data = ask.where, znodes.partition_state(ask.state)
        while True:
            try:
                if await self._fenced.create((znodes.partition_path(where), None), (znodes.state_path(where), data)):
                    return Done()
                break
            except zab.NoNode:
                await self._fenced.create((znodes.partitions_path(where.topic), None))
        made = await self._fenced.create((znodes.state_path(where), data))
        return Done() if made else Changed()

    async def _forget(self, ask: asks.ForgetTopic) -> Answer:
        await self._fenced.delete_tree(znodes.topic_path(ask.name))
        await self._fenced.delete(znodes.config_path("topics", ask.name), f"{znodes.DELETE_TOPICS}/{ask.name}")
        return Done()

    async def _drop_deletion(self, ask: asks.DropDeletion) -> Answer:
        await self._fenced.delete(f"{znodes.DELETE_TOPICS}/{ask.name}")
        return Done()

    async def _drop_moves(self, ask: asks.DropMoves) -> Answer:
        while True:
            data, stat = await self._session.get(znodes.REASSIGN)
            left = {where: to for where, to in znodes.read_reassignment(data).items() if where not in ask.partitions}
            if not left:
                await self._fenced.delete(znodes.REASSIGN)
                return Done()
            version = await self._fenced.set(znodes.REASSIGN, znodes.reassignment(left), Version(stat.version))
            if version is not None:
                return Done(version)

    async def _drop_preferred(self, _: asks.DropPreferred) -> Answer:
        await self._fenced.delete(znodes.PREFERRED)
        return Done()

    async def _isr_changes(self, _: asks.TakeIsrChanges) -> Answer:
        named: dict[TopicPartition, None] = {}
        for path, data in await self._notes(znodes.ISR_CHANGES):
            try:
                named.update(dict.fromkeys(znodes.read_partitions(path, data)))
            except DamagedNode:
                continue  # it is gone, and what it would have said is found where the partitions are read
        return asks.Partitions(tuple(named))

    async def _log_dir_events(self, _: asks.TakeLogDirEvents) -> Answer:
        brokers: dict[BrokerId, BrokerEpoch] = {}
        for path, data in await self._notes(znodes.LOG_DIR_EVENTS):
            try:
                brokers[znodes.read_log_dir_event(path, data)] = BrokerEpoch(-1)
            except DamagedNode:
                continue
        return asks.Brokers(brokers)

    async def _notes(self, parent: str) -> list[tuple[str, bytes | None]]:
        """All sequential nodes there, in order; then they are removed."""
        paths = [f"{parent}/{name}" for name in sorted(await self._session.children(parent, self._watch))]
        found = await together([partial(self._session.get, path) for path in paths])
        await self._fenced.delete(*paths)
        return [(path, data) for path, (data, _) in zip(paths, found, strict=True)]

    _ANSWERS: Final[dict[type, Callable[[Any, Any], Awaitable[Answer]]]] = {
        asks.ListBrokers: _brokers,
        asks.ReadBroker: _broker,
        asks.ListTopics: _topics,
        asks.ReadTopic: _topic,
        asks.WriteTopic: _write_topic,
        asks.ReadState: _state,
        asks.MakeState: _make_state,
        asks.WriteState: _write_state,
        asks.ReadConfig: _config,
        asks.ForgetTopic: _forget,
        asks.ListDeletions: _deletions,
        asks.DropDeletion: _drop_deletion,
        asks.ReadMoves: _moves,
        asks.DropMoves: _drop_moves,
        asks.ReadPreferred: _preferred,
        asks.DropPreferred: _drop_preferred,
        asks.TakeIsrChanges: _isr_changes,
        asks.TakeLogDirEvents: _log_dir_events,
    }


def _written(version: Version | None) -> Answer:
    return Changed() if version is None else Done(version)
