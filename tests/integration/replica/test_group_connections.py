"""Members of a group whose connections close, at a whole broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from replica.core.errors import ErrorCode
from replica.runtime.network.broker_connection import BrokerConnection, ClientSettings
from replica.runtime.requests import ApiKey
from tests.integration.brokers import Cluster, cluster
from tests.kafka_bodies import ask

SESSION_MS = 300_000
"""Longer than the test may take."""


async def connected(made: Cluster) -> BrokerConnection:
    return BrokerConnection(await trio.open_tcp_stream("127.0.0.1", made.ports[1]), ClientSettings())


async def join(connection: BrokerConnection, member: str = "") -> dict[str, Any]:
    body = {
        "group_id": "g",
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": SESSION_MS,
        "member_id": member,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    while True:
        reply = await ask(connection, ApiKey.JOIN_GROUP, body)
        if reply["error_code"] not in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            return reply
        await trio.sleep(0.05)


def test_group_does_not_wait_for_an_id_whose_connection_closed(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, 1) as made:
            first, second = await connected(made), await connected(made)
            coordinators = {"error_code": ErrorCode.COORDINATOR_NOT_AVAILABLE}
            while coordinators["error_code"] != ErrorCode.NONE:
                reply = await ask(first, ApiKey.FIND_COORDINATOR, {"key_type": 0, "coordinator_keys": ["g"]})
                [coordinators] = reply["coordinators"]
                await trio.sleep(0.05)
            mine = (await join(first))["member_id"]
            generation = (await join(first, mine))["generation_id"]
            synced = await ask(
                first, ApiKey.SYNC_GROUP, {"group_id": "g", "generation_id": generation, "member_id": mine}
            )
            assert synced["error_code"] == ErrorCode.NONE
            lost = await join(second)
            assert lost["error_code"] == ErrorCode.MEMBER_ID_REQUIRED
            await second.aclose()
            with trio.fail_after(60):
                joined = await join(first, mine)  # the leader, so this is another rebalance
            assert joined["error_code"] == ErrorCode.NONE
            assert joined["generation_id"] == generation + 1
            assert [each["member_id"] for each in joined["members"]] == [mine]
            await first.aclose()

    trio.run(main)
