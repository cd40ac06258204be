"""Encoding and decoding of messages: a header, and a body that `replica.wire.schemas` declares.

A response does not name its API, so its reader must know the request. Bytes after the last field of a request are
ignored, because a widely used client sends three surplus bytes when it requests all topics. In a response they are an
error.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from struct import Struct
from typing import Any, Final, Generic, TypeVar

from attrs import frozen

from replica.core.errors import WireError
from replica.wire.api import ApiKey
from replica.wire.decoding import BROKEN, Elements, Reader, decoder
from replica.wire.encoding import Out, Unwritable, Writer, encoder
from replica.wire.fields import Api
from replica.wire.schemas import APIS

Q = TypeVar("Q")
R = TypeVar("R")

_HEAD: Final = Struct(">hhi")
_LENGTH: Final = Struct(">i")
_I32: Final = Struct(">i")
_I16: Final = Struct(">h")
LENGTH_BYTES: Final = _LENGTH.size
HEAD_BYTES: Final = _HEAD.size
"""The size of the API key, the version and the correlation id in a request."""


@frozen
class Head:
    """The fields that the header of every request version has."""

    key: int
    version: int
    correlation: int

    def __str__(self) -> str:
        try:
            name = ApiKey(self.key).name
        except ValueError:
            name = f"API {self.key}"
        return f"{name} v{self.version}"


@frozen
class DecodedRequest(Generic[Q]):
    """A decoded request. `body` is an instance of the request's class in `replica.wire.schemas`."""

    api: ApiKey
    version: int
    correlation: int
    client_id: str | None
    body: Q


ELEMENTS_MAX: Final = 50_000
"""The limit for the list elements (topics, partitions, ...) and tagged fields of a request: most handlers process them
without letting other tasks run."""


_DEAR: Final[Mapping[ApiKey, int]] = {
    ApiKey.PRODUCE: 2,
    ApiKey.ELECT_LEADERS: 2,
    **dict.fromkeys(
        (
            ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS, ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS,
            ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS, ApiKey.ALTER_CLIENT_QUOTAS,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ),
        5,
    ),
    ApiKey.WRITE_TXN_MARKERS: 10,
}  # fmt: skip
"""Weights for requests that write to a log or call the store for each element. One element counts as this many."""


def elements_max(key: ApiKey) -> int:
    return ELEMENTS_MAX // _DEAR.get(key, 1)


class UnknownApi(WireError):
    """A request of an unknown type or version."""

    def __init__(self, head: Head, text: str, client_id: str | None = None) -> None:
        super().__init__(text)
        self.head = head
        self.client_id = client_id


# -- a request ---------------------------------------------------------------------------------------------


def read_head(frame: bytes) -> Head:
    if len(frame) < _HEAD.size:
        raise WireError(f"the request has {len(frame)} bytes, but the header alone needs {_HEAD.size}")
    return Head(*_HEAD.unpack_from(frame))


def decode_request(frame: bytes) -> DecodedRequest[Any]:
    """Decode a request, without its length prefix. Raises `WireError`."""
    head = read_head(frame)
    api = APIS.get(head.key)  # type: ignore[call-overload]  # API keys are ints
    if api is None:
        raise UnknownApi(head, f"{head} is unknown", _named_client(frame))
    if not api.speaks(head.version):
        raise UnknownApi(head, f"{head}: versions {api.first} to {api.last} are supported", _named_client(frame))
    try:
        client_id, at = _client_id(frame)
        if head.version >= api.flexible:
            _, at = _no_fields(frame, at)
        body, _ = _reader(api.key, head.version, False)(frame, at)
    except BROKEN as error:
        raise WireError(f"{head}: {_why(error)}") from error
    return DecodedRequest(api.key, head.version, head.correlation, client_id, body)


