"""A request of a session, from its start until its outcome is known."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from zab.core.errors import LocalProtocolError
from zab.session.session_errors import BadArguments, as_shown, named
from zab.session.watch_manager import Listener
from zab.store.error_codes import ErrorCode
from zab.store.operations import WRITES, Fields
from zab.wire.client.requests import SHAPES

Done: TypeAlias = Callable[[Any, Exception | None], None]
"""(value, error): called at most once, with the value and None, or with None and the error"""

_WRITES: Final = frozenset(map(int, WRITES))
_ENCODERS: Final = {int(op): shape.encode for op, shape in SHAPES.items()}


class Call:
    """A request. `xid` is 0 while it waits to be sent; `done` is None if no caller waits for the outcome.

    `what` names it in messages; `tries` counts the connections that were lost while it was in flight.
    """

    __slots__ = ("body", "done", "fields", "op", "tries", "watch", "what", "xid")

    def __init__(self, op: int, fields: Fields, what: str, done: Done | None, watch: Listener | None = None) -> None:
        self.op = op
        self.fields = fields
        self.what = what
        self.done = done
        self.watch = watch
        self.body = encode(op, fields, what)
        self.xid = 0
        self.tries = 0

    @property
    def changes(self) -> bool:
        """Return whether the request changes the store and so must not be sent twice."""
        return self.op in _WRITES

    def end(self, error: Exception) -> None:
        done, self.done = self.done, None
        if done is not None:
            done(None, error)


def encode(op: int, fields: Fields, what: str) -> bytes:
    try:
        return _ENCODERS[op](fields)
    except (struct.error, TypeError, ValueError, AttributeError) as error:
        why = f"the request cannot be encoded: {error}"
        raise BadArguments(ErrorCode.BAD_ARGUMENTS, as_shown(what), why) from None


def check_size(call: Call, frame_bytes_max: int) -> None:
    """Raise `LocalProtocolError` if the request is too large to be sent.

    A server would close the connection, which other requests use as well.
    """
    if len(call.body) + 8 > frame_bytes_max:
        raise LocalProtocolError(
            f"{named(call.op, call.what)}: the request is too large, {len(call.body) + 8} bytes: frame_bytes_max is "
            f"{frame_bytes_max}. Send less at once, or raise ClientSettings.frame_bytes_max, and jute.maxbuffer at the "
            "servers"
        )
