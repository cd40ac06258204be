"""Invariants of partitions as the clients of brokers see them: acknowledged records stay, once, and in order.

`history`   the events of clients; `as_json` stores them
`case`      calls with their replies, the offsets of each value, and the events that count after an allowed loss
`values`    one value at an offset, one offset of a value, only sent values, in the order of the sends
`lost`      acknowledged records that are missing
`polls`     consumers that skip records or go back
`groups`    committed offsets of groups that are lost
`members`   members of a group that own the same partition, or skip records between them
`judge`     the verdict: the violations, or the order of each partition, which `verify` checks independently
"""

from __future__ import annotations

from harness.checkers.broken import Broken
from harness.checkers.records.as_json import dumps, loads
from harness.checkers.records.history import History
from harness.checkers.records.judge import Verdict, judge
from harness.json_lines import HistoryError

__all__ = ["Broken", "History", "HistoryError", "Verdict", "dumps", "judge", "loads"]
