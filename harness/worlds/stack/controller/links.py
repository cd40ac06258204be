"""Streams between controllers and brokers, that break before a command is heard, or before its answer is."""

from __future__ import annotations

from random import Random
from typing import Final

import trio

from harness.worlds.stack.network import End

BREAKS: Final = 0.01
"""Of so many commands each: before the broker has heard, and before its answer is back."""


class Frail(trio.abc.Stream):
    """The end of a broker that hears."""

    def __init__(self, end: End, random: Random) -> None:
        self._end = end
        self._random = random

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        data = await self._end.receive_some(max_bytes)
        self._may_break()
        if self._end.broken:
            raise trio.BrokenResourceError("the connection broke")
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._may_break()
        await self._end.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._end.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._end.aclose()

    def _may_break(self) -> None:
        if self._random.random() < BREAKS:
            self._end.break_off()
            self._end.net.reset(self._end.other)
