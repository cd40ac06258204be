"""As much of HTTP/1.1 as an operator's tools speak: requests in, replies out, as bytes and values.

Nobody who matters is behind this port, and anybody may knock at it. So everything has a bound, what is not
understood is refused with the status that says so, and after a refusal nothing more is read: where the next
request begins is then anybody's guess.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from io import SEEK_END
from typing import BinaryIO, Final
from urllib.parse import parse_qsl, unquote_to_bytes

from attrs import field, frozen

_TOKEN: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TARGET: Final = re.compile(rb"[\x21-\x7e]+")
_VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")
_HEADERS_MAX: Final = 100
_PARAMETERS_MAX: Final = 100
METHODS: Final = frozenset({"GET", "HEAD", "POST"})


class HttpError(Exception):
    """What came is no request, or none that is answered: this status is all it gets, and then the connection ends."""

    def __init__(self, status: HTTPStatus, why: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(why)
        self.status = status
        self.headers = headers


@frozen
class Request:
    """`body` is None where it was too large to be read, or of a length that is told as it goes."""

    method: str
    path: str
    parameters: Mapping[str, str] = field(factory=dict)
    headers: Mapping[str, str] = field(factory=dict)
    body: bytes | None = b""
    keep: bool = True
    """Whether another request may follow on this connection."""


@frozen
class Reply:
    """A `file` is sent in place of a body, from its beginning, and closed in any case."""

    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    headers: tuple[tuple[str, str], ...] = ()
    file: BinaryIO | None = None


class RequestReader:
    """`feed` it what was received; `next` gives the next whole request, or None. After an `HttpError` it is done."""

    def __init__(self, head_bytes_max: int, body_bytes_max: int) -> None:
        self._head_bytes_max = head_bytes_max
        self._body_bytes_max = body_bytes_max
        self._data = bytearray()
        self._head: Request | None = None
        self._body_bytes = 0

    @property
    def started(self) -> bool:
        """Whether there is a part of a request."""
        return bool(self._data) or self._head is not None

    def feed(self, data: bytes | bytearray) -> None:
        self._data += data

    def next(self) -> Request | None:
        if self._head is None:
            while self._data[:2] == b"\r\n":  # empty lines in front are tolerated, as ever
                del self._data[:2]
            stop = self._data.find(b"\r\n\r\n")
            if stop > self._head_bytes_max or (stop < 0 and len(self._data) > self._head_bytes_max):
                raise HttpError(
                    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                    f"a request's line and headers may have {self._head_bytes_max} bytes",
                )
            if stop < 0:
                self._check_beginning()
                return None
            head = bytes(self._data[:stop])
            del self._data[: stop + 4]
            self._head, self._body_bytes = self._parse(head)
        if len(self._data) < self._body_bytes:
            return None
        request, self._head = self._head, None
        if self._body_bytes:
            request = Request(
                request.method,
                request.path,
                request.parameters,
                request.headers,
                bytes(self._data[: self._body_bytes]),
                request.keep,
            )
            del self._data[: self._body_bytes]
        return request

    def _check_beginning(self) -> None:
        """What can be no request is refused at once: who sends it does not wait for an end of headers."""
        line, end, _ = bytes(self._data[:1000]).partition(b"\r\n")
        method = line.partition(b" ")[0]
        if end:
            self._parse_line(line)
        elif method and (len(method) > 20 or not _TOKEN.fullmatch(method)):
            raise HttpError(HTTPStatus.BAD_REQUEST, "this is a port for HTTP")

    def _parse_line(self, line: bytes) -> tuple[str, bytes, bytes]:
        parts = line.split(b" ")
        if len(parts) != 3 or not _TOKEN.fullmatch(parts[0]) or not _TARGET.fullmatch(parts[1]):
            raise HttpError(HTTPStatus.BAD_REQUEST, "a request begins with METHOD /path HTTP/1.1")
        if parts[2] not in (b"HTTP/1.1", b"HTTP/1.0"):
            if re.fullmatch(rb"HTTP/\d(?:\.\d)?", parts[2]):
                raise HttpError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "this is a port for HTTP/1.1")
            raise HttpError(HTTPStatus.BAD_REQUEST, "a request begins with METHOD /path HTTP/1.1")
        return parts[0].decode(), parts[1], parts[2]

    def _parse(self, head: bytes) -> tuple[Request, int]:
        first, *lines = head.split(b"\r\n")
        method, target, version = self._parse_line(first)
        if method not in METHODS:
            raise HttpError(HTTPStatus.NOT_IMPLEMENTED, f"{method:.20} is not known here; GET, HEAD and POST are")
        headers = _headers(lines)
        keep = "close" not in headers.get("connection", "").lower() and (
            version == b"HTTP/1.1" or "keep-alive" in headers.get("connection", "").lower()
        )
        path, parameters, authority = _target(target)
        if authority is not None:
            headers["host"] = authority
        length, readable = self._length(headers)
        body = b"" if readable else None
        return Request(method, path, parameters, headers, body, keep and readable), length if readable else 0

    def _length(self, headers: Mapping[str, str]) -> tuple[int, bool]:
        """How long the body is, and whether it will be read."""
        if "transfer-encoding" in headers:
            if "content-length" in headers:  # one of the two is a lie, and somebody in between may believe the other
                raise HttpError(HTTPStatus.BAD_REQUEST, "two lengths of one body")
            return 0, False
        text = headers.get("content-length", "0").encode("latin-1")
        if not _LENGTH.fullmatch(text):
            raise HttpError(HTTPStatus.BAD_REQUEST, "a Content-Length is a number")
        length = int(text)
        return length, length <= self._body_bytes_max


def _headers(lines: list[bytes]) -> dict[str, str]:
    headers: dict[str, str] = {}
    if len(lines) > _HEADERS_MAX:
        raise HttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"a request may have {_HEADERS_MAX} headers")
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise HttpError(HTTPStatus.BAD_REQUEST, "a header is Name: value")
        key, text = name.decode().lower(), value.strip(b" \t").decode("latin-1")
        if key in headers:
            if key in ("content-length", "host", "transfer-encoding"):
                raise HttpError(HTTPStatus.BAD_REQUEST, f"two headers {key}")
            text = f"{headers[key]}, {text}"
        headers[key] = text
    return headers


def _target(target: bytes) -> tuple[str, dict[str, str], str | None]:
    """Return the path, the parameters, and the host of an absolute URL: it counts more than the header `Host`."""
    authority = None
    if not target.startswith(b"/"):
        scheme, slashes, rest = target.partition(b"://")
        if scheme.lower() != b"http" or not slashes:
            raise HttpError(HTTPStatus.BAD_REQUEST, "a path begins with /")
        host, _, rest = rest.partition(b"/")
        authority, target = host.decode(), b"/" + rest
    raw, _, query = target.partition(b"#")[0].partition(b"?")
    try:
        path = unquote_to_bytes(raw).decode()
        pairs = parse_qsl(query.decode(), keep_blank_values=True, max_num_fields=_PARAMETERS_MAX, errors="strict")
    except ValueError:
        raise HttpError(HTTPStatus.BAD_REQUEST, "the path is no text, or has too many parameters") from None
    return path, dict(pairs), authority


def encode_head(reply: Reply, *, keep: bool) -> bytes:
    """Nothing of a request is ever repeated in a header, so none can be smuggled in."""
    length = len(reply.body) if reply.file is None else reply.file.seek(0, SEEK_END)
    lines = [
        f"HTTP/1.1 {reply.status.value} {reply.status.phrase}",
        f"Content-Type: {reply.content_type}",
        f"Content-Length: {length}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        f"Connection: {'keep-alive' if keep else 'close'}",
        *(f"{name}: {value}" for name, value in reply.headers),
        "\r\n",
    ]
    return "\r\n".join(lines).encode("latin-1")
