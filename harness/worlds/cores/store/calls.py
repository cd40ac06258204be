"""One request of a simulated client, between the words of a history and the frames of the protocol."""

from __future__ import annotations

from harness.history import Reply, Request
from harness.protocol import operation_of, refusal, reply_of
from zab.store.operations import Fields, Op
from zab.wire.client.replies import decode_body


class Call:
    """A request, and the xid that it has on the connection on which it was sent."""

    __slots__ = ("fields", "number", "op", "request", "xid")

    def __init__(self, number: int, request: Request) -> None:
        self.number = number
        self.request = request
        self.xid = 0
        self.op: Op
        self.fields: Fields
        self.op, self.fields = operation_of(request)

    def reply(self, zxid: int, error: int, body: bytes) -> Reply:
        """Return what the history says of this reply frame."""
        if error:
            return refusal(zxid, error)
        return reply_of(self.request, self.op, zxid, decode_body(self.op, body))
