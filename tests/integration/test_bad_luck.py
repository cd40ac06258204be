"""Three to five members, and everything happens to them: links break, members go deaf, are stopped and come back.

Whatever happened, every request was carried out once or its end was told, in the order of its submitter,
and nobody who asked for the newest was given less. `ZAB_BAD_LUCK_S=600 ZAB_SEED=7` for a long night; the
seed chooses the faults, the machine chooses when what they meet is under way.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from random import Random

import pytest
import trio
from attrs import evolve

from tests.integration.cluster import FAST, Cluster, cluster
from tests.integration.faults import FaultyNetwork
from zab.core.errors import OutcomeUnknown, Stopped
from zab.service.limits import Limits

SECONDS = float(os.environ.get("ZAB_BAD_LUCK_S", "4"))
SEED = int(os.environ.get("ZAB_SEED", "1"))
LANES = 3

TIGHT = Limits(snap_entries=300, snapshots_kept=1, link_bytes_max=1 << 20, inbox_bytes_max=64 << 10, submits_max=50)
"""Limits so small that overflow, snapshots and back-pressure occur."""


class World:
    def __init__(self, made: Cluster, random: Random) -> None:
        self.made = made
        self.random = random
        self.networks: dict[int, FaultyNetwork] = {}
        self.attempted: list[bytes] = []
        self.acknowledged: list[bytes] = []
        self.unknown: set[bytes] = set()
        self.reads = 0
        self.over = False

    async def start(self, sid: int) -> None:
        self.networks[sid] = FaultyNetwork()
        await self.made.start(sid, network=self.networks[sid])

    async def write(self, sid: int, lane: int) -> None:
        number = 0
        while not self.over:
            member = self.made.members.get(sid)
            if member is None:
                await trio.sleep(0.01)
                continue
            number += 1
            request = b"%d.%d.%d" % (sid, lane, number)
            self.attempted.append(request)
            try:
                with trio.move_on_after(self.random.choice((0.05, 1, 100))) as scope:
                    await member.submit(request)
                    self.acknowledged.append(request)
                if scope.cancelled_caught:
                    self.unknown.add(request)
            except (Stopped, OutcomeUnknown):
                self.unknown.add(request)
                await trio.sleep(0.005)

    async def read(self, sid: int) -> None:
        while not self.over:
            await trio.sleep(0.02)
            member = self.made.members.get(sid)
            if member is None:
                continue
            before = set(self.acknowledged)
            try:
                seen = await member.read(lambda machine: set(machine.log))
            except Stopped:
                continue
            assert before <= seen, f"{sid} did not know {sorted(before - seen)[:3]}"
            self.reads += 1

    async def one_fault(self) -> None:
        random, sids = self.random, sorted(self.networks)
        leaders = {member.status().role.leader for member in self.made.members.values()} - {None}
        sid = random.choice(sorted(leaders) if leaders and random.random() < 0.4 else sids)  # type: ignore[type-var]
        assert sid is not None
        network = self.networks[sid]
        match random.choice(("bounce", "cut", "deafen", "restart")):
            case "bounce":
                await network.cut()
            case "cut":
                await network.cut()
                await trio.sleep(random.uniform(0.05, 1.2))
            case "deafen":
                network.deafen()
                await trio.sleep(random.uniform(0.05, 1.2))
            case "restart":
                await self.made.stop(sid)
                await trio.sleep(random.uniform(0, 0.3))
                await self.start(sid)
        network.heal()

    def judge(self, log: list[bytes]) -> None:
        counts = Counter(log)
        assert max(counts.values()) == 1, "carried out twice"
        assert set(self.acknowledged) <= set(log), "acknowledged and lost"
        assert set(log) <= set(self.attempted), "out of nowhere"
        assert set(self.attempted) - set(log) <= self.unknown, "neither carried out nor told"
        newest: dict[bytes, int] = {}
        for request in log:
            lane, _, number = request.rpartition(b".")
            assert newest.get(lane, 0) < int(number), f"{request!r} is out of order"
            newest[lane] = int(number)


@pytest.mark.slow
@pytest.mark.parametrize("servers", [3, 5])
async def test_bad_luck(tmp_path: Path, servers: int) -> None:
    random = Random(SEED)
    settings = evolve(FAST, sync_limit=10, window_entries=random.choice((20, 1000)))  # who is deaf may be given up
    async with cluster(tmp_path, servers, start=False, limits=TIGHT, settings=settings) as made:
        world = World(made, random)
        for sid in made.ensemble.by_id:
            await world.start(sid)
        await made.serving()
        async with trio.open_nursery() as nursery:
            for sid in made.ensemble.by_id:
                nursery.start_soon(world.read, sid)
                for lane in range(LANES):
                    nursery.start_soon(world.write, sid, lane)
            end = trio.current_time() + SECONDS
            while trio.current_time() < end:
                await trio.sleep(random.uniform(0.02, 0.4))
                await world.one_fault()
            with trio.fail_after(120):
                await made.serving()
                while not world.reads:
                    await trio.sleep(0.01)
            world.over = True
        assert made.failures == {}
        with trio.fail_after(120):
            world.judge(await made.agree(given_up=True))
