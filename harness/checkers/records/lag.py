"""How far behind the newest acknowledged record consumers were. Nobody promises anything of it."""

from __future__ import annotations

from bisect import bisect_left

from harness.checkers.records.case import Case, spans_of
from harness.checkers.records.history import Acked, Polled


def lag_us_max(case: Case) -> int:
    """Of all polls, the longest time for which the first record that it did not get had been acknowledged already.

    At least so much: a record was there before it was acknowledged.
    """
    acknowledged = {partition: _since(case, partition) for partition in case.known}
    longest = 0
    for poll in case.history.events:
        if isinstance(poll, Polled):
            for span in spans_of(poll):
                offsets, times = acknowledged.get(span.partition, ([], []))
                place = bisect_left(offsets, span.end)
                if place < len(offsets):
                    longest = max(longest, poll.asked - times[place])
    return longest


def _since(case: Case, partition: str) -> tuple[list[int], list[int]]:
    """Offsets ascending, and for each when the first of it and those behind it was acknowledged."""
    found = sorted(
        (offset, sighting.at)
        for offset, values in case.known[partition].items()
        for sighting in values.values()
        if isinstance(sighting.event, Acked)
    )
    times: list[int] = []
    for _, at in reversed(found):
        times.append(min(at, times[-1]) if times else at)
    return [offset for offset, _ in found], times[::-1]
