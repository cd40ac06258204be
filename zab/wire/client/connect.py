"""The first message in each direction. It has no header, because no session exists yet.

The last byte of a request says whether the client accepts a read-only server. It was added late to the protocol: old
clients do not send it. The server's reply ends with such a byte, too, but only if the request did.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from attrs import frozen

from zab.core.errors import WireError
from zab.wire.jute import INT, buffer

_REQUEST: Final = Struct(">iqiqi")
_RESPONSE: Final = Struct(">iiqi")
REQUEST_BYTES_MIN: Final = _REQUEST.size
RESPONSE_BYTES_MIN: Final = _RESPONSE.size
PASSWORD_BYTES: Final = 16
NO_PASSWORD: Final = bytes(PASSWORD_BYTES)


@frozen
class ConnectRequest:
    """`session` 0 asks for a new session. `read_only` is None if the client is too old to send the byte."""

    last_zxid_seen: int
    timeout_ms: int
    session: int = 0
    password: bytes | None = NO_PASSWORD
    read_only: bool | None = False
    version: int = 0


@frozen
class ConnectResponse:
    timeout_ms: int
    session: int
    password: bytes | None
    read_only: bool | None = False
    version: int = 0


EXPIRED: Final = ConnectResponse(0, 0, NO_PASSWORD)
"""The reply if the session does not exist or the password is wrong. The reply does not reveal which."""


def decode_connect_request(payload: bytes) -> ConnectRequest:
    version, last_zxid_seen, timeout_ms, session, length = _unpack(_REQUEST, payload)
    password, read_only = _password_and_flag(payload, _REQUEST.size, length)
    return ConnectRequest(last_zxid_seen, timeout_ms, session, password, read_only, version)


def encode_connect_request(request: ConnectRequest) -> bytes:
    """Encode the request as a whole frame, with the length in front."""
    head = Struct(">iqiq").pack(request.version, request.last_zxid_seen, request.timeout_ms, request.session)
    return _framed(head, request.password, request.read_only)


def decode_connect_response(payload: bytes) -> ConnectResponse:
    version, timeout_ms, session, length = _unpack(_RESPONSE, payload)
    password, read_only = _password_and_flag(payload, _RESPONSE.size, length)
    return ConnectResponse(timeout_ms, session, password, read_only, version)


def encode_connect_response(response: ConnectResponse) -> bytes:
    head = Struct(">iiq").pack(response.version, response.timeout_ms, response.session)
    return _framed(head, response.password, response.read_only)


def _unpack(layout: Struct, payload: bytes) -> tuple[int, ...]:
    if len(payload) < layout.size:
        raise WireError(f"a connect message of {len(payload)} bytes is too short")
    return layout.unpack_from(payload)


def _password_and_flag(payload: bytes, start: int, length: int) -> tuple[bytes | None, bool | None]:
    if length < -1:
        raise WireError(f"{length} is not a valid length of a password: -1 is the least")
    if length > len(payload) - start:
        raise WireError(f"a password of {length} bytes does not fit into {len(payload) - start} bytes")
    stop = start + max(length, 0)
    password = None if length == -1 else payload[start:stop]
    return password, payload[stop] != 0 if len(payload) > stop else None


def _framed(head: bytes, password: bytes | None, read_only: bool | None) -> bytes:
    payload = head + buffer(password) + (b"" if read_only is None else bytes((read_only,)))
    return INT.pack(len(payload)) + payload
