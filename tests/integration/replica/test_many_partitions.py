"""A topic of many partitions: a broker goes on with everything else while it makes their logs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import trio

from kraft_controller.core.command_handler import PIECE_MAX
from kraft_controller.core.names import TopicPartition
from kraft_controller.runtime.admin.topic_requests import create_topic
from tests.integration.brokers import cluster, until

MANY = 300
TURNS_MAX = 2
"""Of one task between two of another: each has one in every round, in no order."""


def ident(size: int) -> bytes:
    return bytes(range(1, size + 1))


def test_others_have_their_turn_while_the_logs_of_a_topic_are_made(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, 1) as made, made.store.session() as session, trio.open_nursery() as nursery:
            broker = made.brokers[1]
            seen = [0]

            async def beat() -> None:
                while True:
                    seen.append(len(broker.parts.replica_manager.core.partitions))
                    await trio.lowlevel.checkpoint()

            nursery.start_soon(beat)
            await create_topic(session, "t", {number: [broker.config.id] for number in range(MANY)}, {}, ident)
            await until(
                lambda: all(broker.parts.metadata_cache.leader(TopicPartition("t", n)) is not None for n in range(MANY))
            )
            nursery.cancel_scope.cancel()
            assert len(broker.parts.replica_manager.core.partitions) == MANY
            assert seen[-1] == MANY
            assert max(after - before for before, after in pairwise(seen)) <= TURNS_MAX * PIECE_MAX
            folders = {path.name for path in (tmp_path / "broker1").iterdir() if path.name.startswith("t-")}
            assert folders == {f"t-{number}" for number in range(MANY)}

    trio.run(main)
