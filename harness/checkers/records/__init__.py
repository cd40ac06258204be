"""What clients of brokers saw, judged: are records where they were acknowledged, once, in order, and for ever?

`history`   what is judged, `as_json` how it is stored
`standing`  what of it still counts, where something was undone
`case`      calls with their answers, and where each value was seen
`stood`     where consumers stand
`values`    one value at an offset, one offset of a value, nothing that was not written
`lost`      what was acknowledged and is not there
`polls`     consumers that jump or go back
`sends`     producers whose records stand in another order
`groups`    positions of groups that are forgotten
`members`   members of groups that have the same partition, or leave something out between them
`lag`       how far behind the newest record a consumer was: no promise, a number
`judge`     all of it: what is broken, or the order of each partition, which `verify` checks again by other means
"""

from __future__ import annotations

from harness.checkers.records.as_json import dumps, loads
from harness.checkers.records.broken import Broken
from harness.checkers.records.history import History
from harness.checkers.records.judge import Verdict, judge
from harness.json_lines import HistoryError

__all__ = ["Broken", "History", "HistoryError", "Verdict", "dumps", "judge", "loads"]
