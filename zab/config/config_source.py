"""The entries of a configuration file and of the command line, with their problems.

Problems are collected and reported together, so that the operator needs only one start to see all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar, overload

from attrs import define, field, frozen

from zab.config.key_table import KeyTable
from zab.config.properties_file import PropertiesEntry, decode, parse
from zab.config.values import Adjusted
from zab.core.errors import ConfigError

P = ParamSpec("P")
T = TypeVar("T")

OPTION_LINE: Final = 0
"""The line number of an entry from the command line."""
_NAMES_A_FILE: Final = ("tore.location", "crl.location", "login.config")


class BadConfig(Exception):
    """The configuration cannot be used. `problems` has one line for each problem, `warnings` one for each warning."""

    def __init__(self, problems: Iterable[str], warnings: Iterable[str] = ()) -> None:
        self.problems = tuple(problems)
        self.warnings = tuple(warnings)
        super().__init__("\n".join(self.problems))


def all_of(*steps: Callable[[], object]) -> None:
    """Run all steps. If any of them raised `BadConfig`, raise one with the problems of all, each problem once."""
    problems: list[str] = []
    for step in steps:
        try:
            step()
        except BadConfig as error:
            problems += error.problems
    if problems:
        raise BadConfig(dict.fromkeys(problems))


@frozen
class ConfigEntry:
    """The value of a key, and the place that sets it."""

    key: str
    value: str
    shown: str
    """The value, or "..." if it is or may be a secret."""
    place: str
    """`FILE:LINE`, or the name of an option of the command line."""
    line: int

    @property
    def text(self) -> str:
        return f"{self.place}: {self.key}={self.shown}"


@define
class ConfigSource:
    path: Path
    table: KeyTable
    entries: dict[str, ConfigEntry] = field(factory=dict)
    """Each key once, under its canonical name, with the value that was added last."""
    problems: list[str] = field(factory=list)
    warnings: list[str] = field(factory=list)

    @classmethod
    def of_text(cls, path: Path, table: KeyTable, text: str) -> Self:
        source = cls(path, table)
        source.add_entries(path, source.parsed(path, text))
        return source

    def add_file(self, path: Path) -> None:
        try:
            text = decode(path.read_bytes())
        except OSError as error:
            self.problems.append(f"{path}: cannot be read: {error.strerror}")
        else:
            self.add_entries(path, self.parsed(path, text))

    def parsed(self, path: Path, text: str) -> list[PropertiesEntry]:
        malformed: list[int] = []
        entries = parse(text, malformed)
        self.problems += [f"{path}:{line}: four hexadecimal digits must follow \\u" for line in malformed]
        return entries

    def add_entries(self, path: Path, entries: Iterable[PropertiesEntry]) -> None:
        for each in entries:
            key = self.table.canonical(each.key)
            entry = ConfigEntry(key, each.value, self.table.shown(key, each.value), f"{path}:{each.line}", each.line)
            before = self.entries.get(key)
            self.entries[key] = entry
            if before is not None:
                self.on_duplicate(entry, before)

    def on_duplicate(self, entry: ConfigEntry, before: ConfigEntry) -> None:
        self.warn(entry.key, f"also at {before.place}, as {before.shown!r}; the last one counts")

    def add_options(self, option: str, pairs: Iterable[tuple[str, str]]) -> None:
        """Add entries from an option of the command line. They replace the file's entries of the same keys."""
        for name, value in pairs:
            key = self.table.canonical(name)
            entry, before = (
                ConfigEntry(key, value, self.table.shown(key, value), option, OPTION_LINE),
                self.entries.get(key),
            )
            self.entries[key] = entry
            if before is not None and before.line == OPTION_LINE:
                self.on_duplicate(entry, before)

    # -- reading ---------------------------------------------------------------------------------

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    @overload
    def text(self, key: str) -> str: ...

    @overload
    def text(self, key: str, default: T) -> str | T: ...

    def text(self, key: str, default: object = "") -> object:
        entry = self.entries.get(key)
        return default if entry is None else entry.value

    def value(self, key: str, default: Any = None) -> Any:
        """Return the converted value, or the default if the key is absent.

        An adjusted value is returned, too, and recorded as a warning. A value that cannot be converted is recorded as a
        problem, and the default is returned.
        """
        entry = self.entries.get(key)
        if entry is None:
            return default
        try:
            return self.table.keys[key].convert(entry.value)
        except Adjusted as adjusted:
            line = f"{entry.text}: {adjusted}"
            if line not in self.warnings:
                self.warnings.append(line)
            return adjusted.counts
        except ValueError as error:
            self.problem(key, f"expected {error}")
            return default

    def attempt(self, read: Callable[Concatenate[Self, P], T], /, *arguments: P.args, **options: P.kwargs) -> T | None:
        """Return the result of `read` for this source; None if it raises `BadConfig`, whose problems are recorded."""
        try:
            return read(self, *arguments, **options)
        except BadConfig as error:
            self._add(error.problems)
            return None

    # -- reporting -------------------------------------------------------------------------------

    def where(self, key: str) -> str:
        entry = self.entries.get(key)
        return f"{self.path}: {key}" if entry is None else entry.text

    def wrong(self, key: str, why: object) -> BadConfig:
        return BadConfig([f"{self.where(key)}: {why}"])

    def problem(self, key: str, why: object) -> None:
        self._add([f"{self.where(key)}: {why}"])

    def missing(self, key: str, why: str) -> None:
        self._add([f"{self.path}: {key} is missing: {why}"])

    def warn(self, key: str, why: object) -> None:
        self.warnings.append(f"{self.where(key)}: {why}")

    def is_wrong(self, key: str) -> bool:
        return any(line.startswith(f"{self.where(key)}: ") for line in self.problems)

    def _add(self, problems: Iterable[str]) -> None:
        """Record each problem once, because several readers may check the same key."""
        self.problems += [line for line in problems if line not in self.problems]

    def blame(self, error: ConfigError) -> None:
        """Record an error of a settings object as a problem of the key that the error's text names.

        The text names a key if it begins with `key=`, or with the path of a file that is the key's value. Otherwise the
        problem is recorded for the whole file. If the key has a problem already, nothing is recorded.
        """
        text = str(error)
        entry = next((each for each in self.entries.values() if text.startswith(f"{each.key}=")), None)
        if entry is None:
            entry, text = self._entry_of_file(text)
        if entry is None or not self.is_wrong(entry.key):
            self.problems.append(f"{self.path if entry is None else entry.place}: {text}")

    def _entry_of_file(self, text: str) -> tuple[ConfigEntry | None, str]:
        """Return the entry whose value is the path at the start of an error's text, and a text that names the key.

        Return None and the unchanged text if there is no such entry. Of several, prefer one without a problem.
        """
        named = [
            (entry, file)
            for entry in self.entries.values()
            if entry.key.endswith(_NAMES_A_FILE) and text.startswith(file := str(Path(entry.value))) and entry.value
        ]
        if not named:
            return None, text
        fresh = [each for each in named if not self.is_wrong(each[0].key)]
        entry, file = (fresh or named)[0]
        return entry, f"{entry.key}={entry.shown}: {text[len(file) :].lstrip(' ,:')}"

    # -- keys without effect ---------------------------------------------------------------------

    def warn_of_keys_without_effect(self, understood: Iterable[str] = ()) -> None:
        """Warn of keys that are unknown, and of keys without effect unless their value is one of `ConfigKey.agreed`.

        `understood`: keys that code reads although the table lacks them.
        """
        understood = frozenset(understood)
        for entry in self.entries.values():
            key = self.table.keys.get(entry.key)
            family = None if key is not None else self.table.family_of(entry.key)
            if key is not None:
                if key.ignored and not key.agrees(entry.value):
                    self.warn(entry.key, f"without effect: {key.does}")
            elif family is not None:
                if family.ignored:
                    self.warn(entry.key, f"without effect: {family.does}")
            elif entry.key not in understood and not self.is_wrong(entry.key):
                self._warn_of_unknown(entry)

    def _warn_of_unknown(self, entry: ConfigEntry) -> None:
        near = self.table.suggestion(entry.key)
        if entry.value.strip("=") or near:
            self.warn(entry.key, f"this key is unknown and has no effect{near}")
        else:  # the line may be the second half of a password, so it is not shown
            self.warnings.append(f"{entry.place}: this line has no known key and no value, and has no effect")

    def settings(self) -> dict[str, dict[str, Any]]:
        """Return the values of keys that become settings, by group and field.

        A wrong value is left out, and so is one that is converted to None: then the default applies.
        """
        found: dict[str, dict[str, Any]] = {}
        for name in list(self.entries):
            key = self.table.keys.get(name)
            value = None if key is None else self.value(name)
            if key is not None and key.sets and value is not None:
                group, _, setting = key.sets.partition(".")
                found.setdefault(group, {})[setting] = value
        return found
