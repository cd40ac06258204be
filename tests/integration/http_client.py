"""An HTTP client that a test can read: one request, one answer."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import Any

import trio
from attrs import frozen


@frozen
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


def ask(port: int, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
    finally:
        connection.close()


async def get(port: int | None, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
    assert port is not None
    return await trio.to_thread.run_sync(lambda: ask(port, path, method, body, **headers))
