"""The line that repeats a run. If it is short it is whole in itself, and can be sent to somebody who has nothing but
the tree; what is too long for a line is in a file that the line names.
"""

from __future__ import annotations

import json
import shlex
import tempfile
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import attrs

from harness.script.names import is_users
from harness.script.script import Script
from harness.scripts import VERSION
from harness.worlds import WORLDS

COMMAND: Final = "zab-harness replay --script"
LINE_MAX: Final = 600


def rerun(
    script: Script,
    *,
    world: str = WORLDS[0],
    mutant: str | None = None,
    file: Path | None = None,
    beside: Path | None = None,
) -> str:
    """`file` has the script already. `beside` is where it is put if it is too long for a line."""
    usual = world == WORLDS[0] or is_users(script.machine)
    how = f"{'' if usual else f' --world {world}'}{f' --mutant {mutant}' if mutant else ''}"
    line = f"echo {shlex.quote(terse(script))} | {COMMAND} -{how}"
    if file is None and len(line) <= LINE_MAX:
        return line
    return f"{COMMAND} {shlex.quote(str(file or written(script, beside)))}{how}"


def written(script: Script, path: Path | None = None) -> Path:
    """Into this file, or one of its own among those that are there for a while; the same script gets the same one."""
    text = terse(script)
    if path is not None:
        path.write_text(text)
        return path
    mark = blake2b(text.encode(), digest_size=6).hexdigest()
    path = Path(tempfile.gettempdir()) / f"zab-harness-{mark}.json"
    path.write_text(text)
    return path


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
