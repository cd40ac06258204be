"""Which partitions were led by somebody who lacked what others had had, by what the store says in the end.

That may be: where the topic allows it, somebody is elected who was not in sync; and whose disk lost what it held stays
in the ISR until the controller has heard of it, and may be elected before that, with what is left. Who has left the ISR
since then is as good as any other: he comes back only with everything. Nobody else may lack anything.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from harness.checkers.controller.case import Case
from harness.history import History
from kraft_controller.core.names import NOBODY, TopicPartition
from kraft_controller.core.state import PartitionState


@frozen
class Loss:
    """Of a broker's disk, when the store had come so far."""

    zxid: int
    broker: int


def undone(history: History, losses: Sequence[Loss]) -> list[TopicPartition]:
    known: dict[TopicPartition, PartitionState] = {}
    lacking: dict[TopicPartition, set[int]] = {}
    found: dict[TopicPartition, None] = {}
    waiting = sorted(losses, key=lambda loss: loss.zxid)

    def lost_upto(zxid: int | None) -> None:
        while waiting and (zxid is None or waiting[0].zxid < zxid):
            loss = waiting.pop(0)
            for where, state in known.items():
                if loss.broker in state.isr:
                    lacking.setdefault(where, set()).add(loss.broker)

    for write, where, state, before in Case.of(history, ()).states():
        lost_upto(write.zxid)
        lack = lacking.get(where, set())
        lack.intersection_update(state.isr)
        unclean = before is not None and state.leader != NOBODY and state.leader not in before.isr and write.free
        if state.leader in lack or unclean:
            found[where] = None
        known[where] = state
    lost_upto(None)
    for where, lack in lacking.items():
        if known[where].leader in lack:
            found[where] = None
    return list(found)
