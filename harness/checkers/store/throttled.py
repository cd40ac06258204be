"""A request that a throttle refuses has waited for as long as the setting says, and was not carried out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.checkers.store.broken import Broken
from harness.checkers.store.case import Case, broken

THROTTLED: Final = "a request is refused only after it has waited"
REFUSED: Final = "THROTTLED_OP"


def check(case: Case, wait_ms: int) -> Iterator[Broken]:
    """`wait_ms`: the setting; 0: no request may be refused. What is refused together waited as its oldest."""
    oldest: dict[tuple[int, int], int] = {}
    refused = [call for call in case.calls.all if call.reply is not None and call.reply.error == REFUSED]
    for call in refused:
        assert call.told is not None
        together = call.told.client, call.told.at
        oldest[together] = min(oldest.get(together, call.asked.at), call.asked.at)
    for call in refused:
        assert call.told is not None
        waited_ms = (call.told.at - oldest[call.told.client, call.told.at]) / 1_000
        if not wait_ms or waited_ms < wait_ms:
            limit = f"{wait_ms} ms are the limit" if wait_ms else "no limit is set"
            yield broken(THROTTLED, call, f"it was refused ({REFUSED}) after {waited_ms:.0f} ms, and {limit}")
