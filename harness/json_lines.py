"""Histories as text are lines of JSON, an object each. Whoever reads one says which line is wrong, and where in it."""

from __future__ import annotations

import json
from typing import Any, Final

INTEGERS: Final = range(-(1 << 63), 1 << 63)
"""No history has others: neither protocol nor the tables of campaigns have a place for them."""


class HistoryError(ValueError):
    """No history of this version, or one that contradicts itself. The message names the place."""


def parsed(line: str, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        raise HistoryError(f"line {number}, column {error.colno}: no JSON: {error.msg}") from error
    except RecursionError as error:
        raise HistoryError(f"line {number}: lists within lists within lists; a history is flat") from error
    except ValueError as error:  # a number of thousands of digits
        raise HistoryError(f"line {number}: {error}") from error
    if not isinstance(found, dict):
        raise HistoryError(f"line {number}: expected an object, not {type(found).__name__}")
    return found


def integer(value: object, where: str) -> int:
    if type(value) is not int:
        raise HistoryError(f"{where}: expected int, not {value!r:.80}")
    if value not in INTEGERS:
        raise HistoryError(f"{where}: expected a number of 64 bits, not {value}")
    return value
