"""The check of linearizability: a verdict on a history of clients, with a proof if it is legal and if it is illegal."""

from __future__ import annotations

from harness.checkers.linear.decide import check
from harness.checkers.linear.history import UNKNOWN, History, Operation, dumps, loads
from harness.checkers.linear.models import CasRegisters, Counters, Model, Queues, Registers, Store
from harness.checkers.linear.verdict import Illegal, Legal, Unknown, Verdict
from harness.checkers.linear.znodes import Znodes
from harness.json_lines import HistoryError

__all__ = [
    "check",
    "History",
    "HistoryError",
    "Operation",
    "UNKNOWN",
    "dumps",
    "loads",
    "Model",
    "Registers",
    "CasRegisters",
    "Store",
    "Counters",
    "Queues",
    "Znodes",
    "Verdict",
    "Legal",
    "Illegal",
    "Unknown",
]
