"""A broker that leaves in an orderly way gives away what it leads before it goes."""

from __future__ import annotations

import os
from pathlib import Path

import trio

import zab
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.runtime.admin.picture import read_picture
from kraft_controller.runtime.admin.topics import create_topic
from kraft_controller.runtime.leaving import LeaveSettings, ask_to_leave
from tests.integration.brokers import cluster

T0 = TopicPartition("t", 0)
QUICK = LeaveSettings(tries=2, pause_s=0.01)


async def isr_is(session: zab.Session, *brokers: int) -> None:
    while (await read_picture(session)).isr(T0) != brokers:
        await trio.sleep(0.02)


def test_its_partitions_are_led_by_others_before_it_is_gone(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, 2, leaving=QUICK) as made, made.store.session() as session:
            for leaver, stayer in ((2, 1), (1, 2)):  # one of these is the controller, and asks itself
                name = f"t{leaver}"
                where = TopicPartition(name, 0)
                await create_topic(session, name, {0: [BrokerId(leaver), BrokerId(stayer)]}, {}, os.urandom)
                while len((await read_picture(session)).isr(where)) < 2:
                    await trio.sleep(0.02)
                await made.brokers[leaver].leave()
                picture = await read_picture(session)
                assert leaver in picture.brokers
                assert picture.leader(where) == stayer
                await made.stop(leaver)
                await made.start(leaver)
                while len((await read_picture(session)).isr(where)) < 2:
                    await trio.sleep(0.02)

    trio.run(main)


def test_what_nobody_else_can_lead_is_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path, 2, leaving=QUICK) as made, made.store.session() as session:
            await create_topic(session, "t", {0: [BrokerId(2), BrokerId(1)]}, {}, os.urandom)
            await isr_is(session, 2, 1)
            await made.stop(1)
            await isr_is(session, 2)
            two = made.brokers[2]
            while not two.controls:
                await trio.sleep(0.02)

            def here() -> object:
                return two.cache.endpoint(BrokerId(2), "CONTROLLER")

            left = await ask_to_leave(BrokerId(2), lambda: two.epoch, here, QUICK)  # type: ignore[arg-type]
            assert left == (T0,)
            stale = await ask_to_leave(BrokerId(2), lambda: two.epoch - 1, here, QUICK)  # type: ignore[arg-type,return-value]
            assert stale is None
            assert await ask_to_leave(BrokerId(2), lambda: two.epoch, lambda: None, QUICK) is None
            assert await ask_to_leave(BrokerId(2), lambda: two.epoch, lambda: None, None) == ()

    trio.run(main)
