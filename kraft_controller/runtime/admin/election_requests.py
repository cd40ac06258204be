"""Requests for leader elections, written to a node that the controller watches. There is one request at a time."""

from __future__ import annotations

from collections.abc import Iterable

import zab
from kraft_controller.core.names import TopicPartition
from kraft_controller.wire import znodes
from kraft_controller.wire.znodes import DamagedNode


class ElectionUnderWay(Exception):
    """The node contains another request that the controller has not processed yet."""


async def ask_for_elections(
    session: zab.Session, partitions: Iterable[TopicPartition], *, unclean: bool = False
) -> None:
    """Request the election of preferred leaders. With `unclean`, request leaders only for partitions without a live
    leader: live ISR members, else any live replicas.

    An election from outside the ISR may lose records. Raise `ElectionUnderWay` if another request is not processed yet.
    """
    data = znodes.elections(partitions, unclean=unclean)
    await session.ensure_path(znodes.PREFERRED.rpartition("/")[0])
    try:
        await session.create(znodes.PREFERRED, data)
    except zab.NodeExists:
        raise ElectionUnderWay(await _why_under_way(session)) from None


async def _why_under_way(session: zab.Session) -> str:
    try:
        znodes.read_elections((await session.get(znodes.PREFERRED))[0])
    except DamagedNode as damaged:
        return f"{damaged}. The controller cannot process it: remove or rewrite the node"
    except zab.NoNode:
        pass  # the controller has processed it meanwhile
    return f"{znodes.PREFERRED} exists: the controller has not processed an earlier request yet"


async def until_held(session: zab.Session) -> None:
    """Wait until the controller has processed the request in the node."""
    async with session.watcher() as watch:
        while await session.exists(znodes.PREFERRED, watch) is not None:
            await anext(watch)
