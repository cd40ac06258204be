"""The regression corpus: failing scripts in files, with the facts about their failures, for tests to run again.

Without a planted bug the script must be valid. If the script was found with a planted bug, it must violate the same
invariant with that bug: then the harness still detects it.
"""

from __future__ import annotations

import json
import re
import subprocess
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

import attrs
from attrs import frozen

from harness import scripts
from harness.mutants.table import BY_NAME
from harness.outcome import Outcome
from harness.run.plan import world_for
from harness.run.replay_line import replay_line, terse
from harness.run.runner import with_bug
from harness.script import as_json
from harness.script.script import Script
from harness.scripts import ScriptError
from harness.worlds import WORLDS

ROOT: Final = Path(__file__).resolve().parents[2]


@frozen
class Regression:
    """A failing script: the invariant that it violated, the mutant that was planted then, the day, and the code."""

    invariant: str
    script: Script
    mutant: str | None = None
    world: str = WORLDS[0]
    found: str = ""
    code: str = ""
    what: str = ""

    @property
    def name(self) -> str:
        slug = re.sub(r"[^a-z0-9]+", "-", self.invariant.lower()).strip("-")
        mark = blake2b(terse(self.script).encode(), digest_size=3).hexdigest()
        return ".".join(part for part in (slug, self.mutant, mark, "json") if part)


def dumps(regression: Regression) -> str:
    """Write the facts first, then the script, in lines that can be compared."""
    facts = attrs.asdict(regression, filter=lambda attribute, _: attribute.name != "script")
    lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in facts.items()]
    script = as_json.dumps(regression.script).rstrip().replace("\n", "\n ")
    return "{\n" + ",\n".join([*lines, f' "script": {script}']) + "\n}\n"


def loads(text: str) -> Regression:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ScriptError(f"line {error.lineno}, column {error.colno}: no JSON: {error.msg}") from error
    if not _is_regression(data):
        raise ScriptError('regression: expected an object with a "script" and the "invariant" that it violated')
    names = [attribute.name for attribute in attrs.fields(Regression)]
    unknown = sorted(set(data) - set(names))
    if unknown:
        raise ScriptError(f"regression.{unknown[0]}: unknown; there are {', '.join(names)}")
    found = Regression(**{**data, "script": as_json.from_json(data["script"])})
    if found.mutant is not None and found.mutant not in BY_NAME:
        raise ScriptError(f"regression.mutant: there is no mutant {found.mutant}")
    if found.world not in WORLDS:
        raise ScriptError(f"regression.world: {found.world!r} is none of {', '.join(WORLDS)}")
    return found


def _is_regression(data: object) -> bool:
    return isinstance(data, dict) and "script" in data and "invariant" in data


def script_in(text: str) -> Script:
    """Return the script in a file: alone, or in a regression."""
    try:
        data = json.loads(text)
    except ValueError:  # a script as text, or an error of the reader of scripts
        return scripts.loads(text)
    return as_json.from_json(data["script"]) if _is_regression(data) else scripts.loads(text)


def store(folder: Path, regression: Regression) -> Path:
    """Write the file. Its name has the invariant, the mutant and a hash, so the same script gets the same name."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / regression.name
    path.write_text(dumps(regression))
    return path


def objection(path: Path) -> str | None:
    """Return the difference from the expected outcome, with the command that repeats the run, or None."""
    stored = loads(path.read_text())
    outcome = _run(stored, None)
    if not outcome.valid:
        line = replay_line(stored.script, world=stored.world, file=path)
        return f"{path.name} fails again: {outcome.invariant}: {outcome.what}\n  {line}"
    if stored.mutant is None:
        return None
    outcome = _run(stored, stored.mutant)
    if outcome.invariant == stored.invariant:
        return None
    line = replay_line(stored.script, world=stored.world, mutant=stored.mutant, file=path)
    instead = "valid" if outcome.valid else "unknown" if outcome.invariant is None else repr(outcome.invariant)
    return f"{path.name}: with {stored.mutant} the expected violation is {stored.invariant!r}, not {instead}\n  {line}"


def _run(stored: Regression, mutant: str | None) -> Outcome:
    with with_bug(mutant):
        return world_for(stored.script.machine, stored.world).run(stored.script)


def code_version() -> str:
    """Return the commit of this tree, or the installed version.

    An installed package does not ask git: its environment may lie in a repository of others.
    """
    if (ROOT / "pyproject.toml").is_file():
        with suppress(OSError, subprocess.CalledProcessError):
            describe = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
            return subprocess.run(describe, capture_output=True, text=True, check=True).stdout.strip()
    from importlib.metadata import version

    return version("zab")
