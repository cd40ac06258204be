"""The member's driver lets others have the loop, however long its requests take to prepare and to apply."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.integration.cluster import Recorder, cluster
from zab.core.zxid import Zxid
from zab.service.batch_applier import APPLY_S
from zab.service.replicated_machine import View

REQUESTS = 40


def work() -> None:
    """Block the loop for a quarter of a turn's limit."""
    ends = trio.current_time() + APPLY_S / 4
    while trio.current_time() < ends:
        pass


class Preparing(Recorder):
    def prepare(self, request: bytes, view: View) -> bytes:
        work()
        return super().prepare(request, view)


class Applying(Recorder):
    def apply(self, zxid: Zxid, txn: bytes) -> int:
        work()
        return super().apply(zxid, txn)


@pytest.mark.parametrize("machine", [Preparing, Applying])
async def test_others_have_the_loop_between_requests_that_came_together(
    tmp_path: Path, machine: type[Recorder]
) -> None:
    rounds = answered = 0
    at_rounds: list[int] = []

    async def count() -> None:
        nonlocal rounds
        while answered < REQUESTS:
            await trio.lowlevel.checkpoint()
            rounds += 1

    def done(result: object, error: Exception | None) -> None:
        nonlocal answered
        assert error is None
        answered += 1
        at_rounds.append(rounds)

    async with cluster(tmp_path, 1, start=False) as servers, trio.open_nursery() as nursery:
        member = await servers.start(1, machine)
        await servers.serving()
        nursery.start_soon(count)
        assert member.post_many([b"%d" % number for number in range(REQUESTS)], done) == REQUESTS
    assert servers.machines[1].log == [b"%d" % number for number in range(REQUESTS)]
    assert len(set(at_rounds)) >= REQUESTS // 8
