"""Kafka's own producer, consumer and administrator, with transactions at a broker of ours."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest
import trio

from tests.integration.brokers import cluster, in_thread
from tests.integration.peers import kafka_java, needs_kafka

pytestmark = [pytest.mark.slow, needs_kafka]

SOURCE: Final = Path(__file__).with_name("java") / "KafkaTransactions.java"


def played(hosts: str) -> list[str]:
    run = [*kafka_java(), str(SOURCE), hosts]
    done = subprocess.run(run, capture_output=True, text=True, timeout=230, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_java_client_runs_lists_fences_and_ends_transactions(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, 1) as made:
            assert await in_thread(played, made.hosts) == [
                "committed 7 seven",
                "committed 7 seven",
                "fenced",
                "listed [java CompleteCommit, open Ongoing]",
                "described Ongoing [t-0] 60000 true",
                "active since 10",
                "active 0",
                "fenced by the administrator",
                "read [a0, a1, d0, d1, e0]",
            ]

    trio.run(main)
