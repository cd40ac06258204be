"""Histories of correct stores are valid: moving clients, lagging servers, snapshots, lost replies, ended sessions."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.checkers.store import check
from harness.history import Info, Invoke, Response, SessionEvent, WatchFired
from tests.histories.ensemble import legal


@pytest.mark.parametrize("seed", range(60))
def test_history_of_a_correct_store_is_valid(seed: int) -> None:
    verdict = check(legal(seed, steps=120))
    assert verdict.valid, str(verdict)


def test_legal_histories_contain_all_kinds_of_events() -> None:
    seen: Counter[str] = Counter()
    for seed in range(60):
        history = legal(seed, steps=150)
        seen["jump"] += len(history.jumps or ())
        for event in history.events:
            match event:
                case Invoke():
                    seen[f"{event.request.op} {event.request.mode}{event.request.watch}"] += 1
                case Response():
                    seen[f"error {event.reply.error}"] += 1
                case WatchFired():
                    seen[f"fired {event.event} {event.zxid > 0}"] += 1
                case SessionEvent():
                    seen[event.state] += 1
                case Info():
                    seen["lost"] += 1
    assert len(seen) > 35
