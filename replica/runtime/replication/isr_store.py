"""ISRs at the store: a conditional write, a read after an unknown outcome, and the notification of the controller."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

import zab
from kraft_controller.core.names import TopicPartition, Version
from kraft_controller.core.state import PartitionState
from kraft_controller.wire import znodes
from replica.core.replica_messages import WriteIsr

ANY_VERSION: Final = -1
"""A check with this version only requires that the node exists."""
NOTICE: Final = f"{znodes.ISR_CHANGES}/isr_change_"


class Outcome(Enum):
    """Why a write of an ISR is not known to be in force."""

    REFUSED = auto()
    """The node has another version."""
    LOST = auto()
    """The reply was lost: the write may be in force."""
    UNWANTED = auto()
    """A broker that was to join is not registered."""
    GONE = auto()
    """The node does not exist."""


async def write(session: zab.Session, asked: WriteIsr) -> Version | Outcome:
    """Write an ISR. Return the node's new version. Raise `zab.ZabError` while the store is unreachable.

    The zxid that created a broker's node identifies its registration. A multi cannot check that zxid, so it is read
    first. If a broker dies and returns between the read and the write, it joins only until the controller has noticed
    its death: the controller then writes the state again, without that broker.
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
    """Return the state as of now; None if the node does not exist. Raise `znodes.DamagedNode` if it is unreadable."""
    path = znodes.state_path(where)
    await session.sync(path)
    try:
        data, stat = await session.get(path)
    except zab.NoNode:
        return None
    return znodes.read_partition_state(where, data, Version(stat.version))


async def notify_of_isr_changes(session: zab.Session, changed: tuple[TopicPartition, ...]) -> None:
    """Have the controller read these states again. Repeat it after a lost reply: one notification too many does no
    harm."""
    await session.create(NOTICE, znodes.partitions(changed), sequential=True)
