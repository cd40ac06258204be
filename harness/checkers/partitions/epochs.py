"""Whether a log knows which leader wrote what. By that two replicas find where they part. When one is asked that knows
it wrong, what was never committed stays with somebody who takes it for committed: long after, if ever.
"""

from __future__ import annotations

from typing import Final

from harness.checkers.partitions.copies import GONE, Copy

TOLD: Final = "a log knows the start of each leader epoch"


def wrong_epochs(entries: list[tuple[int, int]], copy: Copy, *, cut: bool) -> str | None:
    """`entries`: epochs of leaders and where they began, as the log has them. `cut`: it has just been cut at its end,
    and what begins there was behind it."""
    records, begin, end = copy.records, copy.start, len(copy.records)
    last = max((start for _, start in entries), default=-1)
    if last > end or (cut and last == end and not copy.leads):
        return f"an epoch that begins at {last}, and the log ends at {end}"
    if len(entries) > 1 and entries[1][1] < begin:
        return f"two epochs that begin before {begin}, where the log does"
    epochs = [epoch for epoch, _ in entries]
    for place, (epoch, start) in enumerate(entries):
        before = records[start - 1] if begin < start <= end else GONE
        if before != GONE and before.epoch != (epochs[place - 1] if place else None):
            return f"epoch {epoch} from {start} on, and before that is {before}"
        here = records[start] if begin <= start < end else GONE
        if here != GONE and here.epoch != epoch:
            return f"epoch {epoch} from {start} on, and there is {here}"
    newest = records[-1] if begin < end else GONE
    known = [epoch for epoch, start in entries if start < end]
    if newest != GONE and newest.epoch != (known[-1] if known else None):
        return f"nothing of the epoch of {newest}, which it ends with"
    return None
