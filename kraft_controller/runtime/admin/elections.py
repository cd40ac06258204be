"""Asking the controller for elections, through the node that it watches: one request at a time."""

from __future__ import annotations

from collections.abc import Iterable

import zab
from kraft_controller.core.names import TopicPartition
from kraft_controller.wire import znodes
from kraft_controller.wire.znodes import DamagedNode


class ElectionUnderWay(Exception):
    """Somebody else's request is in the node, and the controller has not dealt with it yet."""


async def ask_for_elections(
    session: zab.Session, partitions: Iterable[TopicPartition], *, unclean: bool = False
) -> None:
    """By those who are preferred; unclean: by anybody who is alive, where nobody leads. That may lose records."""
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
        return f"{damaged}. No controller can hold that election: remove the node, or write it anew"
    except zab.NoNode:
        pass  # it has just been held
    return f"{znodes.PREFERRED} is there already: another election was asked for, and no controller has held it yet"


async def until_held(session: zab.Session) -> None:
    """Until the controller has dealt with what is in the node."""
    async with session.watcher() as heard:
        while await session.exists(znodes.PREFERRED, heard) is not None:
            await anext(heard)
