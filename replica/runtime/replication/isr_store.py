"""ISRs at the store: written under a condition, read when it is not known what became of a write, and noted for the
controller."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

import zab
from kraft_controller.core.names import BrokerId, TopicPartition, Version
from kraft_controller.core.state import PartitionState
from kraft_controller.wire import znodes
from replica.core.replica_messages import WriteIsr

ANY_VERSION: Final = -1
"""It is there, whatever it holds."""
NOTICE: Final = f"{znodes.ISR_CHANGES}/isr_change_"
DISK_NOTICE: Final = f"{znodes.LOG_DIR_EVENTS}/log_dir_event_"


class Outcome(Enum):
    REFUSED = auto()
    """The node is at another version."""
    LOST = auto()
    """Nobody knows."""
    UNWANTED = auto()
    """Who was to join is not registered."""
    GONE = auto()
    """There is no such node."""


async def write(session: zab.Session, asked: WriteIsr) -> Version | Outcome:
    """The version afterwards, if it stands. Other errors say that there is no store to be asked now: `zab.ZabError`.

    Which life of a broker is registered is told by the zxid that made its node, and no condition of a multi asks for
    that: so it is read. Who dies between the reading and the write, and is back by then, is let in only if the
    controller has not seen it yet, for it writes the state anew then; and when it sees it, it takes him out.
    """
    lives = [(broker, life) for broker, life in zip(asked.joins, asked.lives, strict=False) if life != -1]
    if lives:
        await session.sync(znodes.BROKERS)
    for broker, life in lives:
        there = await session.exists(znodes.broker_path(broker))
        if there is None or there.czxid != life:
            return Outcome.UNWANTED
    multi = zab.Multi()
    for broker in asked.joins:
        multi.check(znodes.broker_path(broker), ANY_VERSION)
    multi.set(znodes.state_path(asked.where), znodes.partition_state(asked.state), version=asked.state.version)
    try:
        stat = (await session.multi(multi))[-1]
    except zab.OutcomeUnknown:
        return Outcome.LOST
    except zab.BadVersion:
        return Outcome.REFUSED
    except zab.NoNode as error:
        return Outcome.UNWANTED if error.index is not None and error.index < len(asked.joins) else Outcome.GONE
    assert isinstance(stat, zab.Stat)
    return Version(stat.version)


async def read(session: zab.Session, where: TopicPartition) -> PartitionState | None:
    """As it is now, whatever server answers. None: there is none. `znodes.DamagedNode` if it makes no sense."""
    path = znodes.state_path(where)
    await session.sync(path)
    try:
        data, stat = await session.get(path)
    except zab.NoNode:
        return None
    return znodes.read_partition_state(where, data, Version(stat.version))


async def tell_of_disk(session: zab.Session, broker: BrokerId) -> None:
    """A log of this broker failed. The controller asks which, and has others lead. One note too many does no harm."""
    await session.create(DISK_NOTICE, znodes.log_dir_event(broker), sequential=True)


async def tell(session: zab.Session, changed: tuple[TopicPartition, ...]) -> None:
    """A note too many does no harm, so one whose answer is lost is written again by whoever calls again."""
    await session.create(NOTICE, znodes.partitions(changed), sequential=True)
