"""A memory cluster in a Trio program: its brokers, and the faults that a test can inject."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import trio

import zab
from kraft_controller.core.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from kraft_controller.wire.znodes import TOPICS
from replica.core.partitions.leader_role import LeaderRole
from replica.core.partitions.partition import Partition
from replica.runtime.broker import Broker
from replica.testing.memory_brokers import HOST, ConfigValue, MemoryBroker, texts_of
from zab.core.argument_names import checks_methods
from zab.net.memory_network import MemoryNetwork
from zab.runtime.block_nursery import block_nursery
from zab.testing import open_memory_store
from zab.testing.loop_events import LoopEvents, PromptTiming
from zab.testing.misuse import check_kind, check_trio
from zab.testing.partitions import Partitions

TIMEOUT_S: Final = 30.0
"""The default time limit of calls that wait for the brokers."""
POLL_S: Final = 0.005
STORE_SESSION_MS: Final = 6_000
WHOLE: Final = "a whole number"
SECONDS: Final = "a number of seconds"


@checks_methods
class AsyncMemoryCluster:
    """A running cluster of brokers in memory, for a Trio program: `async with open_memory_cluster() as cluster`.

    It has the calls of `MemoryCluster`, and those that wait are async. Every call belongs into the loop of `trio.run`
    that opened the cluster. Elsewhere, after the end of the block, and for a broker that does not exist, it raises
    `zab.LocalProtocolError`.
    """

    def __init__(
        self, brokers: int, config: Mapping[str, ConfigValue], store: zab.StoreServer, nursery: trio.Nursery
    ) -> None:
        self._nursery = nursery
        self._token = trio.lowlevel.current_trio_token()
        self._network = MemoryNetwork(LoopEvents(nursery), PromptTiming(), brokers, "cluster")
        self._brokers = {
            number: MemoryBroker(number, brokers, config, self._network, lambda: store.session(STORE_SESSION_MS))
            for number in range(1, brokers + 1)
        }
        self._partitions = Partitions(self._network, self._brokers.keys(), "broker", "open_memory_cluster(brokers=3)")
        self._store = store
        self._closed = False

    def __repr__(self) -> str:
        how = "closed" if self._closed else self.bootstrap_servers
        return f"<{type(self).__name__} of {len(self._brokers)} brokers, {how}>"

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, as Kafka's clients take them: "127.0.0.1:40001,127.0.0.1:40002"."""
        return ",".join(f"{HOST}:{broker.port}" for broker in self._brokers.values())

    # -- topics ------------------------------------------------------------------------------------

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, ConfigValue] | None = None,
    ) -> None:
        """Create a topic. Return when every running broker knows a leader of each partition."""
        self._check("create_topic")
        check_kind("name", name, str, "text")
        check_kind("partitions", partitions, int, WHOLE)
        if replication_factor is not None:
            check_kind("replication_factor", replication_factor, int, WHOLE)
        factor = min(3, len(self._brokers)) if replication_factor is None else replication_factor
        program = await self._some_program("create a topic")
        await program.parts.topics.create(name, partitions, factor, texts_of(config or {}))
        for number in range(partitions):
            await self.leader(name, number)
        wanted = {TopicPartition(name, number) for number in range(partitions)}

        def missing() -> str | None:
            for broker in self._programs():
                cache = broker.parts.metadata_cache
                if any(cache.leader(where) is None for where in wanted):
                    return f"broker {broker.config.id} does not know the leaders of topic {name}"
            return None

        await self._until("create_topic", missing)

    async def leader(self, topic: str, partition: int = 0, *, timeout_s: float = TIMEOUT_S) -> int:
        """Return the leader of a partition. Wait while there is none; raise `TimeoutError` after `timeout_s`.

        Raise `zab.LocalProtocolError` if the topic does not exist.
        """
        self._check("leader")
        check_kind("partition", partition, int, WHOLE)
        check_kind("timeout_s", timeout_s, int | float, SECONDS)
        await self._check_topic("leader", topic)
        where = TopicPartition(topic, partition)
        return await self._found("leader", lambda: self._leader(where), timeout_s)

    async def controller(self, *, timeout_s: float = TIMEOUT_S) -> int:
        """Return the id of the controller. Wait while there is none; raise `TimeoutError` after `timeout_s`."""
        self._check("controller")
        check_kind("timeout_s", timeout_s, int | float, SECONDS)
        return await self._found("controller", self._controller, timeout_s)

    async def wait_in_sync(self, topic: str | None = None, *, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until all replicas of a topic, by default of all topics, are in sync with their leaders.

        Raise `TimeoutError` after `timeout_s`, which names a replica that is not in sync, and
        `zab.LocalProtocolError` if the topic does not exist.
        """
        self._check("wait_in_sync")
        check_kind("timeout_s", timeout_s, int | float, SECONDS)
        if topic is not None:
            await self._check_topic("wait_in_sync", topic)
        await self._until("wait_in_sync", lambda: self._out_of_sync(topic), timeout_s)

    # -- faults ------------------------------------------------------------------------------------

    async def kill(self, broker: int, *, power_loss: bool = False) -> None:
        """Kill a broker. Its disk keeps everything that was written; with `power_loss`, only what was synced.

        The store closes the broker's session at once, so other brokers take its leaderships over without a delay.
        Return when the controller has noticed the end of the broker, if a broker is left. Raise
        `zab.LocalProtocolError` if the broker is down.
        """
        killed = self._broker("kill", broker)
        if killed.process is None:
            raise zab.LocalProtocolError(f"broker {broker} is down already: restart({broker}) starts it")
        await killed.kill(power_loss=power_loss)
        await self._until("kill", lambda: self._still_listed(broker))

    async def restart(self, broker: int, *, timeout_s: float = TIMEOUT_S) -> None:
        """Start a broker that was killed; stop a running one in good order, and start it again.

        Return when the broker serves clients. `wait_in_sync` waits until its replicas have caught up. Raise
        `TimeoutError` after `timeout_s`, for example if a partition separates the broker from the controller.
        """
        restarted = self._broker("restart", broker)
        check_kind("timeout_s", timeout_s, int | float, SECONDS)
        with trio.move_on_after(timeout_s):
            await restarted.stop()
            await restarted.start(self._nursery).up.wait()
            return
        self._check_open("restart")
        raise TimeoutError(f"after {timeout_s:g} s: broker {broker} has not restarted; heal() ends partitions")

    def partition(self, *brokers: int) -> None:
        """Cut these brokers off from the others, until `heal`. Earlier partitions stay.

        All brokers still reach the store, and clients reach all brokers. A follower that is cut off from its leader
        leaves the ISR after `replica.lag.time.max.ms`, which is 5 seconds here.
        """
        self._check("partition")
        self._partitions.cut_off({self._broker("partition", broker).id for broker in brokers})

    def heal(self) -> None:
        """End all network partitions."""
        self._check("heal")
        self._partitions.heal()

    # -- the state of the cluster ----------------------------------------------------------------------

    def _programs(self) -> Iterable[Broker]:
        return [broker.program for broker in self._brokers.values() if broker.program is not None]

    async def _some_program(self, what: str) -> Broker:
        for program in self._programs():
            return program
        raise zab.LocalProtocolError(f"no broker runs that could {what}: restart one first")

    def _controller(self) -> int | str:
        for program in self._programs():
            if program.parts.membership.is_controller:
                return program.config.id
        return f"no broker is the controller: {self._running()}"

    def _leader(self, where: TopicPartition) -> int | str:
        """Return the leader, or the reason why there is none."""
        roles = [role for each in self._programs() if (role := each.parts.metadata_cache.role(where)) is not None]
        if not roles:
            return f"there is no partition {where}; topics: {self._topics()}; {self._running()}"
        state = max((role.state for role in roles), key=lambda state: (state.leader_epoch, state.version))
        led = self._led(state.leader, where)
        if led is not None and led.leading().epoch >= state.leader_epoch:
            return state.leader
        return f"{where} has no leader: its in-sync replicas are {list(state.isr)}; {self._running()}"

    def _led(self, broker: int, where: TopicPartition) -> Partition | None:
        """Return the replica of a broker if the broker runs and leads the partition."""
        found = self._brokers.get(broker)
        program = None if found is None else found.program
        partition = None if program is None else program.parts.replica_manager.core.partitions.get(where)
        return partition if partition is not None and isinstance(partition.role, LeaderRole) else None

    def _out_of_sync(self, topic: str | None) -> str | None:
        """Return a reason why not all replicas of the topic are in sync; None if they are."""
        found = self._controller()
        if isinstance(found, str):
            return found
        program = self._brokers[found].program
        assert program is not None, "the controller runs"
        cache = program.parts.metadata_cache
        if topic is not None and topic not in cache.topics:
            return f"there is no topic {topic}; topics: {self._topics()}"
        for each in cache.topics.values() if topic is None else [cache.topics[topic]]:
            for role in each.partitions.values():
                leader = self._leader(role.where)
                if isinstance(leader, str):
                    return leader
                led = self._led(leader, role.where)
                assert led is not None, "the leader leads"
                leading = led.leading()
                missing = sorted({*role.assignment.target} - {*leading.isr.members})
                if missing:
                    return f"{role.where}: replicas {missing} are not in sync with broker {leader}; {self._running()}"
                if led.high_watermark < leading.start_offset:
                    return f"{role.where}: broker {leader} does not know the high watermark yet"
        return None

    def _still_listed(self, broker: int) -> str | None:
        programs = self._programs()
        if not programs:
            return None
        found = self._controller()
        if isinstance(found, str):
            return found
        program = self._brokers[found].program
        listed = program is not None and broker in program.parts.metadata_cache.brokers
        return f"the controller, broker {found}, has not noticed the end of broker {broker}" if listed else None

    def _topics(self) -> str:
        known = {topic for each in self._programs() for topic in each.parts.metadata_cache.topics}
        return ", ".join(sorted(known - {OFFSETS_TOPIC, TRANSACTIONS_TOPIC})) or "none"

    def _running(self) -> str:
        down = [number for number, broker in self._brokers.items() if broker.program is None]
        return f"brokers {down} are down" if down else "all brokers run"

    async def _until(self, what: str, reason: Callable[[], str | None], timeout_s: float = TIMEOUT_S) -> None:
        """Wait until `reason` returns None. After `timeout_s` raise `TimeoutError` with its last result."""
        await self._found(what, lambda: reason() or 0, timeout_s)

    async def _found(self, what: str, find: Callable[[], int | str], timeout_s: float) -> int:
        """Wait until `find` returns a number, and return it. After `timeout_s` raise `TimeoutError` with the reason."""
        await trio.lowlevel.checkpoint()
        deadline = trio.current_time() + timeout_s
        while isinstance(found := find(), str):
            if trio.current_time() >= deadline:
                raise TimeoutError(f"after {timeout_s:g} s: {found}")
            await trio.sleep(POLL_S)
            self._check_open(what)
        return found

    # -- life ----------------------------------------------------------------------------------------

    def _broker(self, what: str, number: int) -> MemoryBroker:
        self._check(what)
        found = self._brokers.get(number)
        if found is None:
            raise zab.LocalProtocolError(
                f"{what}: there is no broker {number!r}: this cluster has 1 to {len(self._brokers)}"
            )
        return found

    async def _check_topic(self, what: str, topic: str) -> None:
        """Raise `zab.LocalProtocolError` if the store has no such topic.

        The metadata of the brokers may be a moment behind the store, so the store decides.
        """
        check_kind("topic", topic, str, "text")
        if any(topic in each.parts.metadata_cache.topics for each in self._programs()):
            return
        async with self._store.session() as session:
            topics = sorted({*await session.children(TOPICS)} - {OFFSETS_TOPIC, TRANSACTIONS_TOPIC})
            if topic not in topics:
                raise zab.LocalProtocolError(
                    f"{what}: there is no topic {topic!r}; topics: {', '.join(topics) or 'none'}; create_topic creates "
                    "one"
                )

    def _check(self, what: str) -> None:
        """Raise `zab.LocalProtocolError` unless the call comes from the cluster's loop while the cluster is open."""
        check_trio(f"MemoryCluster.{what}")
        if trio.lowlevel.current_trio_token() is not self._token:
            raise zab.LocalProtocolError(
                f"MemoryCluster.{what}: this cluster was opened in another trio.run: open one where it is used"
            )
        self._check_open(what)

    def _check_open(self, what: str) -> None:
        if self._closed:
            raise zab.LocalProtocolError(
                f"MemoryCluster.{what}: the cluster is closed: use it inside the block of open_memory_cluster"
            )

    async def _open(self) -> None:
        """Start all brokers, and wait until all of them serve and have each other in their metadata.

        The internal topics are created now: later, a broker that is down would prevent their creation, and with it the
        first group or transaction.
        """
        for broker in self._brokers.values():
            broker.start(self._nursery)

        def missing() -> str | None:
            for number, broker in self._brokers.items():
                program = broker.program
                if program is None or len(program.parts.metadata_cache.brokers) < len(self._brokers):
                    return f"broker {number} does not serve all metadata yet"
            return None

        await self._until("open", missing)
        program = await self._some_program("create the internal topics")
        for topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            await program.parts.internal_topics.create(topic)

    async def _close(self) -> None:
        """Stop all brokers before their store, so that they can close their sessions."""
        self._closed = True
        running = [broker.process for broker in self._brokers.values() if broker.process is not None]
        for process in running:
            process.cancel()
        with trio.CancelScope(shield=True):
            for process in running:
                await process.ended.wait()
        for broker in self._brokers.values():
            broker.release_port()


@asynccontextmanager
async def opened_cluster(brokers: int, config: Mapping[str, ConfigValue]) -> AsyncIterator[AsyncMemoryCluster]:
    """Open a cluster in the present Trio loop."""
    async with open_memory_store() as store, block_nursery() as nursery:
        cluster = AsyncMemoryCluster(brokers, config, store.server(), nursery)
        try:
            await cluster._open()
            yield cluster
        finally:
            await cluster._close()
