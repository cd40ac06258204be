"""The brokers of a cluster, and connections to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import trio

from harness.faults import Replication
from harness.worlds.brokers.recorder import Recorder
from harness.worlds.brokers.requests import REQUEST_ERRORS
from harness.worlds.processes.brokers.broker import SESSION_MS_MIN, Broker
from harness.worlds.processes.brokers.links import Links
from harness.worlds.processes.cluster import Cluster
from harness.worlds.processes.server import Notify
from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode
from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import ClientSettings
from replica.wire.schemas.cluster_schemas import MetadataResponse

CHECK_S: Final = 0.1
ASK_S: Final = 1.0
PATIENCE_S: Final = 60.0
"""The patience of a producer for one batch: longer than any fault."""
SESSION_TICKS: Final = 10
SETTINGS: Final = ClientSettings(client_id="zab-harness", request_s=3.0, patience_s=PATIENCE_S)


class Fleet:
    def __init__(self, cluster: Cluster, notify: Notify) -> None:
        script, addresses = cluster.script, cluster.addresses
        self.cluster = cluster
        self.recorder = Recorder(cluster.now)
        self.links = Links(addresses, cluster.network, script.brokers, cluster.sids)
        self.brokers = {
            number: Broker(number, cluster.folder / f"broker{number}", addresses, self.links, notify)
            for number in range(1, script.brokers + 1)
        }
        self._clients: list[Client] = []

    @property
    def session_ms(self) -> int:
        return max(SESSION_MS_MIN, SESSION_TICKS * self.cluster.pace.tick_ms)

    def begin(self) -> None:
        ops = self.cluster.script.ops
        replication = next((op for op in reversed(ops) if isinstance(op, Replication)), Replication(0))
        for broker in self.brokers.values():
            broker.prepare(self.session_ms, replication, self.cluster.options.mutant)
            self.cluster.revive(broker)

    def broker_number(self, number: int) -> int:
        """Return the number of an existing broker: numbers beyond the last wrap around to the first."""
        return (number - 1) % len(self.brokers) + 1

    # -- clients ---------------------------------------------------------------------------------------

    def new_client(self) -> Client:
        """Return a client with connections of its own, so that a slow request delays no other client."""
        client = Client(self.links.bootstrap, SETTINGS)
        self._clients.append(client)
        return client

    def start(self, act: Callable[[], Awaitable[None]]) -> None:
        self.cluster.spawn(act)

    async def close_clients(self) -> None:
        for client in self._clients:
            await client.aclose()

    async def controller(self) -> int | None:
        """Return the controller by the current metadata of some broker; None if that cannot be read in time."""
        with trio.move_on_after(ASK_S):
            try:
                return (await self.new_client().metadata([])).controller_id
            except REQUEST_ERRORS:
                pass
        return None

    async def in_sync(self, partitions: Iterable[TopicPartition], waits_for: list[str]) -> None:
        """Wait until a broker's metadata has these partitions, and all partitions have a leader and are in sync."""
        client = self.new_client()
        while True:
            try:
                missing = self._missing(await client.metadata(None), partitions)
            except REQUEST_ERRORS as error:
                missing = f"a reply of a broker: {error}"
            if missing is None:
                return
            waits_for[0] = missing
            await trio.sleep(CHECK_S)

    def _missing(self, reply: MetadataResponse, partitions: Iterable[TopicPartition]) -> str | None:
        absent = sorted(self.brokers.keys() - {each.node_id for each in reply.brokers})
        if absent:
            return f"brokers {absent} to be in the metadata"
        if reply.controller_id not in self.brokers:
            return "a controller"
        known = {(topic.name, part.partition_index) for topic in reply.topics for part in topic.partitions}
        unknown = [where for where in partitions if where not in known]
        if unknown:
            return f"{unknown[0]} to exist"
        for topic in reply.topics:
            for part in topic.partitions:
                where = f"{topic.name}-{part.partition_index}"
                if part.error_code != ErrorCode.NONE or part.leader_id < 0:
                    return f"a leader of {where}"
                lagging = sorted(set(part.replica_nodes) - set(part.isr_nodes))
                if lagging:
                    return f"brokers {lagging} to be in sync in {where}"
        return None
