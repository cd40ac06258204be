"""Requests and replies of the admin port, as values. `http_connection` translates them from and to bytes."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import BinaryIO, Final

from attrs import field, frozen

JSON: Final = "application/json"


class HttpError(Exception):
    """A request is refused with the HTTP status `status`. The connection ends if the request could not be read."""

    def __init__(self, status: HTTPStatus, why: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(why)
        self.status = status
        self.headers = headers


@frozen
class AdminRequest:
    """A request. `body` is None if it was not read, because it is too large or has no announced length."""

    method: str
    path: str
    parameters: Mapping[str, str] = field(factory=dict)
    headers: Mapping[str, str] = field(factory=dict)
    """The names are in lower case."""
    body: bytes | None = b""
    keep: bool = True
    """True if another request may follow on this connection."""


@frozen
class AdminReply:
    """A reply. A `file` is sent in place of the body, from its beginning, and closed even if the sending fails."""

    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    headers: tuple[tuple[str, str], ...] = ()
    file: BinaryIO | None = None
