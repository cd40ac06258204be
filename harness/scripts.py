"""Scripts as JSON and as text, and whether they make sense, under one name; see the modules of `harness.script`."""

from __future__ import annotations

import json

from harness.script import as_json, reading
from harness.script.as_json import VERSION, dumps, from_json, to_json
from harness.script.checks import ScriptError, check
from harness.script.script import Script
from harness.script.writing import describe

__all__ = ["VERSION", "ScriptError", "check", "describe", "dumps", "from_json", "loads", "to_json"]


def loads(text: str) -> Script:
    """Either form: JSON begins with a bracket of some kind, or is a single value, and then no script."""
    text = text.removeprefix("\ufeff")  # editors that write one mean nothing by it
    if not text.strip():
        raise ScriptError("there is nothing in it; a script has at least a line, such as `seed 1`")
    return as_json.loads(text) if _is_json(text) else reading.script(text)


def _is_json(text: str) -> bool:
    if text.lstrip().startswith(("{", "[")):
        return True
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
