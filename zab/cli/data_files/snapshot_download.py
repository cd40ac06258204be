"""Download a snapshot from the admin port of a running server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Final
from urllib.parse import urlsplit

from zab.core.errors import ConfigError, ZabError

READ_BYTES: Final = 1 << 20
PATIENCE_S: Final = 60.0
"""The longest wait for the connection, or for further bytes; a large snapshot may take longer as a whole."""
PATH: Final = "/commands/snapshot"


class NoSnapshot(ZabError):
    """The server refused the snapshot, could not be reached, or sent less than the whole file."""


def streamed(url: str, auth: str | None) -> Iterator[bytes]:
    """Yield the file piece by piece. Raise `NoSnapshot` if not all of it arrives, `ConfigError` for a bad argument."""
    headers = _headers(auth)
    try:
        where = urlsplit(url)
        host, port = where.hostname, where.port
    except ValueError:  # an invalid port or IPv6 address
        host = None
    if host is None:
        raise ConfigError(f"{url}: expected the URL of an admin port, like http://127.0.0.1:8080")
    secure = where.scheme == "https"
    make = HTTPSConnection if secure else HTTPConnection
    connection = make(host, port or (443 if secure else 80), timeout=PATIENCE_S)
    path = where.path if where.path not in ("", "/") else PATH
    try:
        connection.request("GET", f"{path}?streaming=true", headers=headers)
        reply = connection.getresponse()
        if reply.status != HTTPStatus.OK or reply.getheader("Content-Type", "").startswith("application/json"):
            raise NoSnapshot(f"{url}: {_reason(reply, auth)}")
        while piece := reply.read(READ_BYTES):
            yield piece
        if reply.length:
            raise NoSnapshot(f"{url}: {reply.length} bytes are missing at the end")
    except (OSError, HTTPException) as error:
        hint = ""
        if isinstance(error, HTTPException | ConnectionResetError):
            hint = "; if this is a client port, name the admin port (admin.serverPort) instead"
        raise NoSnapshot(f"{url}: {str(error) or type(error).__name__}{hint}") from error
    finally:
        connection.close()


def _headers(auth: str | None) -> dict[str, str]:
    if auth is None:
        return {}
    scheme, colon, credentials = auth.partition(":")
    if not colon or not scheme:
        raise ConfigError("--auth must be SCHEME:CREDENTIALS, like digest:user:password")
    if not auth.isprintable():
        raise ConfigError("--auth contains a control character, such as a line break, which HTTP does not carry")
    return {"Authorization": f"{scheme} {credentials}".encode().decode("latin-1")}  # the client sends it as Latin-1


def _reason(reply: HTTPResponse, auth: str | None) -> str:
    body = reply.read(READ_BYTES)
    try:
        said = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        said = body.decode("utf-8", "replace").strip() or reply.reason
    hint = "; give credentials with --auth" if auth is None and reply.status == HTTPStatus.UNAUTHORIZED else ""
    return f"{reply.status}: {said}{hint}"
