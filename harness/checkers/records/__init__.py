"""Checks of what clients of brokers saw: are records where they were acknowledged, once, in order, and for ever?

`history`   what is checked, `as_json` how it is stored
`case`      calls with their answers, the places of each value, and what still counts where something was undone
`values`    one value at an offset, one offset of a value, nothing that was not sent, in the order of the sends
`lost`      acknowledged records that are missing
`polls`     consumers that skip records or go back
`groups`    offsets of groups that are forgotten
`members`   members of groups that have the same partition, or skip records between them
`judge`     all of it: the violations, or the order of each partition, which `verify` checks again by other means
"""

from __future__ import annotations

from harness.checkers.broken import Broken
from harness.checkers.records.as_json import dumps, loads
from harness.checkers.records.history import History
from harness.checkers.records.judge import Verdict, judge
from harness.json_lines import HistoryError

__all__ = ["Broken", "History", "HistoryError", "Verdict", "dumps", "judge", "loads"]
