"""The line that repeats a run, whole in itself: it can be sent to somebody who has nothing but the tree."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any, Final

import attrs

from harness.script.script import Script
from harness.scripts import VERSION
from harness.worlds import WORLDS

COMMAND: Final = "zab-harness replay --script"


def rerun(script: Script, *, world: str = WORLDS[0], mutant: str | None = None, file: Path | None = None) -> str:
    how = f"{f' --world {world}' if world != WORLDS[0] else ''}{f' --mutant {mutant}' if mutant else ''}"
    if file is not None:
        return f"{COMMAND} {shlex.quote(str(file))}{how}"
    return f"echo {shlex.quote(terse(script))} | {COMMAND} -{how}"


def terse(script: Script) -> str:
    """The script as JSON in one line. What is as usual is not said."""
    made = {"version": VERSION, **_unusual(script)}
    for name in ("faults", "ops"):
        items = [{"kind": type(item).__name__, **_unusual(item)} for item in getattr(script, name)]
        if items:
            made[name] = items
    return json.dumps(made, separators=(",", ":"))


def _unusual(value: Any) -> dict[str, Any]:
    made = {}
    for attribute in attrs.fields(type(value)):
        held = getattr(value, attribute.name)
        if attribute.name in ("faults", "ops") or held == _usual(attribute):
            continue
        if attrs.has(type(held)):
            held = _unusual(held)
        elif isinstance(held, tuple):
            held = [_unusual(part) if attrs.has(type(part)) else part for part in held]
        made[attribute.name] = held
    return made


def _usual(attribute: Any) -> object:
    default = attribute.default
    return default.factory() if isinstance(default, attrs.Factory) else default  # type: ignore[arg-type]  # it is a class
