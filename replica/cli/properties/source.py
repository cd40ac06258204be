"""What is said in the file and beside it, and everything that is wrong with it.

Mistakes are gathered and told together: who mends them one at a time starts a broker once for each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from attrs import define, field, frozen

from replica.cli.properties.keys import KEYS
from zab.cli.zoo.properties import Entry, MalformedEscape, parse
from zab.core.secrets import shown

T = TypeVar("T")

BESIDE: Final = 0
"""The line of what was said with --override."""
_LISTENER: Final = "listener.name."
_ALIKE: Final = 0.8


class Misconfigured(Exception):
    """The file makes no sense. `problems` say which keys of which lines, and what would do."""

    def __init__(self, problems: Iterable[str], warnings: Iterable[str] = ()) -> None:
        self.problems = tuple(problems)
        self.warnings = tuple(warnings)
        super().__init__("\n".join(self.problems))


@define
class Source:
    path: str
    known: Collection[str] = KEYS
    """Keys whose values are shown, unless they are secrets."""
    entries: dict[str, Entry] = field(factory=dict)
    """Each key once: what is said beside the file stands before it, and in the file the last one counts."""
    problems: list[str] = field(factory=list)
    warnings: list[str] = field(factory=list)

    @classmethod
    def of(cls, path: str, text: str, beside: Mapping[str, str], known: Collection[str] = KEYS) -> Source:
        source = cls(path, known)
        try:
            entries = parse(text)
        except MalformedEscape as error:
            why = f"{path}, line {error.line}: after \\u come four hexadecimal digits"
            raise Misconfigured([why]) from None
        for entry in entries:
            before = source.entries.get(entry.key)
            source.entries[entry.key] = entry
            if before is not None:
                source.warn(entry.key, f"line {before.line} says {source.shown(before)!r}; the last one counts")
        source.entries |= {key: Entry(key, value, BESIDE, BESIDE) for key, value in beside.items()}
        return source

    # -- looking -------------------------------------------------------------------------------------------

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def text(self, key: str, default: str = "") -> str:
        entry = self.entries.get(key)
        return default if entry is None else entry.value

    def value(self, key: str, default: Any = None) -> Any:
        """Converted; what cannot be is a problem, and the default stands in for it."""
        entry = self.entries.get(key)
        if entry is None:
            return default
        try:
            return KEYS[key].convert(entry.value)
        except ValueError as error:
            self.problem(key, f"expected {error}")
            return default

    def tried(self, read: Callable[..., T], *arguments: Any, default: T | None) -> T | None:
        """Of whoever stops at the first mistake of his own."""
        try:
            return read(self, *arguments)
        except Misconfigured as error:
            self._add(error.problems)
            return default

    def at(self, listener: str) -> Scope:
        return Scope(self, f"{_LISTENER}{listener.lower()}.")

    # -- telling -------------------------------------------------------------------------------------------

    def where(self, key: str) -> str:
        entry = self.entries.get(key)
        if entry is None:
            return f"{self.path}: {key}"
        return f"{self.place(entry)}: {key}={self.shown(entry)}"

    def place(self, entry: Entry) -> str:
        return "--override" if entry.line == BESIDE else f"{self.path}, line {entry.line}"

    def shown(self, entry: Entry) -> str:
        """Keys of a listener or of a mechanism are known by what follows its name."""
        key = entry.key
        if key.startswith(_LISTENER):
            key = key.removeprefix(_LISTENER).partition(".")[2]
            key = key if key in self.known else key.partition(".")[2]
        return shown(entry.key, entry.value, known=key in self.known)

    def wrong(self, key: str, why: object) -> Misconfigured:
        return Misconfigured([f"{self.where(key)}: {why}"])

    def problem(self, key: str, why: object) -> None:
        self._add(self.wrong(key, why).problems)

    def warn(self, key: str, why: object) -> None:
        self.warnings.append(f"{self.where(key)}: {why}")

    def is_wrong(self, key: str) -> bool:
        return any(line.startswith(f"{self.where(key)}: ") for line in self.problems)

    def _add(self, problems: Iterable[str]) -> None:
        """Once each: more than one reader may have looked."""
        self.problems += [line for line in problems if line not in self.problems]


@frozen
class Scope:
    """Keys as they are for one listener: what is said of it by name stands before what is said of all."""

    source: Source
    prefix: str

    def name(self, key: str) -> str:
        """As it stands in the file."""
        return self.prefix + key if self.prefix + key in self.source.entries else key

    def text(self, key: str, default: str = "") -> str:
        return self.source.text(self.name(key), default)

    def wrong(self, key: str, why: object) -> Misconfigured:
        return self.source.wrong(self.name(key), why)


def nearest(key: str) -> str:
    found = get_close_matches(key.lower(), KEYS, n=1, cutoff=_ALIKE)
    return f"; did you mean {found[0]}?" if found else ""
