"""The corpus for the checkers of brokers' clients, the most telling histories first."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from harness.checkers.records import HistoryError, judge
from harness.checkers.records.case import prepared
from harness.checkers.records.history import History
from harness.checkers.records.judge import order_of
from harness.checkers.records.verify import Orders, proves
from tests.histories.records.corrupt import CORRUPTIONS
from tests.histories.records.examples import EXAMPLES
from tests.histories.records.legal import legal
from tests.histories.records.random_history import random_history
from tests.histories.records.refused import REFUSED


def histories(*, legals: int = 16, corruptions: int = 3, wilds: int = 300) -> Iterator[tuple[str, History]]:
    legal_histories = [legal(seed, steps=80) for seed in range(legals)]
    yield from ((f"legal {seed}", history) for seed, history in enumerate(legal_histories))
    yield from ((f"lossy {seed}", legal(seed, steps=120, lossy=True)) for seed in range(legals // 2))
    yield from ((name, example.history) for name, example in EXAMPLES.items())
    yield from REFUSED.items()
    yield from ((f"wild {seed}", random_history(seed)) for seed in range(wilds))
    for corruption in CORRUPTIONS:
        count = 0
        for seed, history in enumerate(legal_histories):
            made = corruption(Random(seed), history)
            if made is not None and count < corruptions:
                count += 1
                yield f"{corruption.__name__} {seed}", made


def summary(history: History) -> object:
    """Return the verdict with its messages, and the results of the verifier."""
    try:
        verdict = judge(history)
        orders = order_of(prepared(history))
    except HistoryError as error:
        return str(error)
    found = [(str(each), each.evidence) for each in verdict.broken]
    proven = [proves(each, history) for each in (orders, *_wrong(orders))]
    return verdict.valid, verdict.invariant, str(verdict), found, verdict.orders, verdict.counts, proven


def _wrong(orders: Orders) -> Iterator[Orders]:
    """Yield wrong orders: without the first or last value, with swapped or foreign values."""
    for at, (partition, order) in enumerate(orders):
        if len(order) > 1:
            (one, first), (other, second), *rest = order
            for made in (
                order[1:],
                order[:-1],
                ((one, second), (other, first), *rest),
                ((one, "nobody's"), *order[1:]),
                (*order, (order[-1][0] + 1, first)),
            ):
                yield *orders[:at], (partition, made), *orders[at + 1 :]
