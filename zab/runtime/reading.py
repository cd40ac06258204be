"""Reading from a plain socket in the cheaper order: wait, then read."""

from __future__ import annotations

import os

import trio


async def read(socket: int, bytes_max: int) -> bytes:
    """In a conversation nothing is there yet, and trying first, as Trio's streams do, costs a call and an exception."""
    while True:
        await trio.lowlevel.wait_readable(socket)
        try:
            return os.read(socket, bytes_max)
        except BlockingIOError:
            continue
        except OSError as error:
            raise trio.BrokenResourceError from error
