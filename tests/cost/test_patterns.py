"""Every regular expression of the code takes linear time, whatever text it meets.

The patterns are found in the source, so that a new one cannot be forgotten, and each is attacked in the way in which
the code uses it. Steps are counted by `tests.cost.backtracking`.
"""

from __future__ import annotations

import ast
import importlib
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from kraft_controller.core.configuration import config_keys
from tests.cost.backtracking import LIMIT, Matcher, growth_of, hostile_inputs, sample_strings, steps_of
from zab.cli.zoo_cfg.keys import FAMILIES
from zab.store.acl_schemes import _AVA
from zab.wire.sasl import _DIRECTIVE

ROOT: Final = Path(__file__).parent.parent.parent
PACKAGES: Final = ("zab", "kraft_controller", "replica")
SHORT: Final = 32
LONG: Final = 128
LONGER: Final = 512
GROWTH_MAX: Final = 1.7
"""Growth of the steps for a character when the text is four times as long: 1 if linear, 4 if quadratic."""

_WAYS: Final = {
    "match": ("match", "scan"),
    "fullmatch": ("fullmatch",),
    **dict.fromkeys(("search", "findall", "finditer", "sub", "subn", "split"), ("find_all",)),
}
"""The methods of `Matcher` that count the steps of each method of `re`."""
_NO_PATTERN: Final = frozenset({"escape", "error", "Pattern", "Match", "purge"})

MADE_WITHOUT_NAME: Final[Mapping[tuple[str, str], tuple[tuple[str, re.Pattern[Any]], ...]]] = {
    ("zab.cli.zoo_cfg.keys", "<module>"): tuple(("fullmatch", family.pattern) for family in FAMILIES),
    ("zab.recipes.waiting_queue", "in_order"): (("search", re.compile(r"(?:\-lock\-|\-read\-)(-?\d{10})$")),),
    ("kraft_controller.core.configuration.config_keys", "value"): tuple(
        ("fullmatch", re.compile(key.words))
        for table in vars(config_keys).values()
        if isinstance(table, Mapping)
        for key in table.values()
        if isinstance(key, config_keys.Key) and key.words
    ),
    # `ssl.principal.mapping.rules`: an operator's own patterns. `Principals` bounds the names that they meet.
    ("replica.core.security.principals", "_rule"): (),
}
"""The patterns compiled in a module and function, where the source does not show them."""

OLD_AVA: Final = re.compile(
    r"""
    (?P<type> [^=]* ) =
    [ \n]*
    (?: \#(?P<hex> ([0-9a-fA-F]{2})+)
      | "(?: [^"\\] | \\[0-9a-fA-F]{2} | \\[,=+<>\#;\\"\ \n] )*" [ \n]*
      | (?!\#) (?: [^,;+"\\<>] | \\[0-9a-fA-F]{2} | \\[,=+<>\#;\\"\ \n] )*
    )
    (?P<end> [,;+] | \Z )
    """,
    re.VERBOSE | re.DOTALL,
)
OLD_DIRECTIVE: Final = re.compile(
    rb"""
    \s* ([!#$%&'*+.^_`|~0-9A-Za-z-]+) \s* = \s*
    (?: "((?:[^"\\]|\\.)*)" | ([^\s,"\\=]*) )
    \s* (?:,|$)
    """,
    re.DOTALL | re.VERBOSE,
)
"""Two patterns that took quadratic time."""


# -- finding them ----------------------------------------------------------------------------------------


class _Uses(ast.NodeVisitor):
    """The uses of `re`, and of names that hold patterns, in one module."""

    def __init__(self, name: str, module: ModuleType) -> None:
        self.found: dict[re.Pattern[Any], set[str]] = defaultdict(set)
        self.made_without_name: set[str] = set()
        self.unclear: list[str] = []
        self._name = name
        self._module = module
        self._function = "<module>"
        self._named = {key: value for key, value in vars(module).items() if isinstance(value, re.Pattern)}
        self._assigned: set[int] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        before, self._function = self._function, node.name
        self.generic_visit(node)
        self._function = before

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._assign(node.target, node.value)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._assign(node.targets[0], node.value)
        self.generic_visit(node)

    def _assign(self, target: ast.expr, value: ast.expr | None) -> None:
        if self._function == "<module>" and isinstance(target, ast.Name) and target.id in self._named:
            self._assigned.add(id(value))
            self.found[self._named[target.id]] |= set()

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            of, method = called.value.id, called.attr
            if of == "re" and method == "compile":
                if id(node) not in self._assigned:
                    self.made_without_name.add(self._function)
            elif of == "re" and method not in _NO_PATTERN:
                self._inline(node, method)
            elif of in self._named and method in _WAYS:
                self.found[self._named[of]].add(method)
                self.visit_all([*node.args, *node.keywords])
                return
        self.generic_visit(node)

    def _inline(self, node: ast.Call, method: str) -> None:
        try:
            text = eval(compile(ast.Expression(node.args[0]), self._name, "eval"), vars(self._module))
        except NameError:
            self.made_without_name.add(self._function)
        else:
            self.found[text if isinstance(text, re.Pattern) else re.compile(text)].add(method)

    def visit_Name(self, node: ast.Name) -> None:
        """Record a pattern that other code uses."""
        if node.id in self._named and isinstance(node.ctx, ast.Load):
            self.unclear.append(f"{self._name}, line {node.lineno}: {node.id} is not used by a method of its own")

    def visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)


