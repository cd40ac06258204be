"""The cyclic collector of Python, and what it need not look at."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

_CPYTHON: Final = sys.implementation.name == "cpython"


def _of_cpython(name: str) -> Callable[[Any], object]:
    """Elsewhere nothing, and the collector is another one."""
    return ctypes.PYFUNCTYPE(None, ctypes.py_object)((name, ctypes.pythonapi)) if _CPYTHON else id


_untrack: Final = _of_cpython("PyObject_GC_UnTrack")
_track: Final = _of_cpython("PyObject_GC_Track")


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
    pass_all_by([texts])


def pass_all_by(flat: Iterable[list[str] | tuple[object, ...]]) -> None:
    """The same for many, and for tuples of which none can be part of a cycle."""
    deque(map(_untrack, flat), maxlen=0)


def spare(table: dict[str, Any]) -> None:
    """A table that will change, and whose contents are in no cycle, is never walked again.

    What else there is at this moment is spared as well, and what of that is garbage in cycles stays for good.
    """
    if not gc.is_tracked(table):
        # A full round may have let go of it; the next change would bring it back, as something new to be walked.
        _track(table)
    gc.freeze()
