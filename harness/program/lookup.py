"""Find a program by its name, `module:main`, and what its module says about it by the usual names.

`invariant`, `settled` and `expected` of the module of `main` are the defaults of the arguments of
`harness.application`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, Final

from harness.embed.lookup import callable_named
from harness.program.world import SETTLE_MS, Invariant, Main, Program, world_of
from harness.script.checks import ScriptError
from harness.worlds import World

INVARIANT, SETTLED, EXPECTED = "invariant", "settled", "expected"
PARTS: Final = (INVARIANT, SETTLED, EXPECTED)


def parts_of(main: object) -> dict[str, Any]:
    """Return the parts that the module of `main` has, and None for a missing part."""
    module = sys.modules.get(getattr(main, "__module__", ""))
    return {part: getattr(module, part, None) for part in PARTS}


def program_of(
    main: Main, name: str, *, invariant: object = None, settled: object = None, expected: object = None, settle_ms: int
) -> Program:
    """Check each part, and combine them. A missing part is that of the module."""
    usual = parts_of(main)
    invariants = invariants_of(usual[INVARIANT] if invariant is None else invariant)
    until: Any = usual[SETTLED] if settled is None else settled
    if until is not None and not callable(until):
        raise TypeError(f"settled={until!r}: expected a function of a harness.Fleet")
    return Program(
        name, _checked(main), invariants, until, errors_of(usual[EXPECTED] if expected is None else expected), settle_ms
    )


def _checked(main: Any) -> Main:
    inner = main
    while isinstance(inner, partial):
        inner = inner.func
    if not iscoroutinefunction(inner):
        raise TypeError(f"main={getattr(main, '__name__', main)}: expected an async function of a harness.Node")
    found: Main = main
    return found


def invariants_of(given: Any) -> tuple[Invariant, ...]:
    found = () if given is None else tuple(given) if isinstance(given, Sequence) else (given,)
    for each in found:
        if not callable(each) or iscoroutinefunction(each):
            raise TypeError(f"invariant={each!r}: expected a function, not an async one, of a harness.Fleet")
    return found


def errors_of(given: Any) -> tuple[type[BaseException], ...]:
    found = () if given is None else tuple(given) if isinstance(given, Sequence) else (given,)
    for each in found:
        if not (isinstance(each, type) and issubclass(each, Exception)):
            raise TypeError(f"expected={each!r}: expected classes of exceptions by which main may end")
    return found


def world_named(name: str) -> World:
    """Return the world of the program of this name."""
    main = callable_named(name)
    try:
        program = program_of(main, name, settle_ms=SETTLE_MS)
    except TypeError as error:
        raise ScriptError(f"{name}: {error}") from error
    return world_of(program)
