"""Machines with a snapshot of one large chunk, regardless of the frame limit."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgpack
import pytest
import trio
from attrs import evolve

from tests.integration.cluster import FAST, Recorder, cluster
from zab.service.limits import Limits

SETTINGS = evolve(FAST, window_entries=20)
LIMITS = Limits(snap_entries=50, snapshots_kept=1, frame_bytes_max=4096)


class OneChunk(Recorder):
    def __init__(self) -> None:
        super().__init__()
        self.restored: list[int] = []

    def snapshot(self) -> list[bytes]:
        return [b"", msgpack.packb(self.log), b"end"]

    def restore(self, chunks: Iterable[bytes]) -> None:
        nothing, state, end = chunks
        assert (nothing, end) == (b"", b"end")
        self.log = msgpack.unpackb(state)
        self.restored.append(len(state))


async def test_a_chunk_larger_than_a_frame_reaches_a_learner_and_the_disk(tmp_path: Path) -> None:
    async with cluster(tmp_path, start=False, limits=LIMITS, settings=SETTINGS) as made:
        for sid in made.ensemble.by_id:
            await made.start(sid, OneChunk)
        away = (await made.follower()).me
        await made.stop(away)
        leader = await made.serving()
        for number in range(200):
            await leader.submit(b"%d" % number + bytes(1000))
        while leader.status().counters.snapshots < 2:
            await trio.sleep(0.01)
        member = await made.start(away, OneChunk)
        await member.barrier()
        assert len(await made.agree()) == 200
        machine = made.machines[away]
        assert isinstance(machine, OneChunk)
        assert machine.restored[-1] > 40 * LIMITS.frame_bytes_max
        assert made.failures == {}

        await made.stop(away)
        member = await made.start(away, OneChunk)
        await member.barrier()
        assert len(await made.agree()) == 200
        assert member.status().counters.restores == 0, "from its own disk"


async def test_oversized_chunk_stops_no_member(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    limits = evolve(LIMITS, snapshot_chunk_bytes_max=8192)
    async with cluster(tmp_path, start=False, limits=limits, settings=SETTINGS) as made:
        for sid in made.ensemble.by_id:
            await made.start(sid, OneChunk)
        away = (await made.follower()).me
        await made.stop(away)
        leader = await made.serving()
        for number in range(200):
            await leader.submit(b"%d" % number + bytes(1000))
        while leader.status().counters.snapshots < 2:
            await trio.sleep(0.01)
        await made.start(away, OneChunk)
        while not any("snapshot_not_sent" in record.message for record in caplog.records):
            await trio.sleep(0.01)
        for number in range(20):
            await leader.submit(b"more %d" % number)
        assert made.failures == {}
