"""Tell errors of the user's code, also `SystemExit`, from the exceptions that end it from outside."""

from __future__ import annotations

from typing import Final

import trio

CONTROL: Final = (KeyboardInterrupt, GeneratorExit, trio.Cancelled)


def reraise_control(error: BaseException) -> None:
    """Raise the part of an exception that ends the caller, too; return if there is none."""
    if isinstance(error, BaseExceptionGroup):
        part = error.subgroup(CONTROL)
        if part is not None:
            raise part
    elif isinstance(error, CONTROL):
        raise error
