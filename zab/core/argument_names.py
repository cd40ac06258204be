"""Reject misspelt keyword arguments, and suggest the most similar name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cache, partial, wraps
from inspect import isfunction, signature
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def check_names(what: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise TypeError for the first of `given` that is not in `known`, and suggest a similar name if there is one.

    `what` is the name of the callable, for the message.
    """
    for name in given:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise TypeError(f"{what} has no argument {name!r}{hint}") from None


def checks_names(what: str, of: Callable[..., object] | None = None) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function to reject keyword arguments that `of`, by default the function itself, does not have.

    `what` is the name of the function, for the message.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        known = cache(partial(signature, of or function))

        @wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> T:
            check_names(what, options, known().parameters)
            return function(*args, **options)

        return call

    return decorate


def checks_arguments(kind: type[T]) -> type[T]:
    """Decorate a public class so that its constructor refuses misspelt arguments, and suggests the right name."""
    changeable: Any = kind
    changeable.__init__ = checks_names(f"zab.{kind.__name__}")(changeable.__init__)
    return kind


def checks_methods(kind: type[T]) -> type[T]:
    """Decorate a public class so that the TypeError for a misspelt argument suggests the right name.

    This applies to the constructor and the public methods. Arguments are checked only after Python has raised
    TypeError, so a correct call costs only one more stack frame.
    """
    for name, function in list(vars(kind).items()):
        if isfunction(function) and (name == "__init__" or not name.startswith("_")):
            what = kind.__name__ if name == "__init__" else f"{kind.__name__}.{name}"
            setattr(kind, name, _explained(what, function))
    return kind


def with_arguments_of(
    function: Callable[P, object],
) -> Callable[[Callable[..., T]], Callable[Concatenate[Any, P], T]]:
    """Let type checkers see the arguments of `function` at a method that passes them on."""

    def decorate(method: Callable[..., T]) -> Callable[Concatenate[Any, P], T]:
        return method

    return decorate


def _explained(what: str, function: Callable[P, T]) -> Callable[P, T]:
    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        try:
            return function(*args, **options)
        except TypeError:
            check_names(what, options, signature(function).parameters)
            raise

    return call
