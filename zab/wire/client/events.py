"""Watch events: frames that answer no request.

All watchers of a change receive the same bytes, so the frame is encoded once.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from zab.core.errors import WireError
from zab.wire.client.replies import EVENT_XID
from zab.wire.jute import STRUCT_ERRORS, Reader

SYNC_CONNECTED: Final = 3
"""The only state that a server sends; a client derives the others by itself."""

_EVENT: Final = Struct(">iiqiiii")


def encode_event(event: int, path: str, zxid: int, state: int = SYNC_CONNECTED) -> bytes:
    """`zxid` is the change's, or -1 where the event makes up for one that was missed while disconnected."""
    raw = path.encode()
    return _EVENT.pack(28 + len(raw), EVENT_XID, zxid, 0, event, state, len(raw)) + raw


def decode_event(body: bytes) -> tuple[int, int, str]:
    """Event, state, path."""
    reader = Reader(body)
    try:
        return reader.number(), reader.number(), reader.text()
    except STRUCT_ERRORS as error:
        raise WireError(f"an event that is none: {error}") from None
