"""Handwritten histories of the store: each has the expected verdict."""

from __future__ import annotations

import pytest

from harness.checkers.store import judge
from tests.histories.store import EXAMPLES, Example


@pytest.mark.parametrize("case", EXAMPLES.values(), ids=EXAMPLES)
def test_case_has_the_expected_verdict(case: Example) -> None:
    verdict = judge(case.history)
    if not case.violated:
        assert verdict.valid, str(verdict)
    else:
        invariants = [each.invariant for each in verdict.store.broken] or [str(verdict.invariant)]
        assert case.violated in invariants, str(verdict)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("event_comes_twice", "the event created /x of zxid 0x3 came twice"),
        ("reconnected_client_gets_an_event_twice", "the event data /x came twice"),
        (
            "reconnected_client_gets_an_event_without_a_change",
            "the event data /x came, but the client had seen all changes that it can report",
        ),
        (
            "end_of_a_session_is_reported_before_the_close",
            "the client received its end at 60, before the session ended: it ended at zxid 0x9, after zxid 0x5",
        ),
    ],
)
def test_message_names_the_mistake(name: str, words: str) -> None:
    assert words in judge(EXAMPLES[name].history).what
