"""Examples for every invariant of the store: legal histories, and histories that violate it.

An example is a function that fills a `HistoryBuilder`; `violated` is the name of the violated invariant, or empty.
"""

from __future__ import annotations

from tests.histories.store import answers, closer, committed, finer, lists, lost, sessions, watching
from tests.histories.store.example import EXAMPLES, Example

MODULES = (committed, answers, lost, sessions, watching, finer, lists, closer)

__all__ = ["MODULES", "EXAMPLES", "Example"]
