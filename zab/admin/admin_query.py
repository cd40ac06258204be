"""Queries to the admin port and the client port of a server: one request for each connection, and a bounded reply."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import UnionType
from typing import Any, Final, TypeAlias

import h11
import trio

from zab.core.addresses import with_port

REPLY_BYTES_MAX: Final = 4 << 20


async def http_get(host: str, port: int, path: str) -> tuple[int | None, bytes]:
    """Return status and body; the status is None if the port does not speak HTTP.

    Raise `ValueError` if the reply breaks off, or is longer than `REPLY_BYTES_MAX`.
    """
    parser = h11.Connection(h11.CLIENT)
    headers = [("Host", with_port(host, port)), ("Connection", "close")]
    request = parser.send(h11.Request(method="GET", target=path, headers=headers))
    parser.send(h11.EndOfMessage())
    assert request is not None
    try:
        reply = await _exchange(host, port, request)
    except trio.BrokenResourceError:
        return None, b""
    parser.receive_data(reply)
    parser.receive_data(b"")
    status, body = None, bytearray()
    try:
        while type(event := parser.next_event()) is not h11.EndOfMessage:
            if isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.ConnectionClosed):
                return None, b""
    except h11.RemoteProtocolError as error:
        if status is None:
            return None, b""
        raise ValueError(f"its HTTP reply breaks off: {error}") from None
    return status, bytes(body)


async def ask_word(host: str, port: int, word: str) -> str:
    return (await _exchange(host, port, word.encode())).decode("utf-8", "replace")


def json_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object. Raise `ValueError` if the body is something else."""
    value = json.loads(body)
    if not isinstance(value, dict):
        raise ValueError("the reply is not a JSON object")
    return value


Form: TypeAlias = "type | UnionType | Mapping[str, Form] | list[Form]"
"""A type; an object with at least these keys, each of this form; or a list whose elements have one form."""


def check_form(value: object, form: Form, name: str = "the reply") -> None:
    """Raise `ValueError`, which names the part, if a value from JSON has another form."""
    if isinstance(form, Mapping):
        if not isinstance(value, Mapping):
            raise ValueError(f"{name} is {value!r:.60}, and not an object")
        for key, inner in form.items():
            if key not in value:
                raise ValueError(f"{name} has no {key!r}")
            check_form(value[key], inner, key)
    elif isinstance(form, list):
        if not isinstance(value, list):
            raise ValueError(f"{name} is {value!r:.60}, and not a list")
        for each in value:
            check_form(each, form[0], name)
    elif not isinstance(value, form):
        raise ValueError(f"{name} is {value!r:.60}, and not of the type {getattr(form, '__name__', form)}")


async def _exchange(host: str, port: int, data: bytes) -> bytes:
    reply = bytearray()
    stream = await trio.open_tcp_stream(host, port)
    async with stream:
        await stream.send_all(data)
        while len(reply) <= REPLY_BYTES_MAX and (piece := await stream.receive_some(64 << 10)):
            reply += piece
    return bytes(reply)
