"""Giving partitions back to those who are preferred to lead them: when a person asks, and now and then by itself."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from kraft_controller.core import partitions
from kraft_controller.core.asks import Damaged, DropPreferred, Partitions, ReadPreferred, Steps
from kraft_controller.core.desk import Desk
from kraft_controller.core.names import TopicPartition
from kraft_controller.core.partitions import Elect, Failed


class Verdict(Enum):
    """What became of an election that was asked for, beside that it was held."""

    ELECTED = ""
    NOT_NEEDED = "it is led as it should be"
    PREFERRED_NOT_AVAILABLE = "the preferred leader is not alive, or not in sync"
    ELIGIBLE_NOT_AVAILABLE = "nobody who may lead is alive"
    UNKNOWN = "there is no such partition"
    DELETING = "its topic is being deleted"


def elect(
    desk: Desk, wanted: Iterable[TopicPartition], *, unclean: bool = False
) -> Steps[dict[TopicPartition, Verdict]]:
    """Asked for by a person: preferred, or with anybody who is alive."""
    cluster = desk.cluster
    verdicts: dict[TopicPartition, Verdict] = {}
    held: list[TopicPartition] = []
    for where in wanted:
        state = cluster.states.get(where)
        if state is None or where.topic not in cluster.topics:
            verdicts[where] = Verdict.UNKNOWN
        elif cluster.is_deleting(where.topic):
            verdicts[where] = Verdict.DELETING
        elif cluster.is_live(state.leader) and (unclean or state.leader == cluster.brokers_of(where)[0]):
            verdicts[where] = Verdict.NOT_NEEDED
        else:
            held.append(where)
    strategy: Elect = partitions.unclean_election if unclean else partitions.preferred_election
    failed: Failed = yield from partitions.bring_online(desk, held, strategy)
    for where in held:
        if where not in failed:
            verdicts[where] = Verdict.ELECTED
        else:
            verdicts[where] = Verdict.ELIGIBLE_NOT_AVAILABLE if unclean else Verdict.PREFERRED_NOT_AVAILABLE
    return verdicts


def requested(desk: Desk) -> Steps[None]:
    """What people left in the node for it. It goes when the elections are over, however they went."""
    [found] = yield [ReadPreferred()]
    if isinstance(found, Damaged):
        desk.note_damaged(found.why, found.written)
    if not isinstance(found, Partitions):
        return
    verdicts = yield from elect(desk, found.partitions, unclean=found.unclean)
    for where, verdict in verdicts.items():
        if verdict is not Verdict.ELECTED:
            desk.note("not_elected", partition=str(where), unclean=found.unclean, why=verdict.value)
    yield [DropPreferred()]


def balance(desk: Desk) -> Steps[None]:
    """By itself: brokers that lead too little of what they are preferred for get back what they can take.

    Only what they are in sync with: anything else would fail each time, and be tried again each time.
    """
    cluster = desk.cluster
    uneven = {
        broker
        for broker, (preferred, elsewhere) in cluster.imbalance().items()
        if preferred and elsewhere * 100 > preferred * desk.settings.imbalance_percent
    }
    candidates = [
        where
        for where, state in cluster.states.items()
        if not cluster.is_deleting(where.topic)
        and where not in cluster.moving
        and (first := cluster.brokers_of(where)[:1])
        and first[0] in uneven
        and state.leader != first[0]
        and first[0] in cluster.online(where)
        and first[0] in state.isr
    ]
    if candidates:
        desk.note("rebalance", brokers=tuple(sorted(uneven)), partitions=len(candidates))
        yield from partitions.bring_online(desk, candidates, partitions.preferred_election)
