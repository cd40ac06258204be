"""A backtracking matcher that counts its steps: a slow `re` that reports its work.

`re` does not report the work of a match, and seconds depend on the machine. This interprets the tree that `re` itself
parses (`re._parser`) in the same order as its engine, including atomic groups and possessive quantifiers, and counts
every attempt of an item at a position.

`hostile_inputs` derives attacks from the pattern: a string that reaches a repetition, a string pumped n times, and a
character that makes the rest of the pattern fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import product
from math import inf
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final, TypeAlias

Item: TypeAlias = tuple[Any, Any]
Groups: TypeAlias = Mapping[int, tuple[int, int]]
State: TypeAlias = tuple[int, Groups]

LIMIT: Final = 100_000
"""Steps after which a match is given up: no linear pattern takes so many for the inputs of the tests."""
_UNBOUNDED: Final = 20
"""A repetition that may go on for longer than this is pumped."""
_REPEATS: Final = (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)
_SINGLE: Final = (ops.LITERAL, ops.NOT_LITERAL, ops.IN, ops.ANY)


class TooManySteps(Exception):
    """The match took more than `LIMIT` steps."""


class Matcher:
    """One pattern. `steps` counts over all calls."""

    def __init__(self, pattern: re.Pattern[Any]) -> None:
        self.tree = list(parser.parse(pattern.pattern, pattern.flags))
        self.flags = pattern.flags
        self.steps = 0
        self._bytes = isinstance(pattern.pattern, bytes)
        self._singles: dict[int, re.Pattern[str]] = {}
        self._text = ""

    # -- the ways of `re` ----------------------------------------------------------------------------

    def match(self, text: str | bytes, at: int = 0) -> State | None:
        return self._first(text, at)

    def fullmatch(self, text: str | bytes) -> State | None:
        return self._first(text, 0, len(text))

    def search(self, text: str | bytes, at: int = 0) -> tuple[int, State] | None:
        for start in range(at, len(text) + 1):
            found = self._first(text, start)
            if found is not None:
                return start, found
        return None

    def scan(self, text: str | bytes) -> None:
        """Match from the end of the previous match, as tokenizers do."""
        at = 0
        while (found := self.match(text, at)) is not None and found[0] > at:
            at = found[0]

    def find_all(self, text: str | bytes) -> None:
        """Search from the end of the previous match, as `finditer`, `sub` and `split` do."""
        at = 0
        while at <= len(text) and (found := self.search(text, at)) is not None:
            at = max(found[1][0], found[0] + 1)

    def _first(self, text: str | bytes, at: int, end: int | None = None) -> State | None:
        self._text = text.decode("latin-1") if isinstance(text, bytes) else text
        for state in self._sequence(self.tree, at, {}, self.flags):
            if end is None or state[0] == end:
                return state
        return None

    # -- items ---------------------------------------------------------------------------------------

    def _step(self) -> None:
        self.steps += 1
        if self.steps > LIMIT:
            raise TooManySteps

    def _sequence(self, items: list[Item], at: int, groups: Groups, flags: int) -> Iterator[State]:
        if not items:
            yield at, groups
            return
        stack = [self._item(items[0], at, groups, flags)]
        while stack:
            state = next(stack[-1], None)
            if state is None:
                stack.pop()
            elif len(stack) == len(items):
                yield state
            else:
                stack.append(self._item(items[len(stack)], *state, flags))

    def _item(self, item: Item, at: int, groups: Groups, flags: int) -> Iterator[State]:
        kind, value = item
        self._step()
        if kind in _SINGLE:
            if at < len(self._text) and self._is(item, self._text[at], flags):
                yield at + 1, groups
        elif kind in _REPEATS:
            yield from self._repeat(kind, value, at, groups, flags)
        elif kind is ops.BRANCH:
            for branch in value[1]:
                yield from self._sequence(list(branch), at, groups, flags)
        elif kind is ops.SUBPATTERN:
            number, add, remove, inside = value
            for end, within in self._sequence(list(inside), at, groups, (flags | add) & ~remove):
                yield end, within if number is None else {**within, number: (at, end)}
        elif kind is ops.ATOMIC_GROUP:
            state = next(self._sequence(list(value), at, groups, flags), None)
            if state is not None:
                yield state
        elif kind is ops.AT:
            if self._stands(value, at, flags):
                yield at, groups
        elif kind in (ops.ASSERT, ops.ASSERT_NOT):
            direction, inside = value
            start = at if direction > 0 else at - inside.getwidth()[0]
            state = None if start < 0 else next(self._sequence(list(inside), start, groups, flags), None)
            if (state is not None) == (kind is ops.ASSERT):
                yield at, groups if state is None else state[1]
        elif kind is ops.GROUPREF:
            if value in groups:
                start, end = groups[value]
                self.steps += end - start
                if self._text.startswith(self._text[start:end], at):
                    yield at + end - start, groups
        else:
            raise NotImplementedError(f"{kind}: teach it to the step counter")

    def _repeat(self, kind: object, value: Any, at: int, groups: Groups, flags: int) -> Iterator[State]:
        least, most, inside = value
        most = len(self._text) + 1 + least if most is ops.MAXREPEAT else most
        items = list(inside)
        if kind is ops.POSSESSIVE_REPEAT:
            state = next(self._repeat(ops.MAX_REPEAT, value, at, groups, flags), None)
            if state is not None:
                yield state
        elif len(items) == 1 and items[0][0] in _SINGLE:
            yield from self._repeat_single(kind, least, most, items[0], at, groups, flags)
        elif kind is ops.MAX_REPEAT:
            yield from self._repeat_greedy(least, most, items, at, groups, flags)
        else:
            yield from self._repeat_lazy(least, most, items, at, groups, flags)

    def _repeat_single(
        self, kind: object, least: int, most: int, item: Item, at: int, groups: Groups, flags: int
    ) -> Iterator[State]:
        """Repeat one character, without a stack."""

        def fits(end: int) -> bool:
            self._step()
            return end < len(self._text) and self._is(item, self._text[end], flags)

        end = at
        while end - at < (most if kind is ops.MAX_REPEAT else least) and fits(end):
            end += 1
        if end - at < least:
            return
        yield end, groups
        if kind is ops.MAX_REPEAT:
            while end - at > least:
                self._step()
                end -= 1
                yield end, groups
        else:
            while end - at < most and fits(end):
                end += 1
                yield end, groups

    def _repeat_greedy(
        self, least: int, most: int, items: list[Item], at: int, groups: Groups, flags: int
    ) -> Iterator[State]:
        stack: list[tuple[State, Iterator[State] | None]] = [((at, groups), None)]
        while stack:
            state, ways = stack[-1]
            if ways is None:
                ways = self._sequence(items, *state, flags) if len(stack) - 1 < most else iter(())
                stack[-1] = (state, ways)
            further = next(ways, None)
            if further is not None and (further[0] > state[0] or len(stack) - 1 < least):
                stack.append((further, None))
            elif further is None:
                stack.pop()
                self._step()
                if len(stack) >= least:
                    yield state

    def _repeat_lazy(
        self, least: int, most: int, items: list[Item], at: int, groups: Groups, flags: int
    ) -> Iterator[State]:
        stack: list[tuple[State, Iterator[State] | None]] = [((at, groups), None)]
        while stack:
            state, ways = stack[-1]
            if ways is None:
                if len(stack) - 1 >= least:
                    self._step()
                    yield state
                ways = self._sequence(items, *state, flags) if len(stack) - 1 < most else iter(())
                stack[-1] = (state, ways)
            further = next(ways, None)
            if further is None:
                stack.pop()
            elif further[0] > state[0] or len(stack) - 1 < least:
                stack.append((further, None))

    # -- single characters and places ----------------------------------------------------------------

    def _is(self, item: Item, char: str, flags: int) -> bool:
        """Ask `re` itself whether one character is of a set."""
        return self._single(item, flags).fullmatch(char) is not None

    def _single(self, item: Item, flags: int) -> re.Pattern[str]:
        known = self._singles.get(id(item[1]) ^ id(item[0]) ^ flags)
        if known is None:
            kept = flags & (re.IGNORECASE | re.DOTALL) | (re.ASCII if self._bytes else flags & re.ASCII)
            known = re.compile(_written(item), kept)
            self._singles[id(item[1]) ^ id(item[0]) ^ flags] = known
        return known

    def _stands(self, place: object, at: int, flags: int) -> bool:
        text = self._text
        if place is ops.AT_BEGINNING_STRING or (place is ops.AT_BEGINNING and not flags & re.MULTILINE):
            return at == 0
        if place is ops.AT_BEGINNING:
            return at == 0 or text[at - 1] == "\n"
        if place is ops.AT_END_STRING:
            return at == len(text)
        if place is ops.AT_END:
            return at == len(text) or (text[at] == "\n" and (at == len(text) - 1 or bool(flags & re.MULTILINE)))
        if place in (ops.AT_BOUNDARY, ops.AT_NON_BOUNDARY):
            kept = re.ASCII if self._bytes else flags & re.ASCII
            before, behind = (
                0 <= near < len(text) and re.fullmatch(r"\w", text[near], kept) is not None for near in (at - 1, at)
            )
            return (before != behind) == (place is ops.AT_BOUNDARY)
        raise NotImplementedError(f"{place}: teach it to the step counter")


def _written(item: Item) -> str:
    kind, value = item
    if kind is ops.ANY:
        return "."
    if kind is ops.LITERAL:
        return _escaped(value)
    if kind is ops.NOT_LITERAL:
        return f"[^{_escaped(value)}]"
    made = []
    for of, what in value:
        if of is ops.NEGATE:
            made.append("^")
        elif of is ops.LITERAL:
            made.append(_escaped(what))
        elif of is ops.RANGE:
            made.append(f"{_escaped(what[0])}-{_escaped(what[1])}")
        else:
            made.append(_CATEGORIES[of is ops.CATEGORY and what])
    return f"[{''.join(made)}]"


_CATEGORIES: Final = {
    ops.CATEGORY_DIGIT: r"\d", ops.CATEGORY_NOT_DIGIT: r"\D", ops.CATEGORY_SPACE: r"\s",
    ops.CATEGORY_NOT_SPACE: r"\S", ops.CATEGORY_WORD: r"\w", ops.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip


def _escaped(code: int) -> str:
    return f"\\U{code:08x}"


@cache
def _matcher(pattern: re.Pattern[Any]) -> Matcher:
    return Matcher(pattern)


# -- attacks ---------------------------------------------------------------------------------------------


def _alphabet(matcher: Matcher) -> list[str]:
    """Return one character of each class that the pattern distinguishes."""
    singles = [matcher._single(item, matcher.flags) for item in _items(matcher.tree) if item[0] in _SINGLE]
    extent = 0x100 if matcher._bytes else 0x180
    codes = [*range(0x20, 0x7F), *range(0x20), *range(0x7F, extent)]
    if not matcher._bytes:
        codes += [0xE000, 0x1F600]
    kinds: dict[tuple[bool, ...], str] = {}
    for code in codes:
        char = chr(code)
        kinds.setdefault(tuple(single.fullmatch(char) is not None for single in singles), char)
    return list(kinds.values())


def _items(items: list[Item]) -> Iterator[Item]:
    for item in items:
        yield item
        for inside in _insides(item):
            yield from _items(inside)


def _insides(item: Item) -> list[list[Item]]:
    kind, value = item
    if kind in _REPEATS:
        return [list(value[2])]
    if kind is ops.BRANCH:
        return [list(branch) for branch in value[1]]
    if kind is ops.SUBPATTERN:
        return [list(value[3])]
    if kind is ops.ATOMIC_GROUP:
        return [list(value)]
    if kind in (ops.ASSERT, ops.ASSERT_NOT):
        return [list(value[1])]
    return []


class _Attacks:
    def __init__(self, matcher: Matcher) -> None:
        self.alphabet = _alphabet(matcher)
        self.prefixes: dict[str, None] = {"": None}
        self.pumps: dict[str, None] = dict.fromkeys(self.alphabet)
        self._matcher = matcher
        self._walk(matcher.tree, "")

    def _sample(self, items: list[Item], often: int) -> str:
        """A string that the items match; each repetition stands `often` times where it may."""
        made = ""
        for item in items:
            kind, value = item
            if kind in _SINGLE:
                single = self._matcher._single(item, self._matcher.flags)
                made += next(char for char in self.alphabet if single.fullmatch(char))
            elif kind in _REPEATS:
                least, most, inside = value
                most = often if most is ops.MAXREPEAT else int(most)
                made += self._sample(list(inside), often) * max(least, min(often, most))
            elif kind is ops.BRANCH:
                made += self._sample(list(value[1][0]), often)
            elif kind not in (ops.ASSERT, ops.ASSERT_NOT, ops.AT):
                made += "".join(self._sample(inside, often) for inside in _insides(item))
        return made

    def _walk(self, items: list[Item], before: str) -> None:
        """Record the way to each repetition, and its body."""
        for number, item in enumerate(items):
            reached = [before + self._sample(items[:number], often) for often in (0, 1)]
            if item[0] in _REPEATS:
                self.prefixes |= dict.fromkeys(reached)
                most = item[1][1]
                if most is ops.MAXREPEAT or int(most) > _UNBOUNDED:
                    insides = list(item[1][2])
                    for often in (0, 1):
                        self.pumps |= dict.fromkeys(
                            [self._sample(insides, often), *(self._sample([*way], often) for way in _ways(insides))]
                        )
            for inside in _insides(item):
                self._walk(inside, reached[1])


def _ways(items: list[Item]) -> list[list[Item]]:
    """Return the alternatives if the items are only alternatives."""
    while len(items) == 1 and items[0][0] in (ops.SUBPATTERN, ops.ATOMIC_GROUP):
        items = _insides(items[0])[0]
    return _insides(items[0]) if len(items) == 1 and items[0][0] is ops.BRANCH else []


def hostile_inputs(pattern: re.Pattern[Any]) -> Iterator[Callable[[int], Any]]:
    """Inputs by their length: prefix, pump * n, suffix."""
    found = _Attacks(Matcher(pattern))
    pumps = {*filter(None, found.pumps), *filter(None, found.prefixes)}
    encode: Callable[[str], Any] = (lambda text: text.encode("latin-1")) if isinstance(pattern.pattern, bytes) else str

    def made(prefix: str, pump: str, suffix: str) -> Callable[[int], Any]:
        return lambda size: encode(prefix + pump * (size // len(pump)) + suffix)

    for prefix, pump, suffix in product(found.prefixes, sorted(pumps), ["", *found.alphabet]):
        yield made(prefix, pump, suffix)


def growth_of(pattern: re.Pattern[Any], way: str, attack: Callable[[int], Any], short: int, long: int) -> float:
    """How many times more steps a character costs in the long input than in the short one; about 1 if linear."""
    first, second = attack(short), attack(long)
    steps = steps_of(pattern, way, second)
    if steps == LIMIT:
        return inf
    return steps / (len(second) + 1) / (steps_of(pattern, way, first) / (len(first) + 1))


def sample_strings(pattern: re.Pattern[Any]) -> tuple[list[str], list[str]]:
    """Characters and strings that mean something to the pattern, for random inputs."""
    found = _Attacks(Matcher(pattern))
    return found.alphabet, [*filter(None, found.prefixes), *filter(None, found.pumps)]


def steps_of(pattern: re.Pattern[Any], way: str, text: str | bytes) -> int:
    """`way` is a method of `Matcher`. More than `LIMIT` steps count as `LIMIT`."""
    matcher = _matcher(pattern)
    matcher.steps = 0
    try:
        getattr(matcher, way)(text)
    except TooManySteps:
        return LIMIT
    return matcher.steps
