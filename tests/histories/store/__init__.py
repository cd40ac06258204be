"""For every promise of the store, histories that keep it and histories that break it, each to be read by a person.

A story is a function that tells a `HistoryBuilder`; `violated` names the promise that it breaks, or nothing.
"""

from __future__ import annotations

from tests.histories.store import answers, closer, committed, finer, lists, lost, sessions, watching
from tests.histories.store.example import EXAMPLES, Example

MODULES = (committed, answers, lost, sessions, watching, finer, lists, closer)

__all__ = ["MODULES", "EXAMPLES", "Example"]
