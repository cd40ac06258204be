"""Histories of operations: JSON, text, and refused contradictions."""

from __future__ import annotations

import json
from random import Random

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.checkers.linear import UNKNOWN, History, HistoryError, Operation, Registers, Store, check, dumps, loads
from tests.histories.operations import KINDS, true_history

FIRST = Operation(1, "a", "write", "x", 5, None, 0, 4, zxid=0x100000001)
SECOND = Operation(2, "a", "read", "x", None, 5, 6, 8)
LOST = Operation(3, "b", "write", "x", 6, UNKNOWN, 7, None)


@given(kind=st.sampled_from(sorted(KINDS)), seed=st.integers(0, 2**32))
def test_history_round_trips_through_json(kind: str, seed: int) -> None:
    model, draw = KINDS[kind]
    history = true_history(Random(seed), model, draw, 20)
    assert loads(dumps(history)) == history


def test_text_of_a_history() -> None:
    assert str(History((LOST, SECOND, FIRST))).splitlines() == [
        "#1 a  [0, 4]  write x 5 -> None  zxid 0x100000001",
        "#2 a  [6, 8]  read x -> 5",
        "#3 b  [7, ...]  write x 6 no reply",
    ]


@pytest.mark.parametrize(
    ("operations", "complaint"),
    [
        ((FIRST, attrs.evolve(SECOND, id=1)), r"operations\[1\] \(#1\).id: operations\[0\] has the same id"),
        ((attrs.evolve(FIRST, ret=-1),), r"operations\[0\] \(#1\).ret: -1 is before its call at 0"),
        ((attrs.evolve(FIRST, ret=None),), "both a result and a return, or neither"),
        ((attrs.evolve(LOST, ret=9),), "both a result and a return, or neither"),
        ((attrs.evolve(FIRST, zxid=-1),), "zxid: -1 is negative"),
        ((FIRST, attrs.evolve(SECOND, call=4)), "client 'a' calls at 4, but its #1 returned at 4; record"),
        ((LOST, attrs.evolve(SECOND, client="b", call=8)), "client 'b' calls at 8, but its #3 never returned"),
    ],
)
def test_contradictory_history_is_refused(operations: tuple[Operation, ...], complaint: str) -> None:
    with pytest.raises(HistoryError, match=complaint):
        History(operations)


ROW = {"id": 1, "client": "a", "kind": "read", "key": "x", "value": None, "result": 1, "call": 0, "ret": 1}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"version": 1,\n "operations": [', "line 2, column 17: invalid JSON"),
        ("[]", "history: expected an object, not list"),
        ('{"version": 2, "operations": []}', "history.version: expected 1, not 2"),
        ('{"version": 1}', "history.operations: expected a list, not NoneType"),
        ('{"version": 1, "operations": [], "seed": 1}', "history.seed: unknown"),
        ('{"version": 1, "operations": [7]}', r"operations\[0\]: expected an object, not int"),
        ("[" * 100_000, "history: "),
        ('{"version": ' + "1" * 5_000 + "}", "history: "),
        *(
            (json.dumps({"version": 1, "operations": [{**ROW, **change}]}), rf"operations\[0\].{complaint}")
            for change, complaint in (
                ({"call": "0"}, "call: expected int, not '0'"),
                ({"call": True}, "call: expected int, not True"),
                ({"colour": 1}, "colour: unknown; an operation has id, client"),
                ({"result": 1.5}, "result: expected null, .* not 1.5"),
                ({"value": [[1, {}]]}, r"value\[0\]\[1\]: expected null, .* not {}"),
            )
        ),
        (json.dumps({"version": 1, "operations": [{"id": 1}]}), r"operations\[0\].client: missing"),
    ],
)
def test_invalid_file_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(HistoryError, match=complaint):
        loads(text)


@pytest.mark.parametrize(
    ("op", "complaint"),
    [
        (attrs.evolve(SECOND, kind="take"), "#2.kind: Store has no operation 'take'"),
        (attrs.evolve(SECOND, kind="cas", value=3), "value of cas"),
        (attrs.evolve(SECOND, kind="multi"), "#2.value: a multi needs at least one"),
        (attrs.evolve(SECOND, kind="multi", value=(("fly", "x", 1),)), r"#2.value\[0\]"),
    ],
)
def test_unknown_operation_is_refused(op: Operation, complaint: str) -> None:
    with pytest.raises(HistoryError, match=complaint):
        check(History((op,)), Store())


def test_empty_history_is_legal() -> None:
    assert str(check(History(()), Registers())) == "legal, by zones, 0 steps"
