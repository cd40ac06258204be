"""Read, write and check scripts, as JSON and as text. The modules of `harness.script` implement it."""

from __future__ import annotations

import json

from harness.script import as_json, reading
from harness.script.as_json import VERSION, dumps, from_json, to_json
from harness.script.checks import ScriptError, check
from harness.script.script import Script
from harness.script.writing import describe

__all__ = ["VERSION", "ScriptError", "check", "describe", "dumps", "from_json", "loads", "to_json"]


def loads(text: str) -> Script:
    """Read a script in either form, JSON or text. A single JSON value is refused as JSON, not as text."""
    text = text.removeprefix("\ufeff")  # a byte order mark of an editor
    if not text.strip():
        raise ScriptError("the script is empty; it needs at least one line, such as `seed 1`")
    return as_json.loads(text) if _is_json(text) else reading.script(text)


def _is_json(text: str) -> bool:
    if text.lstrip().startswith(("{", "[")):
        return True
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
