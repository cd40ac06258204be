"""Refuse a misspelt keyword argument with the nearest one that exists.

Constructors and the functions that open something check them. The methods of a session or a member do not, because a
check would cost every correct call: there Python's own error names the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cache, partial, wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def check_names(what: str, given: Iterable[str], known: Collection[str]) -> None:
    """Refuse a misspelt argument of `what`, and suggest the most similar one."""
    for name in given:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise TypeError(f"{what} has no argument {name!r}{hint}")


def checks_names(what: str, of: Callable[..., object] | None = None) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function so that it refuses misspelt arguments: its own, or those of `of` if it passes them on."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        known = cache(partial(signature, of or function))

        @wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> T:
            check_names(what, options, known().parameters)
            return function(*args, **options)

        return call

    return decorate


def checks_arguments(kind: type[T]) -> type[T]:
    """Decorate a public class so that its constructor refuses misspelt arguments."""
    changeable: Any = kind
    changeable.__init__ = checks_names(f"zab.{kind.__name__}")(changeable.__init__)
    return kind
