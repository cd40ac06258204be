"""The command that repeats a run. It contains a short script itself, and names the file of a long one."""

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


def replay_line(
    script: Script,
    *,
    world: str = WORLDS[0],
    mutant: str | None = None,
    file: Path | None = None,
    beside: Path | None = None,
) -> str:
    """Return the command that repeats a run.

    `file` already has the script. A script that is too long for a line is written to `beside`.
    """
    usual = world == WORLDS[0] or is_users(script.machine)
    how = f"{'' if usual else f' --world {world}'}{f' --mutant {mutant}' if mutant else ''}"
    line = f"echo {shlex.quote(terse(script))} | {COMMAND} -{how}"
    if file is None and len(line) <= LINE_MAX:
        return line
    return f"{COMMAND} {shlex.quote(str(file or written(script, beside)))}{how}"


def written(script: Script, path: Path | None = None) -> Path:
    """Write the script to this file, or to a temporary one. The same script gets the same temporary file."""
    text = terse(script)
    if path is None:
        mark = blake2b(text.encode(), digest_size=6).hexdigest()
        path = Path(tempfile.gettempdir()) / f"zab-harness-{mark}.json"
    path.write_text(text)
    return path


def terse(script: Script) -> str:
    """Return the script as one line of JSON, without fields that have their default."""
    made = {"version": VERSION, **_unusual(script)}
    for name in ("faults", "ops"):
        items = [{"kind": type(item).__name__, **_unusual(item)} for item in getattr(script, name)]
        if items:
            made[name] = items
    return json.dumps(made, separators=(",", ":"))


def _unusual(value: Any) -> dict[str, Any]:
    made = {}
    for attribute in attrs.fields(type(value)):
        given, default = getattr(value, attribute.name), attribute.default
        usual = default.factory() if isinstance(default, attrs.Factory) else default  # type: ignore[arg-type]  # a class
        if attribute.name in ("faults", "ops") or given == usual:
            continue
        if isinstance(given, tuple):
            given = [_unusual(part) if attrs.has(type(part)) else part for part in given]
        made[attribute.name] = _unusual(given) if attrs.has(type(given)) else given
    return made
