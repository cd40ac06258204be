"""`frozen` for classes of which a great many objects are made.

attrs sets each field of its own frozen classes by a call of `object.__setattr__`, so their objects take about four
times as long to make. Here only the type checker forbids assignments to fields. At run time the classes are mutable,
but have a hash as frozen ones do.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attrs import frozen
else:
    from attrs import define

    frozen = partial(define, unsafe_hash=True)

__all__ = ["frozen"]
