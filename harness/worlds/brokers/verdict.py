"""The verdict on the history of broker clients, added to an outcome, and the partitions that may lose records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from attrs import asdict, evolve, frozen

from harness.checkers import transactions
from harness.checkers.controller.case import Case
from harness.checkers.records import judge
from harness.checkers.records.history import NOBODY, Undone
from harness.history import History
from harness.outcome import Outcome
from harness.worlds.brokers.recorder import Recorder
from kraft_controller.core.names import NO_LEADER, TopicPartition
from kraft_controller.core.state import PartitionState

LIVENESS: Final = "liveness"


def with_transactions(outcome: Outcome, journal: transactions.Journal) -> Outcome:
    """Judge transactions of a run in which no partition may have lost records, see `partitions_with_losses`."""
    if not journal.transactions:
        return outcome
    ends = Counter(f"transactions {each.outcome.name.lower()}" for each in journal.transactions)
    ends["transactions, positions seen"] = len(journal.positions)
    return _with_broken(outcome, ends, next(transactions.judge(journal), None))


def _with_broken(outcome: Outcome, counts: dict[str, int], broken: Any, **more: Any) -> Outcome:
    """Add counts, and a violation in the history of clients, if any.

    A violation during the run takes precedence, unless it is one of liveness: its cause may be in the history.
    """
    made = evolve(outcome, counts=tuple(sorted((dict(outcome.counts) | counts).items())), **more)
    if broken is None or outcome.invariant not in (None, LIVENESS):
        return made
    return evolve(made, invariant=broken.invariant, what=broken.what, unknown=False)


def with_records(outcome: Outcome, recorder: Recorder, lossy: Iterable[TopicPartition] = ()) -> Outcome:
    """Judge records.

    `lossy`: the partitions that may have lost records, see `partitions_with_losses`. Their events before the time of
    `Recorder.settled` are void.
    """
    for where in lossy:
        recorder.add_late(Undone(recorder.settled_us(), NOBODY, str(where)))
    history = recorder.history()
    verdict = judge(history)
    counts = {f"records {name}": count for name, count in asdict(verdict.counts).items()}
    broken, acknowledged = next(iter(verdict.broken), None), verdict.counts.acknowledged
    return _with_broken(outcome, counts, broken, acknowledged=acknowledged, history=None, records=history)


@frozen
class Loss:
    """The loss of a broker's disk, and the zxid that the store had reached at that time."""

    zxid: int
    broker: int


def partitions_with_losses(history: History, losses: Sequence[Loss]) -> list[TopicPartition]:
    """Return the partitions that may have had a leader without all committed records, by the history of the store.

    Two cases are allowed. An unclean election chooses a replica out of sync if the topic permits it. A replica whose
    disk was lost stays in the ISR until the controller notices, and may be elected before that. A replica that has
    left the ISR since then does not count: it rejoins only with all committed records.
    """
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
        unclean = before is not None and state.leader != NO_LEADER and state.leader not in before.isr and write.unclean
        if state.leader in lack or unclean:
            found[where] = None
        known[where] = state
    lost_upto(None)
    for where, lack in lacking.items():
        if known[where].leader in lack:
            found[where] = None
    return list(found)
