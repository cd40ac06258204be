"""The server's side of one HTTP/1.1 connection, on `h11`: bytes in, requests out, and the heads of replies.

Clients are not authenticated before their request is parsed. So everything has a bound, and an invalid request is
refused with the matching status. After such a refusal no further request is parsed, because its beginning is unknown.

Only a running admin port imports this module: `h11` comes with an extra.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from io import SEEK_END
from typing import Final
from urllib.parse import parse_qsl, unquote_to_bytes

import h11

from zab.admin.http import AdminReply, AdminRequest, HttpError

HEADERS_MAX: Final = 100
PARAMETERS_MAX: Final = 100
METHODS: Final = frozenset({"GET", "HEAD", "POST"})
_METHOD: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,20}")
_LINE: Final = re.compile(rb"[^ ]+ [\x21-\x7e]+ HTTP/([0-9](?:\.[0-9])?)")
_FOLDED: Final = re.compile(rb"\r?\n[ \t]")
_LINE_BYTES_MAX: Final = 1_000
"""`_check_line` checks a request line that ends within this number of bytes, and of a longer one only the method."""
_STATUSES: Final = frozenset(map(int, HTTPStatus))


class HttpConnection:
    """One connection. `feed` takes received bytes; `next` returns a complete request, or None.
    After `next` has raised `HttpError`, the connection must not be used for further requests.

    Each request has an `h11.Connection` of its own, which begins with the bytes left over from the previous request.
    """

    def __init__(self, head_bytes_max: int, body_bytes_max: int) -> None:
        self._head_bytes_max = head_bytes_max
        self._body_bytes_max = body_bytes_max
        self._fed = bytearray()
        """Received bytes that were not passed to `h11` yet: the beginning of the next request."""
        self._parser = self._new_parser()
        """The parser of the current request."""
        self._head: AdminRequest | None = None
        """The request whose body is being read, or None."""
        self._body = bytearray()
        """The part of the body of `_head` that has arrived."""
        self._ended = False
        """True if the parser has returned its one request."""
        self._lost = False
        """True if a body was not read: then the beginning of the next request is unknown."""

    def _new_parser(self) -> h11.Connection:
        return h11.Connection(h11.SERVER, max_incomplete_event_size=self._head_bytes_max + 4)

    @property
    def held_bytes(self) -> int:
        return len(self._fed) + len(self._body) + (len(self._parser.trailing_data[0]) if self._head else 0)

    @property
    def started(self) -> bool:
        """True if a request that `next` has not returned has arrived, at least in part."""
        return bool(self._fed) or self._head is not None

    def feed(self, data: bytes | bytearray) -> None:
        if self._lost:
            return
        if self._head is None:
            self._fed += data
        elif data:  # to `h11` an empty piece is the end of the stream
            self._parser.receive_data(bytes(data))

    def next(self) -> AdminRequest | None:
        if self._lost:
            return None
        if self._ended:
            self._parser, self._ended = self._new_parser(), False
        if self._head is None:
            while self._fed[:2] == b"\r\n":  # empty lines in front of a request are tolerated, as HTTP asks
                del self._fed[:2]
            if self._fed == b"\r" or not self._read_head():  # perhaps half of an empty line
                return None
        return self._read_body()

    # -- a request ---------------------------------------------------------------------------------

    def _read_head(self) -> bool:
        stop = self._fed.find(b"\r\n\r\n")
        if stop > self._head_bytes_max or (stop < 0 and len(self._fed) > self._head_bytes_max):
            raise HttpError(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"a request's line and headers may have at most {self._head_bytes_max} bytes",
            )
        _check_line(bytes(self._fed[:_LINE_BYTES_MAX]))
        if _FOLDED.search(self._fed, 0, max(stop, 0)):
            raise HttpError(HTTPStatus.BAD_REQUEST, "each header must be `Name: value` on one line")
        if stop < 0:
            return False
        self._parser.receive_data(bytes(self._fed))
        self._fed.clear()
        event = self._event()
        assert isinstance(event, h11.Request)
        self._head = self._request(event)
        self._body.clear()
        return True

    def _read_body(self) -> AdminRequest | None:
        head = self._head
        assert head is not None
        if head.body is not None:
            while not isinstance(event := self._event(), h11.EndOfMessage):
                if event is h11.NEED_DATA:
                    return None
                assert isinstance(event, h11.Data)
                self._body += event.data
            self._fed += self._parser.trailing_data[0]
        self._lost = head.body is None
        self._head, self._ended = None, True
        if not self._body:
            return head
        return AdminRequest(head.method, head.path, head.parameters, head.headers, bytes(self._body), head.keep)

    def _event(self) -> object:
        try:
            return self._parser.next_event()
        except h11.RemoteProtocolError as error:
            # The hint is 501 for any Transfer-Encoding but a single `chunked`; all other hints are 400 or 431.
            hint = error.error_status_hint
            raise HttpError(HTTPStatus(hint if hint in _STATUSES else 400), f"invalid HTTP request: {error}") from None

    def _request(self, event: h11.Request) -> AdminRequest:
        """Check a request's head and convert it. The body is None if it is too large or has no announced length.

        Raise `HttpError` with 501 for an unknown method (RFC 9110), with 431 for too many headers (RFC 6585), and with
        400 for a head with both Content-Length and Transfer-Encoding (RFC 9112, 6.3) or with an invalid target. The
        connection is kept only if the body can be read and the client speaks HTTP/1.1 without `Connection: close`.
        """
        method = event.method.decode("ascii")
        if method not in METHODS:
            raise HttpError(HTTPStatus.NOT_IMPLEMENTED, f"{method:.20} is not supported; GET, HEAD and POST are")
        if len(event.headers) > HEADERS_MAX:
            raise HttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"at most {HEADERS_MAX} headers are allowed")
        headers: dict[str, str] = {}
        for key, value in event.headers:
            name, text = key.decode("ascii"), value.decode("latin-1")
            headers[name] = f"{headers[name]}, {text}" if name in headers else text
        if "transfer-encoding" in headers and "content-length" in headers:
            # The two may contradict each other: a proxy in between may follow one of them, and this server the other.
            raise HttpError(HTTPStatus.BAD_REQUEST, "a request must not have both Content-Length and Transfer-Encoding")
        path, parameters, authority = _target(event.target)
        if authority is not None:
            headers["host"] = authority
        readable = "transfer-encoding" not in headers and int(headers.get("content-length", 0)) <= self._body_bytes_max
        keep = readable and event.http_version == b"1.1" and "close" not in headers.get("connection", "").lower()
        return AdminRequest(method, path, parameters, headers, b"" if readable else None, keep)

    # -- the reply ---------------------------------------------------------------------------------

    def head_of(self, reply: AdminReply, *, keep: bool) -> bytes:
        """Return the head of the reply to the last request, as bytes. It repeats no part of a request."""
        length = len(reply.body) if reply.file is None else reply.file.seek(0, SEEK_END)
        headers = [
            ("Content-Type", reply.content_type),
            ("Content-Length", str(length)),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Connection", "keep-alive" if keep else "close"),
            *reply.headers,
        ]
        response = h11.Response(
            status_code=reply.status.value,
            reason=reply.status.phrase.encode(),
            headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        )
        data = self._parser.send(response)
        assert data is not None
        return data


def _check_line(beginning: bytes) -> None:
    """Refuse an invalid request line at once, so that its sender does not wait for the end of headers."""
    line, end, _ = beginning.partition(b"\r\n")
    method = line.partition(b" ")[0]
    if method and not _METHOD.fullmatch(method):
        raise HttpError(
            HTTPStatus.BAD_REQUEST, "the request does not begin with an HTTP method; this port speaks HTTP/1.1"
        )
    if not end:
        return
    found = _LINE.fullmatch(line)
    if found is None:
        raise HttpError(HTTPStatus.BAD_REQUEST, "the first line of a request must be METHOD /path HTTP/1.1")
    if found[1] not in (b"1.1", b"1.0"):
        raise HttpError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "only HTTP/1.1 and HTTP/1.0 are supported")


def _target(target: bytes) -> tuple[str, dict[str, str], str | None]:
    """Return the path, the parameters, and the host if the target is an absolute URL: that host overrides `Host`."""
    authority = None
    if not target.startswith(b"/"):
        scheme, slashes, rest = target.partition(b"://")
        if scheme.lower() != b"http" or not slashes:
            raise HttpError(HTTPStatus.BAD_REQUEST, "the target of a request must begin with / or http://")
        host, _, rest = rest.partition(b"/")
        authority, target = host.decode(), b"/" + rest
    raw, _, query = target.partition(b"#")[0].partition(b"?")
    try:
        path = unquote_to_bytes(raw).decode()
        pairs = parse_qsl(query.decode(), keep_blank_values=True, max_num_fields=PARAMETERS_MAX, errors="strict")
    except ValueError:
        raise HttpError(
            HTTPStatus.BAD_REQUEST,
            f"the path or a parameter is not valid UTF-8, or there are more than {PARAMETERS_MAX} parameters",
        ) from None
    return path, dict(pairs), authority
