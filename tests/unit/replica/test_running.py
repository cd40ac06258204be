"""Errors of a running broker that end its command with one line."""

from __future__ import annotations

import pytest
import trio

from kraft_controller.wire.znodes import DamagedNode
from replica.cli.running import run
from zab.cli.kit.failures import FAILED, Failed

WHY = "/cluster/id: not JSON"


async def start(count: int) -> None:
    async with trio.open_nursery() as nursery, trio.open_nursery() as inner:
        for _ in range(count):
            inner.start_soon(fail)
        nursery.start_soon(trio.sleep_forever)


async def fail() -> None:
    raise DamagedNode(WHY)


@pytest.mark.parametrize("brokers", [1, 3])
def test_damaged_node_ends_the_command_with_one_line(brokers: int) -> None:
    with pytest.raises(Failed) as caught:
        run(start, brokers)
    assert caught.value.message == WHY
    assert caught.value.exit_code == FAILED
