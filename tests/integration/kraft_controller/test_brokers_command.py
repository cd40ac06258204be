"""`zab-broker brokers` and `zab-broker controller` at a real store."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from kraft_controller.core.names import BrokerId, ControllerEpoch
from kraft_controller.core.state import Assignment, PartitionState
from kraft_controller.wire import znodes
from tests.integration.kraft_controller.site import command, run, site


def test_brokers_list_counts_replicas_and_leaders(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path, {1: "east", 2: "west", 3: None}) as here:
            session = here.session
            held = {0: Assignment((BrokerId(1), BrokerId(2)))}
            await session.create("/brokers/topics/t", znodes.topic(None, held))
            await session.ensure_path("/brokers/topics/t/partitions/0")
            state = znodes.partition_state(PartitionState(BrokerId(1), (BrokerId(1),)))
            await session.create("/brokers/topics/t/partitions/0/state", state)
            told = (await here.command("brokers", "list", "--json")).json
            assert [(row["id"], row["rack"], row["leads"], row["holds"]) for row in told] == [
                (1, "east", 1, 1),
                (2, "west", 0, 1),
                (3, None, 0, 0),
            ]
            assert told[0]["endpoints"] == ["PLAINTEXT://h1:9092"]
            table = await here.command("brokers", "list")
            assert table.code == 0
            assert "PLAINTEXT://h3:9092" in table.out
            [two] = (await here.command("brokers", "describe", "2", "--json")).json
            assert two["behind"] == ["t-0"]
            shown = await here.command("brokers", "describe", "2")
            assert "t-0" in shown.out
            gone = await here.command("brokers", "describe", "7")
            assert gone.code == 1
            assert "brokers [7] are not registered" in gone.err
            await session.set("/brokers/ids/3", b'{"version":5,"endp')
            broken = await here.command("brokers", "list", "--json")
            assert broken.code == 1
            assert [row["id"] for row in broken.json] == [1, 2]
            assert "/brokers/ids/3: not JSON" in broken.err

    run(test)


@pytest.mark.mechanism(48)
def test_the_controller_is_shown_and_asked_to_step_down(tmp_path: Path) -> None:
    async def test() -> None:
        async with site(tmp_path) as here, trio.open_nursery() as nursery:
            session = here.session
            nobody = await here.command("controller", "show")
            assert nobody.code == 1
            assert "there is no controller" in nobody.err
            assert (await here.command("controller", "resign")).code == 1
            await session.create("/controller_epoch", b"4")
            await session.create("/controller", znodes.controller(BrokerId(2), 1), ephemeral=True)
            [row] = (await here.command("controller", "show", "--json")).json
            assert (row["id"], row["epoch"]) == (2, 4)

            async def succeed() -> None:
                async with session.watch("/controller") as events:
                    await anext(events)
                    await session.create("/controller", znodes.controller(BrokerId(3), 2), ephemeral=True)
                    await session.set("/controller_epoch", znodes.controller_epoch(ControllerEpoch(5)))
                    await session.set("/controller", znodes.controller(BrokerId(3), 2))

            nursery.start_soon(succeed)
            done = await here.command("controller", "resign", "--wait", "--json")
            assert (done.code, done.json) == (0, {"id": 3, "epoch": 5})

    run(test)


def test_unreachable_store_is_reported() -> None:
    said = command("brokers", "list", "--store", "127.0.0.1:1", "--within", "0.5")
    assert said.code == 1
    assert "127.0.0.1:1" in said.err
    assert "Traceback" not in said.err
    said = command("brokers", "list", "--store", "127.0.0.1:nowhere")
    assert said.code == 2
