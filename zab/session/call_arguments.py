"""Validate the arguments of session calls, in the same way for both kinds of sessions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

from zab.core.errors import LocalProtocolError
from zab.store.znode import INT_MAX

P = ParamSpec("P")
T = TypeVar("T")


def timeout_of(timeout_ms: int) -> int:
    if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, int):
        raise TypeError(f"timeout_ms is a whole number of milliseconds, not {type(timeout_ms).__name__}")
    if not 0 < timeout_ms <= INT_MAX:
        raise LocalProtocolError(f"timeout_ms is {timeout_ms}; a session lasts for 1 to {INT_MAX} ms")
    return timeout_ms


def credentials_of(scheme: str, credentials: bytes) -> tuple[str, bytes]:
    """Validate credentials. No error message contains them."""
    if not isinstance(scheme, str):
        raise TypeError(f'a scheme is text, like "digest", not {type(scheme).__name__}')
    if not isinstance(credentials, (bytes, bytearray, memoryview)):
        raise TypeError(f'credentials are bytes, like b"user:password", not {type(credentials).__name__}')
    return scheme, bytes(credentials)


def check_names(what: str, given: Iterable[str], known: Collection[str]) -> None:
    """Refuse a misspelt argument of `what`, and suggest the most similar one."""
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise TypeError(f"{what} has no argument {name!r}{hint}")


def checks_names(what: str, of: Callable[..., object] | None = None) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function so that it refuses misspelt arguments: its own, or those of `of` if it passes them on."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        known = signature(of or function).parameters

        @wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> T:
            check_names(what, options, known)
            return function(*args, **options)

        return call

    return decorate
