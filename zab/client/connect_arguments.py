"""Validate the arguments of `connect` before dialling, so that a mistake is reported at once and precisely."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Any, Final

from zab.client.client_settings import ClientSettings
from zab.client.dialing import ClientTls
from zab.core.errors import LocalProtocolError
from zab.session.call_arguments import credentials_of, timeout_of

_ID_BITS: Final = 64
_AUTH: Final = 'auth must be a list of (scheme, credentials), like [("digest", b"user:password")]'


def check_arguments(
    *,
    hosts: object,
    timeout_ms: int,
    tls: object,
    sasl: object,
    wait_ms: object,
    reattach: Any,
    settings: object,
) -> None:
    """Validate these arguments of `connect`, except for the text of `hosts`.

    Raise `TypeError` if an argument has the wrong type, and `LocalProtocolError` if its value is out of range. The
    message names the argument.
    """
    if not isinstance(hosts, str):
        raise TypeError(f'hosts must be text, like "host1:2181,host2:2181/root", not {type(hosts).__name__}')
    timeout_of(timeout_ms)
    if tls is not None and not isinstance(tls, (ssl.SSLContext, ClientTls)):
        raise TypeError(f"tls must be an ssl.SSLContext or a zab.ClientTls, not {type(tls).__name__}")
    if sasl is not None and not _are(sasl, str, str):
        raise TypeError('sasl must be (user, password), like ("bob", "secret")')
    if wait_ms is not None:
        if not isinstance(wait_ms, (int, float)) or isinstance(wait_ms, bool):
            raise TypeError(f"wait_ms must be a number of milliseconds, or None for ever, not {type(wait_ms).__name__}")
        if not wait_ms >= 0:
            raise LocalProtocolError(f"wait_ms is {wait_ms}; it must be 0, positive or None, which waits for ever")
    if reattach is not None:
        if not _are(reattach, int, bytes):
            raise TypeError("reattach must be (id, password) of a session: `session.id` and `session.password`")
        if reattach[0].bit_length() >= _ID_BITS:
            raise LocalProtocolError(f"reattach: {reattach[0]} is not a session id, which is a signed 64-bit number")
    if not isinstance(settings, ClientSettings):
        raise TypeError(f"settings must be a zab.ClientSettings, not {type(settings).__name__}")


def checked_auth(auth: object) -> list[tuple[str, bytes]]:
    if isinstance(auth, (str, bytes)) or not isinstance(auth, Iterable):
        raise TypeError(f"{_AUTH}, not {type(auth).__name__}")
    pairs: list[Any] = list(auth)
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"{_AUTH}; an item of type {type(pair).__name__} is not a pair")
    return [credentials_of(*pair) for pair in pairs]


def _are(values: object, *kinds: type) -> bool:
    return (
        isinstance(values, tuple)
        and len(values) == len(kinds)
        and all(isinstance(value, kind) for value, kind in zip(values, kinds, strict=True))
    )
