"""Kafka's own controller does what our commands ask for, and reads and writes the nodes that ours does."""

from __future__ import annotations

from pathlib import Path

import pytest

import zab
from kraft_controller.core.names import BrokerId
from kraft_controller.runtime.admin.cluster_description import describe_cluster
from tests.integration.kraft_controller.apache_kafka import running
from tests.integration.kraft_controller.site import Site, led, run, until
from tests.integration.peers import needs_kafka


@needs_kafka
@pytest.mark.slow
def test_kafka_controller_executes_our_requests_and_ours_continues(tmp_path: Path) -> None:
    async def test() -> None:
        async with zab.open_store(tmp_path / "store", client_port=0) as store, store.session() as session:
            here = Site(store, session)
            with running(tmp_path, here.at, 1, 2):

                async def registered() -> bool:
                    return len(await session.children("/brokers/ids")) == 2

                await until(registered)
                rows = await here.done("brokers", "list", "--json")
                assert [row["id"] for row in rows] == [1, 2]
                assert all(row["endpoints"][0].startswith("PLAINTEXT://127.0.0.1:") for row in rows)
                words = ("--replica-assignment", "1:2,2:1", "--config", "min.insync.replicas=1", "--wait")
                await here.done("topics", "create", "t", *words)
                await here.done("topics", "alter", "t", "--partitions", "3", "--wait")
                await here.done("configs", "alter", "topics", "t", "--set", "retention.ms=360000")
                await here.done("configs", "alter", "brokers", "--default", "--set", "log.retention.ms=720000")
                plan = tmp_path / "plan"
                plan.write_text('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2]}]}')
                await here.done("reassign", "execute", str(plan), "--wait")
                assert (await here.node("/brokers/topics/t"))["partitions"]["0"] == [2]
                plan.write_text('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}')
                await here.done("reassign", "execute", str(plan), "--wait")
                elected = await here.done("elect", "preferred", "--json")
                assert {row["outcome"] for row in elected} <= {"elected", "not needed"}
                await here.done("controller", "resign", "--wait")
                await here.done("topics", "create", "gone", "--replication-factor", "2", "--wait")
                await here.done("topics", "delete", "gone", "--wait")
                cluster = await describe_cluster(session)
                assert not cluster.damaged
                await here.done("topics", "describe", "--unavailable")

    run(test)


@needs_kafka
@pytest.mark.slow
@pytest.mark.mechanism(45, 46, 48, 49)
def test_kafka_controller_continues_after_ours(tmp_path: Path) -> None:
    """Brokers 8 and 9 are ours, 1 is Kafka's: it joins our controller's cluster, and becomes the controller itself."""

    async def test() -> None:
        async with led(tmp_path / "store", {8: None, 9: None}) as (here, wires):
            with running(tmp_path, here.at, 1):
                await until(lambda: here.session.exists("/brokers/ids/1"))
                await here.done("topics", "create", "t", "--replica-assignment", "8:9,9:8,8:1", "--wait")

                async def in_sync() -> bool:
                    return bool((await here.node("/brokers/topics/t/partitions/2/state"))["isr"] == [8, 1])

                await until(in_sync)
                assert wires.known[BrokerId(1)].endpoints[0].host == "127.0.0.1"
                wires.scope.cancel()
                await here.session.delete("/controller")
                await until(lambda: here.session.exists("/controller"))
                assert (await here.node("/controller"))["brokerid"] == 1
                assert int((await here.session.get("/controller_epoch"))[0] or b"") == 2
                await here.session.delete("/brokers/ids/8")

                async def taken_over() -> bool:
                    states = [await here.node(f"/brokers/topics/t/partitions/{number}/state") for number in range(3)]
                    return [state["leader"] for state in states] == [9, 9, 1]

                await until(taken_over)
                state = await here.node("/brokers/topics/t/partitions/2/state")
                assert (state["isr"], state["controller_epoch"]) == ([1], 2)
                assert not (await describe_cluster(here.session)).damaged

    run(test)
