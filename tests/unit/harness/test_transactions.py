"""The checker of transactions, with legal and illegal histories."""

from __future__ import annotations

import pytest

from harness.checkers.transactions import Seen, judge
from harness.worlds.brokers.requests import records_in
from replica.wire.batch import TRANSACTIONAL
from replica.wire.records import ControlType, Record, build, control_batch
from replica.wire.schemas.data_schemas import AbortedTransaction
from tests.histories.transactions import EXAMPLES, Example


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_only_the_violated_invariants_are_reported(example: Example) -> None:
    assert {each.invariant for each in judge(example.journal)} == set(example.violated)


def test_aborted_records_are_left_out_until_abort_marker() -> None:
    data = b""
    for offset, producer, value in ((0, 7, b"a"), (1, 8, b"b"), (3, 7, b"c")):
        if offset == 3:
            data += control_batch(ControlType.ABORT, 7, 0, 0, 0, base_offset=2)
        record = Record(offset, 0, None, value)
        data += build([record], producer_id=producer, producer_epoch=0, base_sequence=0, flags=TRANSACTIONAL)
    assert records_in(data, 0, [AbortedTransaction(7, 0)]) == ([Seen(1, "b"), Seen(3, "c")], 4)
    assert records_in(data, 2, []) == ([Seen(3, "c")], 4)
