"""A script as text, written by hand or by `harness.script.writing`.

    seed 7                                # the defaults apply to all other fields
    voters 5
    length 2.5 s
    knobs tick_ms 50
    at 300 ms  write count 5
    at 1.2 s   isolate leader for 500 ms
    at 800 ms  when anyone "quorum acked" crash nth 2

The lines may have any order, and each field is given once. `#` begins a comment. A fault or an operation has its name,
its server if it has one (`leader`, `follower`, `anyone`, a number), keywords, and its other fields by their names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Final

import attrs
from attrs import evolve, frozen

from harness.script.checks import CHOICES, SERVER_FIELDS, ScriptError, Senseless, check, check_field, check_item
from harness.script.constants import CONSTANTS, Drawn
from harness.script.faults import FAULTS, Fault
from harness.script.names import ACTIVE, MACHINES
from harness.script.nodes import NODE_FAULTS
from harness.script.script import OPS, Knobs, Script, Timing
from harness.script.workload import Op, Step
from harness.script.writing import NAME_OF_ACTIVE, NAMES, key, phrase

KINDS: Final[dict[str, type]] = {phrase(kind): kind for kind in (*FAULTS, *NODE_FAULTS, *OPS)}
SERVERS: Final = {name: number for number, name in NAMES.items()}
TOPOLOGY: Final = ("seed", "voters", "observers", "groups", "weights", "machine", "brokers", "nodes", "length")
_TOKEN: Final = re.compile(r'\s*(?:,\s*)?(#.*|"(?:[^"\\]|\\.)*"|[|+=]|[^\s",|+=]+|\S)')
_DIGITS_MAX: Final = 19
_STEP: Final = re.compile(r"script\.(\w+)(?:\[(\d+)\])?(?:\.(\w+))?")
_TIME: Final = re.compile(r"(-?\d+(?:\.\d+)?)(ms|s)?")


@frozen
class Token:
    text: str
    line: int
    column: int
    quoted: bool = False

    def error(self, what: str) -> ScriptError:
        return ScriptError(f"line {self.line}, column {self.column}: {what}")


class Line:
    """The words of one line, taken from left to right."""

    def __init__(self, tokens: Sequence[Token], number: int, length: int) -> None:
        self._tokens = list(tokens)
        self._at = 0
        self._end = Token("", number, length + 1)
        self.said: dict[str, Token] = {}
        """The token of each field in the line, by the name of the field."""

    def more(self) -> bool:
        return self._at < len(self._tokens)

    def here(self) -> Token:
        return self._tokens[self._at] if self.more() else self._end

    def take(self, wanted: str) -> Token:
        if not self.more():
            raise self._end.error(f"expected {wanted}, but the line ends here")
        self._at += 1
        return self._tokens[self._at - 1]

    def skip(self, text: str) -> bool:
        if self.more() and self.here().text == text and not self.here().quoted:
            self._at += 1
            return True
        return False

    def number(self, wanted: str = "a number") -> int:
        token = self.take(wanted)
        if not re.fullmatch(r"-?\d+", token.text):
            raise token.error(f"expected {wanted}, not {token.text!r}")
        return _integer(token)

    def time(self) -> int:
        """Take a time, and return it in milliseconds: `300`, `300 ms` or `1.2 s`."""
        token = self.take("a time, like 300 ms or 1.2 s")
        match = _TIME.fullmatch(token.text)
        if match is None:
            raise token.error(f"expected a time, like 300 ms or 1.2 s, not {token.text!r}")
        _must_be_short(token, match[1])
        unit = match[2] or next((unit for unit in ("ms", "s") if self.skip(unit)), None)
        value = round(float(match[1]) * (1_000 if unit == "s" else 1), 6)
        if value != int(value):
            if unit is None:
                raise self.here().error(f"expected ms or s after {token.text}, not {self.here().text!r}")
            raise token.error(f"{token.text} {unit} is not a whole number of milliseconds")
        return int(value)


def _must_be_short(token: Token, digits: str) -> None:
    if len(digits) > _DIGITS_MAX:
        raise token.error(f"the number {digits:.20}... is too large")


def _integer(token: Token) -> int:
    _must_be_short(token, token.text)
    return int(token.text)


def script(text: str) -> Script:
    """Return the script, or raise a `ScriptError` with the line, the column and the expected input."""
    given: dict[str, Any] = {"seed": 0, "timing": Timing(), "knobs": Knobs(), "constants": ()}
    said: dict[str, Token] = {}
    faults: list[tuple[Fault, Line]] = []
    ops: list[tuple[Op, Line]] = []
    for number, content in enumerate(text.splitlines(), 1):
        line = Line(_tokens(content, number), number, len(content))
        if not line.more():
            continue
        first = line.take("a word")
        if first.text == "at":
            item = _event(line, first)
            if isinstance(item, Fault):
                faults.append((item, line))
            else:
                ops.append((item, line))
        elif first.text in ("timing", "knobs"):
            given[first.text] = _settings(line, first.text, given[first.text], said)
        elif first.text == "constants":
            given["constants"] = (*given["constants"], *_constants(line, said))
        elif first.text in TOPOLOGY:
            _once(first, first.text, said)
            _topology(line, first, given)
        else:
            raise first.error(_unknown(first.text, ("at", "timing", "knobs", "constants", *TOPOLOGY)))
        if line.more():
            raise line.here().error(f"expected the end of the line, not {line.here().text!r}")
    ops.sort(key=lambda each: each[0].at)
    faults.sort(key=lambda each: each[0].at)
    made = Script(**given, ops=tuple(op for op, _ in ops), faults=tuple(fault for fault, _ in faults))
    try:
        check(made)
    except Senseless as error:
        lines = {"ops": [line for _, line in ops], "faults": [line for _, line in faults]}
        raise _said_there(error, said, lines) from None
    return made


def _said_there(error: Senseless, said: dict[str, Token], lines: dict[str, list[Line]]) -> ScriptError:
    """Return the error with its place in the text, if the text has the wrong field."""
    found = _STEP.match(error.where)
    assert found is not None, error.where
    name, number, inner = found.groups()
    if number is not None:
        line = lines[name][int(number)]
        what = error.what if inner is None else f"{key(inner)}: {error.what}"
        return line.said.get(inner or "", line.said[""]).error(what)
    places = said.get(f"{name} {inner}"), said.get(name), said.get(name.removesuffix("_ms"))
    token = next((place for place in places if place is not None), None)
    return error if token is None else token.error(str(error).removeprefix("script."))


def _tokens(content: str, number: int) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    while match := _TOKEN.match(content, at):
        text, at = match[1], match.end()
        if text.startswith("#"):
            break
        token = Token(text, number, match.start(1) + 1)
        if text.startswith('"'):
            if len(text) == 1:
                raise token.error("the quotation mark is not closed")
            try:
                token = evolve(token, text=json.loads(text), quoted=True)
            except ValueError as error:
                raise token.error(f"{text} is not quoted as in JSON") from error
        tokens.append(token)
    return tokens


def _unknown(word: str, known: Iterable[str]) -> str:
    known = list(known)
    close = get_close_matches(word, known, 1, 0.55)
    hint = f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(known)}"
    return f"{word!r:.60} is not known here: {hint}"


# -- the topology --------------------------------------------------------------------------------------


def _topology(line: Line, first: Token, given: dict[str, Any]) -> None:
    line.skip("=")
    if first.text == "length":
        given["length_ms"] = line.time()
    elif first.text == "machine":
        given["machine"] = line.take(f"{', '.join(MACHINES)} or module:Class").text
    elif first.text == "groups":
        given["groups"] = _groups(line)
    elif first.text == "weights":
        given["weights"] = tuple(_numbers(line))
    else:
        given[first.text] = line.number()


def _numbers(line: Line) -> Iterator[int]:
    yield line.number()
    while line.more():
        yield line.number()


def _once(token: Token, what: str, said: dict[str, Token]) -> None:
    before = said.setdefault(what, token)
    if before is not token:
        raise token.error(f"{token.text} is given twice, first in line {before.line}")


def _settings(line: Line, place: str, before: Any, said: dict[str, Token]) -> Any:
    names = [attribute.name for attribute in attrs.fields(type(before))]
    made = {}
    while line.more():
        name = line.take("a setting")
        if name.text not in names:
            raise name.error(_unknown(name.text, names))
        _once(name, f"{place} {name.text}", said)
        line.skip("=")
        value = line.here()
        made[name.text] = line.number()
        try:
            check_field(name.text, made[name.text], f"{place}.{name.text}")
        except ScriptError as error:
            raise value.error(str(error)) from None
    return evolve(before, **made)


def _constants(line: Line, said: dict[str, Token]) -> Iterator[Drawn]:
    while line.more():
        name = line.take("a constant")
        if name.text not in CONSTANTS:
            raise name.error(_unknown(name.text, CONSTANTS))
        _once(name, f"constants {name.text}", said)
        line.skip("=")
        yield Drawn(name.text, line.number())


# -- the events ----------------------------------------------------------------------------------------


def _event(line: Line, first: Token) -> Fault | Op:
    line.said["at"] = line.here() if line.more() else first
    at = line.time()
    start = line.said[""] = line.here()
    kind = _kind(line)
    made = _steps(line) if phrase(kind) == "ask" else _fields(line, kind)
    try:
        item: Fault | Op = kind(at=at, **made)
        check_item(item, phrase(kind))
    except TypeError:
        missing = [
            key(attribute.name)
            for attribute in attrs.fields(kind)
            if attribute.default is attrs.NOTHING and attribute.name not in {*made, "at"}
        ]
        raise start.error(f"{phrase(kind)} lacks {', '.join(missing)}") from None
    except Senseless as error:
        inner = error.where.removeprefix(f"{phrase(kind)}.")
        raise line.said.get(inner, start).error(str(error)) from None
    return item


def _kind(line: Line) -> type:
    first = line.take(f"a fault or an operation, like {', '.join(list(KINDS)[:3])}")
    two = f"{first.text} {line.here().text}"
    if two in KINDS:
        line.take("")
        return KINDS[two]
    if first.text in KINDS:
        return KINDS[first.text]
    raise first.error(_unknown(two if line.more() else first.text, KINDS))


def _fields(line: Line, kind: type) -> dict[str, Any]:
    names = {key(attribute.name): attribute.name for attribute in attrs.fields(kind) if attribute.name != "at"}
    made: dict[str, Any] = {}

    def put(token: Token, name: str, value: Any) -> None:
        if name in made:
            raise token.error(f"{key(name)} is given twice")
        made[name] = value
        line.said[name] = token

    while line.more():
        token = line.here()
        word = token.text
        if word in names and not token.quoted:
            line.take("")
            line.skip("=")
            put(token, names[word], _value(line, names[word]))
            continue
        choice = next((name for name in names.values() if name not in made and word in CHOICES.get(name, ())), None)
        if choice is not None:
            put(line.take(""), choice, word)
        elif "groups" in names and (word == "|" or _is_server(word)):
            put(token, "groups", _groups(line))
        elif "node" in names and "node" not in made and (word == NAME_OF_ACTIVE or word.isdecimal()):
            put(token, "node", _value(line, "node"))
        elif "server" in names and _is_server(word):
            put(token, "server", _value(line, "server"))
        else:
            words = [word for name in names.values() for word in CHOICES.get(name, ())]
            if "server" in names:
                words += SERVERS
            raise token.error(_unknown(word, (*names, *words)))
    return made


def _value(line: Line, name: str) -> Any:
    if name in SERVER_FIELDS:
        token = line.take("a server")
        if not _is_server(token.text):
            raise token.error(f"expected a server (leader, follower or its number), not {token.text!r}")
        return SERVERS[token.text] if token.text in SERVERS else _integer(token)
    if name == "node" and line.skip(NAME_OF_ACTIVE):
        return ACTIVE
    if name in CHOICES:
        token = line.take(f"one of {', '.join(CHOICES[name])}")
        if token.text not in CHOICES[name]:
            raise token.error(_unknown(token.text, CHOICES[name]))
        return token.text
    if name == "request":
        return line.take('a request, like "ann 5"').text
    if name == "acl":
        return line.take('a list, like "u1:rwcda, world:r"').text
    if name == "limits":
        return line.take('limits, like "countHardLimit=4"').text
    if name == "groups":
        return _groups(line)
    return line.time() if name.endswith("_ms") else line.number()


def _is_server(word: str) -> bool:
    return word in SERVERS or (word.isascii() and word.isdigit())


def _groups(line: Line) -> tuple[tuple[int, ...], ...]:
    groups: list[list[int]] = [[]]
    while line.more():
        if line.skip("|"):
            groups.append([])
        elif _is_server(line.here().text):
            groups[-1].append(_value(line, "server"))
        else:
            break
    return tuple(map(tuple, groups))


def _steps(line: Line) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if line.skip("client"):
        made["client"] = line.number()
    steps = [_step(line)]
    while line.skip("+"):
        steps.append(_step(line))
    return {**made, "steps": tuple(steps)}


_OF_A_STEP: Final = ("version", "mode", "watch", "size", "acl", "limits")
"""The fields of a step that are given by name."""


def _step(line: Line) -> Step:
    made: dict[str, Any] = {"op": _value(line, "op")}
    while line.more() and line.here().text != "+":
        token = line.take("")
        if token.text.startswith("/"):
            name, value = "path", token.text
        elif token.text in CHOICES["mode"]:
            name, value = "mode", token.text
        elif token.text in _OF_A_STEP:
            line.skip("=")
            name, value = token.text, _value(line, token.text)
        else:
            words = (word for word in _OF_A_STEP if word != "mode")
            raise token.error(_unknown(token.text, ("a path", *words, *CHOICES["mode"][1:])))
        if name in made:
            raise token.error(f"{name} is given twice")
        made[name] = value
    return Step(**made)
