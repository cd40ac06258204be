"""The cyclic collector of Python, and what it need not look at."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_CPYTHON: Final = sys.implementation.name == "cpython"


@contextmanager
def undisturbed() -> Iterator[None]:
    """For a few lines that make something large: a round right behind them would still walk it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def pass_by(texts: list[str]) -> None:
    """A list of nothing but text is in no cycle. The collector does not know, and walks it in every one of its rounds.

    For a million paths a round would take a tenth of a second. A list that is passed by dies like any other, when
    nobody holds it any more; it must never hold anything else.
    """
    if _CPYTHON:
        ctypes.pythonapi.PyObject_GC_UnTrack(ctypes.py_object(texts))
