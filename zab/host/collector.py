"""Exempt large tables from Python's cyclic garbage collector."""

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
    """Return a C function of CPython. Other interpreters have another collector, and get a function without effect."""
    return ctypes.PYFUNCTYPE(None, ctypes.py_object)((name, ctypes.pythonapi)) if _CPYTHON else id


_untrack: Final = _of_cpython("PyObject_GC_UnTrack")
_track: Final = _of_cpython("PyObject_GC_Track")


@contextmanager
def undisturbed() -> Iterator[None]:
    """Suspend the collector while the block creates and exempts a large table, which a collection would visit whole."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def pass_by(texts: list[str]) -> None:
    """Exempt a list of texts from the collector. The list is in no cycle, but full collections would visit it.

    With a million paths, a full collection would take some 20 ms longer. The list is freed like any other when it is no
    longer referenced. It must contain nothing but text.
    """
    pass_all_by([texts])


def pass_all_by(flat: Iterable[list[str] | tuple[object, ...]]) -> None:
    """Exempt many lists of texts, and tuples that are in no cycle, as `pass_by` exempts one list."""
    deque(map(_untrack, flat), maxlen=0)


def spare(table: dict[str, Any]) -> None:
    """Exempt a table from the collector for ever. It may change, but its contents must be in no cycle.

    All other objects that exist now are exempted as well, and existing garbage in cycles is never freed.
    """
    if not gc.is_tracked(table):
        # A full collection may have untracked the table. Then `gc.freeze` would not exempt it, and its next change
        # would track it.
        _track(table)
    gc.freeze()