def encode_request(api: Api[Q, R], version: int, correlation: int, client_id: str | None, body: Q) -> bytes:
    """Return the request with its length prefix."""
    _check_spoken(api, version)
    pieces = [_HEAD.pack(api.key, version, correlation)]
    if client_id is None:
        pieces.append(_I16.pack(-1))
    else:
        raw = client_id.encode()
        pieces += [_I16.pack(len(raw)), raw]
    if version >= api.flexible:
        pieces.append(b"\0")
    _write(_writer(api.key, version, False), body, pieces, f"request {api.key.name} v{version}")
    return _framed(pieces)


# -- a response --------------------------------------------------------------------------------------------


def encode_response(api: Api[Q, R], version: int, correlation: int, body: R) -> bytes:
    """Return the response with its length prefix."""
    _check_spoken(api, version)
    pieces = [_I32.pack(correlation)]
    if _has_tags_in_head(api, version):
        pieces.append(b"\0")
    _write(_writer(api.key, version, True), body, pieces, f"response to {api.key.name} v{version}")
    return _framed(pieces)


def decode_response(api: Api[Q, R], version: int, data: bytes) -> tuple[int, R]:
    """Return the correlation id and the body of a response. `data` has no length prefix."""
    _check_spoken(api, version)
    try:
        (correlation,) = _I32.unpack_from(data)
        at = _I32.size
        if _has_tags_in_head(api, version):
            _, at = _no_fields(data, at)
        body, stop = _reader(api.key, version, True)(data, at)
    except BROKEN as error:
        raise WireError(f"response to {api.key.name} v{version}: {_why(error)}") from error
    if stop != len(data):
        raise WireError(f"response to {api.key.name} v{version}: {len(data) - stop} surplus bytes at its end")
    return correlation, body


# -- encoding and decoding ---------------------------------------------------------------------------------


def _check_spoken(api: Api[Q, R], version: int) -> None:
    if not api.speaks(version):
        raise Unwritable(f"{api.key.name} v{version}: versions {api.first} to {api.last} are supported")


def _has_tags_in_head(api: Api[Q, R], version: int) -> bool:
    # The header of an ApiVersions response never has tagged fields: the client does not know the broker's versions yet.
    return version >= api.flexible and api.key is not ApiKey.API_VERSIONS


@cache
def _reader(key: ApiKey, version: int, response: bool) -> Reader:
    api = APIS[key]
    if response:
        return decoder(api.response, version, flexible=version >= api.flexible)
    elements = Elements(elements_max(key))
    return elements.bounds(decoder(api.request, version, flexible=version >= api.flexible, elements=elements))


@cache
def _writer(key: ApiKey, version: int, response: bool) -> Writer:
    api = APIS[key]
    return encoder(api.response if response else api.request, version, flexible=version >= api.flexible)


@frozen
class _NoFields:
    """The tagged fields of a header. None is defined."""


_HEADER_TAGS: Final = Elements(100)
_no_fields: Final = _HEADER_TAGS.bounds(decoder(_NoFields, 0, flexible=True, elements=_HEADER_TAGS))


def _client_id(frame: bytes) -> tuple[str | None, int]:
    """Return the client id and the position after it. The length of the id is not compact in any version."""
    start = _HEAD.size + _I16.size
    (length,) = _I16.unpack_from(frame, _HEAD.size)
    if length == -1:
        return None, start
    if not 0 <= length <= len(frame) - start:
        raise WireError(
            f"at byte {_HEAD.size}: the client id declares {length} bytes, but only {len(frame) - start} are left"
        )
    return frame[start : start + length].decode(), start + length


def _named_client(frame: bytes) -> str | None:
    """Return the client id of a request that cannot be decoded; None if the client id is unreadable, too."""
    try:
        return _client_id(frame)[0]
    except BROKEN:
        return None


def _write(write: Writer, body: object, pieces: list[bytes], what: str) -> None:
    out: Out = pieces.append
    try:
        write(body, out)
    except (Unwritable, AttributeError) as error:
        raise Unwritable(f"{what}: {error}") from error


def _framed(pieces: list[bytes]) -> bytes:
    """Prepend the length. All pieces are joined in one step, because a fetch response may have megabytes of records."""
    return b"".join((_LENGTH.pack(sum(map(len, pieces))), *pieces))


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, WireError) else f"truncated or malformed ({error})"
