"""kafkajs, unmodified: a program of ours that uses what it can, on one broker and on three of which one goes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.integration.brokers import Cluster, cluster
from tests.integration.peers import NODE_MODULES, needs_kafkajs
from tests.integration.test_java_clients import Program, started

pytestmark = [pytest.mark.slow, needs_kafkajs]

PROGRAM: Final = Path(__file__).with_name("js") / "whole.js"
RECORDS: Final = 801
"""Four batches of 25, in eight ways, and one in a transaction."""


async def tour(running: Cluster, replicas: int, stopped: int | None) -> None:
    line = ["env", f"NODE_PATH={NODE_MODULES}", "node", str(PROGRAM), running.hosts, str(replicas)]
    async with started(line) as program:
        assert await said(program, until="change") == [
            f"brokers {replicas}",
            f"partitions 3 of {replicas}",
            "retention.ms 86400000",
            f"produced {RECORDS}",
            "group alone Stable RoundRobinAssigner 1",
            f"read {RECORDS} once",
            "group two Stable RoundRobinAssigner 2",
            f"read {RECORDS}",
        ]
        if stopped is not None:
            await running.stop(stopped)
        await program.go_on()
        assert await said(program, until="back") == [
            "group alone Stable RoundRobinAssigner 1",
            "went on with 100 new",
            "group committed Stable RoundRobinAssigner 1",
            "committed true aborted false",
            "position 5",
            "reset to 1",
            "empty true",
            "groups alone,committed,positions,two",
            "groups 0",
        ]
        if stopped is not None:
            await running.start(stopped)  # what it holds can be deleted only when it is there
        await program.go_on()
        assert await said(program, until="whole") == []


async def said(program: Program, until: str) -> list[str]:
    return (await program.hear_until(until)).splitlines()[:-1]


async def test_one_broker(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as running:
        await tour(running, 1, None)


@pytest.mark.parametrize("stopped", [1, 2, 3])
async def test_three_brokers_of_which_one_goes(stopped: int, tmp_path: Path) -> None:
    """Each leads a partition, one controls, and one coordinates the group that goes on."""
    async with cluster(tmp_path, 3) as running:
        await tour(running, 3, stopped)