@cache
def _uses() -> tuple[_Uses, ...]:
    made = []
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        source = path.read_text()
        if path.name == "__main__.py" or not re.search(r"^(import re|from re )", source, re.MULTILINE):
            continue
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        uses = _Uses(name, importlib.import_module(name.removesuffix(".__init__")))
        uses.visit(ast.parse(source))
        made.append(uses)
    return tuple(made)


def _patterns() -> Iterator[tuple[str, str, re.Pattern[Any]]]:
    """(where, method of `re`, pattern)"""
    for uses in _uses():
        for pattern, methods in uses.found.items():
            for method in sorted(methods):
                yield uses._name, method, pattern
        for function in sorted(uses.made_without_name):
            for method, pattern in MADE_WITHOUT_NAME.get((uses._name, function), ()):
                yield uses._name, method, pattern


ALL: Final = [
    pytest.param(method, pattern, id=f"{where}-{number}-{method}")
    for number, (where, method, pattern) in enumerate(_patterns())
]


# -- tests -----------------------------------------------------------------------------------------------


def test_every_pattern_of_the_code_is_known() -> None:
    unnamed = {(uses._name, function) for uses in _uses() for function in uses.made_without_name}
    assert unnamed == set(MADE_WITHOUT_NAME), "describe what is compiled there in MADE_WITHOUT_NAME"
    assert [line for uses in _uses() for line in uses.unclear] == []
    unused = [pattern for uses in _uses() for pattern, methods in uses.found.items() if not methods]
    assert unused == []
    assert len(ALL) >= 50


def test_no_module_uses_re_under_another_name() -> None:
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        assert not re.search(r"^\s*(from re import|import re as|from regex|import regex)", path.read_text(), re.M), path


def _worst(method: str, pattern: re.Pattern[Any]) -> tuple[float, str, object]:
    worst: tuple[float, str, object] = (0.0, "", None)
    for attack in hostile_inputs(pattern):
        for way in _WAYS[method]:
            growth = growth_of(pattern, way, attack, SHORT, LONG)
            if growth > GROWTH_MAX:
                growth = growth_of(pattern, way, attack, LONG, LONGER)
            worst = max(worst, (growth, way, attack(20)), key=lambda found: found[0])
            if worst[0] > GROWTH_MAX:
                return worst
    return worst


@pytest.mark.parametrize(("method", "pattern"), ALL)
def test_steps_grow_linearly_with_the_text(method: str, pattern: re.Pattern[Any]) -> None:
    growth, way, text = _worst(method, pattern)
    assert growth <= GROWTH_MAX, f"{pattern.pattern!r}: {way} costs {growth:.1f} times more a character for {text!r}..."


@pytest.mark.parametrize(
    ("method", "pattern"),
    [
        pytest.param("match", OLD_AVA, id="x509"),
        pytest.param("match", OLD_DIRECTIVE, id="sasl"),
        ("fullmatch", re.compile(r"\s*(\w*)\s*,?\s*")),
        ("fullmatch", re.compile(r"(a+)+b")),
        ("fullmatch", re.compile(r"(?:a|a)*b")),
        ("search", re.compile(r"\s+$")),
        ("sub", re.compile(r"<svg [^>]*?width=")),
        ("match", re.compile(r"(?:a+b)?.")),
    ],
)
def test_patterns_of_quadratic_time_are_found(method: str, pattern: re.Pattern[Any]) -> None:
    assert _worst(method, pattern)[0] > GROWTH_MAX


@pytest.mark.parametrize(
    ("old", "text"),
    [
        pytest.param(OLD_AVA, "CN=" + " " * 4096 + '"', id="x509"),
        pytest.param(OLD_DIRECTIVE, b"a=" + b" " * 4094 + b'"', id="sasl"),
    ],
)
def test_the_attacks_of_old_take_few_steps_now(old: re.Pattern[Any], text: str | bytes) -> None:
    now = _AVA if old is OLD_AVA else _DIRECTIVE
    assert steps_of(now, "match", text) < 4 * len(text)
    assert steps_of(old, "match", text) == LIMIT


@pytest.mark.parametrize(("method", "pattern"), ALL)
def test_step_counter_finds_the_same_matches_as_re(method: str, pattern: re.Pattern[Any]) -> None:
    chance, matcher = random.Random(7), Matcher(pattern)
    alphabet, samples = sample_strings(pattern)
    for _ in range(200):
        made = "".join(chance.choice(chance.choice((alphabet, samples))) for _ in range(chance.randrange(7)))
        text: Any = made.encode("latin-1") if isinstance(pattern.pattern, bytes) else made
        for way in ("match", "fullmatch", "search"):
            expected = getattr(pattern, way)(text)
            found: Any = getattr(matcher, way)(text)
            if way == "search" and found is not None:
                assert found[0] == expected.start()
                found = found[1]
            assert (expected is None) == (found is None), (way, text)
            if expected is not None:
                assert found[0] == expected.end(), (way, text)
                spans = {number: expected.span(number) for number in range(1, pattern.groups + 1)}
                assert {number: found[1].get(number, (-1, -1)) for number in spans} == spans, (way, text)
        matcher.steps = 0
