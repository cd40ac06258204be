"""What the clients of brokers saw, as a part of what became of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from attrs import asdict, evolve

from harness.checkers import transactions
from harness.checkers.records import judge
from harness.checkers.records.history import NOBODY, Undone
from harness.outcome import Outcome
from harness.worlds.brokers.tape import Tape
from kraft_controller.core.names import TopicPartition

LIVENESS: Final = "liveness"


def with_transactions(outcome: Outcome, journal: transactions.Journal) -> Outcome:
    """Where nobody has led who lacked what others had had."""
    if not journal.transactions:
        return outcome
    ends = Counter(f"transactions {each.end.name.lower()}" for each in journal.transactions)
    ends["transactions, positions seen"] = len(journal.looks)
    made = evolve(outcome, counts=tuple(sorted((dict(outcome.counts) | ends).items())))
    broken = next(transactions.judge(journal), None)
    if broken is None or outcome.promise not in (None, LIVENESS):
        return made
    return evolve(made, promise=broken.promise, what=broken.what, undecided=False)


def with_records(outcome: Outcome, tape: Tape, gone: Iterable[TopicPartition] = ()) -> Outcome:
    """What was broken while it ran comes first; but that something never came to pass may have its cause in here.

    `gone`: somebody led them who lacked something. Nobody promises anything of what was seen before all was settled.
    """
    for where in gone:
        tape.add_late(Undone(tape.settled_us(), NOBODY, str(where)))
    history = tape.history()
    verdict = judge(history)
    counts = {f"records {name}": count for name, count in asdict(verdict.counts).items()}
    made = evolve(
        outcome,
        acknowledged=verdict.counts.acknowledged,
        counts=tuple(sorted((dict(outcome.counts) | counts).items())),
        history=None,
        records=history,
    )
    if verdict.held or outcome.promise not in (None, LIVENESS):
        return made
    return evolve(made, promise=verdict.promise, what=verdict.broken[0].what, undecided=False)
