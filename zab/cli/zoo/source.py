"""What stands where: the entries of the file and of the command line, and everything that is wrong with them.

Mistakes are gathered and told together. Who mends them one at a time starts a server once for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Final, TypeVar

from attrs import define, field, frozen

from zab.cli.zoo import keys
from zab.cli.zoo.keys import BY_NAME, Key, bare, family_of
from zab.cli.zoo.properties import Entry, MalformedEscape, decode, parse
from zab.cli.zoo.values import Unusual
from zab.core import secrets
from zab.core.errors import ConfigError

T = TypeVar("T")

OPTION_LINE: Final = 0
"""Of what was given by `-D`."""
_NAMES_A_FILE: Final = ("tore.location", "crl.location", "login.config")


class BadConfig(Exception):
    """All that is wrong, a line each."""

    def __init__(self, problems: Iterable[str], warnings: Iterable[str]) -> None:
        self.problems = tuple(problems)
        self.warnings = tuple(warnings)
        super().__init__("\n".join(self.problems))


@frozen
class Told:
    """A key's value, and where it was told."""

    name: str
    value: str
    where: str
    line: int

    @property
    def shown(self) -> str:
        return secrets.shown(self.name, self.value, known=keys.is_known(self.name))

    @property
    def text(self) -> str:
        return f"{self.where}: {self.name}={self.shown}"


@define
class Source:
    """`told` holds each key once, without prefix; the last one counts, as it does in the original."""

    path: Path
    told: dict[str, Told] = field(factory=dict)
    problems: list[str] = field(factory=list)
    warnings: list[str] = field(factory=list)

    @classmethod
    def read(cls, path: Path, options: Iterable[tuple[str, str]] = ()) -> Source:
        source = cls(path)
        source.add_file(path)
        for key, value in options:
            name = bare(key.strip())
            source.told[name] = Told(name, value.strip(), "-D", OPTION_LINE)
        return source

    def add_file(self, path: Path) -> None:
        for entry in self.entries(path):
            name = bare(entry.key)
            told = Told(name, entry.value, f"{path}:{entry.line}", entry.line)
            before = self.told.get(name)
            if before is not None and name.startswith(keys.MEMBERSHIP):  # which of the two it is, nobody can guess
                self.problem(told, f"also in line {before.line}, as {before.shown!r}")
            elif before is not None:
                self.warnings.append(
                    f"{told.text}: also in line {before.line}, as {before.shown!r}; the last one counts"
                )
            self.told[name] = told

    def entries(self, path: Path) -> list[Entry]:
        try:
            return parse(decode(path.read_bytes()))
        except OSError as error:
            self.problems.append(f"{path}: cannot be read: {error.strerror}")
        except MalformedEscape as error:
            self.problems.append(f"{path}:{error.line}: after \\u come four hexadecimal digits")
        return []

    # -- looking ---------------------------------------------------------------------------------

    def text(self, name: str) -> str | None:
        told = self.told.get(name)
        return None if told is None else told.value

    def value(self, name: str, default: T) -> T:
        """Converted; what cannot be is a problem, and the default stands in for it."""
        told = self.told.get(name)
        if told is None:
            return default
        try:
            return BY_NAME[name].convert(told.value)  # type: ignore[return-value]  # the caller knows its key
        except Unusual as unusual:
            line = f"{told.text}: {unusual}"
            if line not in self.warnings:
                self.warnings.append(line)
            return unusual.counts  # type: ignore[return-value]  # as above
        except ValueError as error:
            self.problem(told, f"expected {error}")
            return default

    def problem(self, told: Told, what: str) -> None:
        line = f"{told.text}: {what}"
        if line not in self.problems:  # more than one reader may have looked
            self.problems.append(line)

    def blame(self, error: ConfigError) -> None:
        """Whoever made a value of several keys begins with the wrong one, as `key=value: `, or with its file."""
        text = str(error)
        told = next((each for each in self.told.values() if text.startswith(f"{each.name}=")), None)
        if told is None:
            told, text = self._of_file(text)
        if told is None or not any(line.startswith(f"{told.text}: ") for line in self.problems):
            self.problems.append(f"{self.path if told is None else told.where}: {text}")

    def _of_file(self, text: str) -> tuple[Told | None, str]:
        """A complaint about a file that a key names. If several keys name it, each is told once."""
        named = [
            (told, file)
            for told in self.told.values()
            if told.name.endswith(_NAMES_A_FILE) and text.startswith(file := str(Path(told.value))) and told.value
        ]
        if not named:
            return None, text
        untold = [each for each in named if not any(line.startswith(f"{each[0].text}: ") for line in self.problems)]
        told, file = (untold or named)[0]
        return told, f"{told.name}={told.shown}: {text[len(file) :].lstrip(' ,:')}"

    def missing(self, name: str, what: str) -> None:
        self.problems.append(f"{self.path}: {name} is missing: {what}")

    def warn(self, told: Told, what: str) -> None:
        self.warnings.append(f"{told.text}: {what}")

    def members(self) -> list[Told]:
        """The lines of the membership, in the order of the file."""
        return [told for name, told in self.told.items() if name.startswith(keys.MEMBERSHIP)]

    # -- judging ---------------------------------------------------------------------------------

    def judge(self, each: Callable[[Key, Told], None]) -> None:
        """Warn of what has no effect and of what is not known; hand every other to `each`."""
        for told in self.told.values():
            key = BY_NAME.get(told.name)
            family = None if key is not None else family_of(told.name)
            if key is not None and not key.ignored:
                each(key, told)
            elif key is not None:
                if told.value.lower() not in key.agreed:
                    self.warn(told, f"without effect: {key.does}")
            elif family is None:
                self._warn_of_stranger(told)
            elif family.ignored:
                self.warn(told, f"without effect: {family.does}")

    def _warn_of_stranger(self, told: Told) -> None:
        near = _nearest(told.name)
        if told.value.strip("=") or near:
            self.warn(told, f"not a key of ZooKeeper's, and without effect{near}")
        else:  # it may be the rest of a password that stands on two lines
            self.warnings.append(f"{told.where}: this line is no key=value, and without effect")


def _nearest(name: str) -> str:
    by_lower = {known.lower(): known for known in keys.known_names()}
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.7)
    return f"; did you mean {by_lower[found[0]]}?" if found else ""
