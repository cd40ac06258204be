"""The format of a request between the client's server and the leader.

A server forwards the body unchanged. The flag `FOREIGN` says that the body is in the format of the client protocol, for
which the leader's `Store` has a decoder; otherwise it is in the store's own format.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final, TypeAlias

import msgpack

from zab.store.operations import Fields, Op

INTERNAL: Final = 1
"""The request of a server on its own behalf. No client can set this flag."""
LOCAL: Final = 2
"""The request of a local session: only the client's server knows the session, and vouches for it."""
FOREIGN: Final = 4
"""The body is in the format of the client protocol."""

HEAD: Final = Struct(">BqiiqH")
"""flags, session, cxid, op, server, bytes of identities"""

Decode: TypeAlias = Callable[[int, bytes, int], Fields]
"""(op, request, position of its body) -> the fields, as listed in `operations`. It may raise any exception."""


def pack_request(
    op: int, body: bytes, session: int = 0, cxid: int = 0, server: int = 0, identities: bytes = b"", flags: int = 0
) -> bytes:
    """Encode a request. `identities` comes from `acl.encode_identities`."""
    return HEAD.pack(flags, session, cxid, op, server, len(identities)) + identities + body


def describe_request(request: bytes) -> str:
    """Describe a request in one phrase, for log messages."""
    if len(request) < HEAD.size:
        return "an incomplete request"
    _, session, _, op, server, _ = HEAD.unpack_from(request)
    return f"{op_name(op)} of session {session & 0xFFFF_FFFF_FFFF_FFFF:#x} at server {server}"


def op_name(op: int) -> str:
    try:
        return Op(op).name.lower()
    except ValueError:
        return f"operation {op}"


def pack_body(fields: Fields) -> bytes:
    """Encode fields in the store's own format."""
    packed: bytes = msgpack.packb(fields, unicode_errors="surrogatepass")
    return packed


def unpack_body(op: int, request: bytes, start: int) -> Fields:
    unpacked: Any = msgpack.unpackb(request[start:], use_list=False, unicode_errors="surrogatepass")
    if type(unpacked) is not tuple:
        raise ValueError(f"the body of operation {op} is not a list of fields")
    return unpacked


def no_decoder(op: int, request: bytes, start: int) -> Fields:
    raise NotImplementedError("this store has no decoder for the client protocol")
