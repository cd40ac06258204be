"""Expected failures of a command: one line on stderr and an exit status, never a traceback.

`standard_streams` handles failures of standard output and standard error themselves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

import click
import trio

from zab.core.errors import ConfigError, ZabError
from zab.runtime.block_nursery import sole_error

P = ParamSpec("P")
T = TypeVar("T")

DONE: Final = 0
FAILED: Final = 1
MISUSED: Final = 2
INTERRUPTED: Final = 130


class Misused(click.ClickException):
    """The command line or a file is wrong; exit status 2."""

    exit_code = MISUSED


class Failed(click.ClickException):
    """The command failed; exit status 1."""

    exit_code = FAILED


def run_in_trio(
    function: Callable[..., Awaitable[T]],
    *arguments: object,
    expected: tuple[type[Exception], ...] = (ZabError, OSError),
    describe: Callable[[BaseException], str] = str,
) -> T:
    """Run the function and return its result. Turn expected errors, also several in a group, into one `Failed`."""
    try:
        return trio.run(function, *arguments)
    except expected as error:
        raise Failed(describe(error)) from error
    except BaseExceptionGroup as group:
        sole = sole_error(group)
        errors = sole.exceptions if isinstance(sole, BaseExceptionGroup) else (sole,)
        if all(isinstance(error, expected) for error in errors):
            raise Failed("; ".join(dict.fromkeys(describe(error) for error in errors))) from sole
        raise sole from None


def report_failures(command: Callable[P, T]) -> Callable[P, T]:
    """Turn a `ConfigError` of a command into `Misused`, and any other `ZabError` or `OSError` into `Failed`."""

    @wraps(command)
    def run(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            return command(*arguments, **options)
        except ConfigError as error:
            raise Misused(str(error)) from error
        except (ZabError, OSError) as error:
            raise Failed(str(error)) from error

    return run
