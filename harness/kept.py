"""A failing script, kept in a file with what is known of it. Tests run every such file again, for ever.

The file is JSON. Without a bug put back, its script must hold, always. If it was found with one, it must break
that promise again when the bug is put back: then the harness can still see what it once saw.
"""

from __future__ import annotations

import json
import re
import subprocess
from contextlib import nullcontext
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import attrs
from attrs import frozen

from harness import scripts
from harness.mutants.edit import planted
from harness.mutants.table import BY_NAME
from harness.outcome import Outcome
from harness.rerun import rerun, terse
from harness.script import as_json
from harness.script.script import Script
from harness.scripts import ScriptError
from harness.worlds import WORLDS, world_for

ROOT: Final = Path(__file__).resolve().parents[1]


@frozen
class Kept:
    promise: str
    """Which one it broke."""
    script: Script
    mutant: str | None = None
    """The bug that was put back when it did; None: the code as it was."""
    world: str = WORLDS[0]
    found: str = ""
    """The day."""
    code: str = ""
    """The version of the code that it was found in."""
    what: str = ""
    """The verdict, in its words."""

    @property
    def name(self) -> str:
        slug = re.sub(r"[^a-z0-9]+", "-", self.promise.lower()).strip("-")
        mark = blake2b(terse(self.script).encode(), digest_size=3).hexdigest()
        return ".".join(part for part in (slug, self.mutant, mark, "json") if part)


def dumps(kept: Kept) -> str:
    """Write the facts first, then the script, in lines that can be compared."""
    lines = [
        f" {json.dumps(attribute.name)}: {json.dumps(getattr(kept, attribute.name))}"
        for attribute in attrs.fields(Kept)
        if attribute.name != "script"
    ]
    script = as_json.dumps(kept.script).rstrip().replace("\n", "\n ")
    return "{\n" + ",\n".join([*lines, f' "script": {script}']) + "\n}\n"


def loads(text: str) -> Kept:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ScriptError(f"line {error.lineno}, column {error.colno}: no JSON: {error.msg}") from error
    if not is_kept(data):
        raise ScriptError('kept: expected an object with a "script" and the "promise" that it broke')
    names = [attribute.name for attribute in attrs.fields(Kept)]
    unknown = sorted(set(data) - set(names))
    if unknown:
        raise ScriptError(f"kept.{unknown[0]}: unknown; there are {', '.join(names)}")
    made: dict[str, Any] = {**data, "script": as_json.from_json(data["script"])}
    kept = Kept(**made)
    if kept.mutant is not None and kept.mutant not in BY_NAME:
        raise ScriptError(f"kept.mutant: there is no mutant {kept.mutant}")
    if kept.world not in WORLDS:
        raise ScriptError(f"kept.world: {kept.world!r} is none of {', '.join(WORLDS)}")
    return kept


def is_kept(data: object) -> bool:
    return isinstance(data, dict) and "script" in data and "promise" in data


def script_in(text: str) -> Script:
    """Return the script in a file: alone, or kept with the facts about its failure."""
    try:
        data = json.loads(text)
    except ValueError:  # it is text, or it is no JSON, and then the reader of scripts says where
        return scripts.loads(text)
    return as_json.from_json(data["script"]) if is_kept(data) else scripts.loads(text)


def keep(folder: Path, kept: Kept) -> Path:
    """Stored under a name that says what it is about; the same script gets the same name."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / kept.name
    path.write_text(dumps(kept))
    return path


# -- again ---------------------------------------------------------------------------------------------


def objection(path: Path) -> str | None:
    """Return how a kept script's outcome differs from the expected one, with the line that repeats it, or None."""
    kept = loads(path.read_text())
    outcome = _run(kept, None)
    if not outcome.held:
        line = rerun(kept.script, world=kept.world, file=path)
        return f"{path.name} fails again: {outcome.promise}: {outcome.what}\n  {line}"
    if kept.mutant is None:
        return None
    outcome = _run(kept, kept.mutant)
    if outcome.promise == kept.promise:
        return None
    line = rerun(kept.script, world=kept.world, mutant=kept.mutant, file=path)
    instead = "nothing is noticed" if outcome.held else f"{outcome.promise} is"
    return f"{path.name}: with {kept.mutant} put back, {kept.promise!r} was broken; now {instead}\n  {line}"


def _run(kept: Kept, mutant: str | None) -> Outcome:
    with nullcontext() if mutant is None else planted(BY_NAME[mutant].edits):
        return world_for(kept.script.machine, kept.world).run(kept.script)


def code_version() -> str:
    """The commit of this tree, or of what was installed the number."""
    try:
        said = subprocess.run(
            ["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        from importlib.metadata import version

        return version("zab")
    return said.stdout.strip()
