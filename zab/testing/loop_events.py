"""The time and the events of the memory network, in the present Trio loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio
from attrs import frozen


@frozen
class PromptTiming:
    """Data arrive at once. A connection with a blocked direction breaks after at most `break_ms_max`."""

    delay_us_min: int = 0
    delay_us_max: int = 0
    spike_percent: int = 0
    spike_us_max: int = 0
    break_ms_max: int = 10_000


class LoopEvents:
    """Calls each event when it is due, or within `push` if it is due already. Keeps no trace."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery

    @property
    def now(self) -> int:
        return round(trio.current_time() * 1e6)

    def push(self, at: int, act: Callable[[Any, Any], None], one: Any, other: Any) -> None:
        if at <= self.now:
            act(one, other)
        else:
            self._nursery.start_soon(self._call_later, at, act, one, other)

    async def _call_later(self, at: int, act: Callable[[Any, Any], None], one: Any, other: Any) -> None:
        await trio.sleep_until(at / 1e6)
        act(one, other)

    def record(self, server: int, verb: str, other: int, what: object) -> None:
        """Do nothing."""
