"""A request that a throttle refuses belongs to a client whose requests have waited for as long as the setting says.

The server measures how long requests of a connection wait without a break, so a later request may be refused sooner
after it was asked. That a refused request was not carried out is what `outcomes` judges.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.checkers.store.broken import Broken
from harness.checkers.store.calls import Call
from harness.checkers.store.case import Case, broken

THROTTLED: Final = "a throttled request is refused only after its wait"
REFUSED: Final = "THROTTLED_OP"


def check(case: Case, wait_ms: int) -> Iterator[Broken]:
    """`wait_ms`: the setting; 0: no request may be refused."""
    for calls in case.calls.of.values():
        for call in calls:
            if call.told is None or call.told.reply.error != REFUSED:
                continue
            since = call.told.at - wait_ms * 1_000
            if not wait_ms or not any(_open_at(each, since) for each in calls):
                limit = f"no request of its client was open {wait_ms} ms before" if wait_ms else "no limit is set"
                yield broken(THROTTLED, call, f"it was refused ({REFUSED}) at {call.told.at}, and {limit}")


def _open_at(call: Call, at: int) -> bool:
    """Return whether the call was asked, and not answered yet."""
    end = call.told or call.lost
    return call.asked.at <= at and (end is None or end.at >= at)
