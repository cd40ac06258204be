"""One connection to a broker: version negotiation, authentication, and one request at a time."""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable
from typing import Any, Final, TypeVar

import trio
from attrs import frozen

from replica.core.errors import ErrorCode, KafkaError, WireError
from replica.runtime.authentication.sasl_client import Identity, log_in
from replica.wire.api import ApiKey
from replica.wire.fields import Api
from replica.wire.framing import Framing
from replica.wire.messages import decode_response, encode_request
from replica.wire.schemas.cluster_schemas import API_VERSIONS, ApiVersionsRequest
from zab.net.failed_dial import dial_reason

Q = TypeVar("Q")
R = TypeVar("R")

RECEIVE_BYTES: Final = 256 * 1024
GROUP_WAIT_S: Final = {ApiKey.JOIN_GROUP: 300.0, ApiKey.SYNC_GROUP: 300.0}
"""The time added to `request_s` for requests that wait for other group members. 300 s is the default of
`max.poll.interval.ms`."""
REAUTHENTICATE_AFTER: Final = 0.85
"""The fraction of the session lifetime after which the connection re-authenticates. Kafka's clients use 0.85 to
0.95."""
CLOSED_BY_BROKER: Final = "the broker closed the connection"
CERTIFICATE_REQUIRED: Final = "the broker rejected the handshake; it may require a client certificate that it trusts"
_CERTIFICATE_ALERTS: Final = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE")
"""Parts of OpenSSL's names for the alerts that a broker may send because it requires a client certificate."""


class Unreachable(Exception):
    """A request got no response, for example because the broker could not be reached or did not respond in time. The
    message gives the reason, or the reasons of all brokers that were tried."""


class CannotConnect(Unreachable):
    """An address refused the connection, or is unknown. The message contains the address."""


def _ignore(error: Exception, waited_s: float) -> None:
    pass


@frozen
class ClientSettings:
    """request_s    time limit of each connection attempt, and of each request; some have `GROUP_WAIT_S` in addition
    patience_s   time for which a temporary error is retried, for example during the election of a leader
    reply_bytes_max  the limit of one response; a longer one breaks the connection
    on_retry     called before each retry with the error and the seconds since the first attempt
    """

    client_id: str = "zab-broker"
    request_s: float = 30.0
    patience_s: float = 30.0
    reply_bytes_max: int = 256 * 1024 * 1024
    on_retry: Callable[[Exception, float], None] = _ignore


class BrokerConnection:
    """A connection to one broker. Concurrent callers take turns."""

    def __init__(self, stream: trio.abc.Stream, settings: ClientSettings) -> None:
        self.stream = stream
        self.broken = False
        """True if the connection must not be used again, for example because a late response may still arrive."""
        self._settings = settings
        self._framing = Framing(settings.reply_bytes_max)
        self._frames: list[bytes] = []
        """Responses that have arrived but were not taken: at most one, unless the broker is faulty."""
        self._turn = trio.Lock()
        self._correlation = 0
        """The correlation id of the last request."""
        self._versions: dict[int, tuple[int, int]] | None = None
        """The broker's versions of each API; None until the first `ask`."""
        self._identity: Identity | None = None
        """The identity, if the connection is authenticated by SASL."""
        self._reauthenticate_at = math.inf

    async def ask(self, api: Api[Q, R], body: Q, version_max: int | None = None) -> R:
        """Send a request in the newest common version, at most `version_max`, and return the response."""
        async with self._turn:
            if self._identity is not None and trio.current_time() >= self._reauthenticate_at:
                await self._log_in(self._identity)
            if self._versions is None:
                response = await self._exchange(API_VERSIONS, 0, ApiVersionsRequest())
                self._versions = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
            return await self._exchange(api, self._version(api, version_max), body)

    async def log_in(self, identity: Identity) -> None:
        """Authenticate. Raise `KafkaError` if either side rejects the other.

        If the session has a lifetime, an `ask` re-authenticates first once `REAUTHENTICATE_AFTER` of it has passed.
        """
        async with self._turn:
            await self._log_in(identity)

    async def _log_in(self, identity: Identity) -> None:
        began = trio.current_time()
        try:
            lifetime_ms = await log_in(identity, self._exchange)
        except KafkaError:
            self.broken = True
            raise
        self._identity = identity
        self._reauthenticate_at = began + lifetime_ms / 1000 * REAUTHENTICATE_AFTER if lifetime_ms > 0 else math.inf

    def _version(self, ours: Api[Any, Any], version_max: int | None) -> int:
        assert self._versions is not None
        first, last = self._versions.get(ours.key, (0, -1))
        ours_last = ours.last if version_max is None else min(ours.last, version_max)
        version = min(last, ours_last)
        if version < max(first, ours.first):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{ours.key.name}: the broker has versions {first} to {last}, this client {ours.first} to {ours_last}"
                if last >= 0
                else f"the broker does not support {ours.key.name}",
            )
        return version

    async def _exchange(self, api: Api[Q, R], version: int, body: Q) -> R:
        self._correlation += 1
        request = encode_request(api, version, self._correlation, self._settings.client_id, body)
        time_limit_s = self._settings.request_s + GROUP_WAIT_S.get(api.key, 0)
        try:
            with trio.fail_after(time_limit_s):
                await self.stream.send_all(request)
                while not self._frames:
                    data = await self.stream.receive_some(RECEIVE_BYTES)
                    if not data:
                        raise Unreachable(CLOSED_BY_BROKER)
                    self._frames = self._framing.feed(data)
        except trio.TooSlowError:
            self.broken = True
            raise Unreachable(f"{api.key.name} was not answered within {time_limit_s:g} s") from None
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as error:
            self.broken = True
            raise unreachable(error, "the connection broke: ") from error
        except BaseException:  # the response may still arrive, and would be taken for that of the next request
            self.broken = True
            raise
        correlation, reply = decode_response(api, version, self._frames.pop(0))
        if correlation != self._correlation:
            self.broken = True
            raise WireError(f"the response has correlation id {correlation}, expected {self._correlation}")
        return reply

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self.stream)


def unreachable(error: BaseException, prefix: str = "") -> Unreachable:
    """Translate a connection error to `Unreachable`, with a plain sentence in place of OpenSSL's message."""
    cause = error.__cause__ or error
    if isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError | ConnectionResetError | BrokenPipeError):
        return Unreachable(CLOSED_BY_BROKER)
    reason = (cause.reason or "").upper() if isinstance(cause, ssl.SSLError) else ""
    if any(word in reason for word in _CERTIFICATE_ALERTS):
        return Unreachable(f"{CERTIFICATE_REQUIRED} ({reason})")
    return Unreachable(f"{prefix}{_reason(error)}")


def _reason(error: BaseException) -> str:
    """Return the reason of an error. A group of errors, one for each address of a host, gives all their reasons."""
    cause = error.__cause__ or error
    if isinstance(cause, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(dial_reason(each) for each in cause.exceptions))
    return dial_reason(cause)


def raise_for(code: int, what: str, text: str | None = None) -> None:
    """Raise `KafkaError` unless `code` is 0."""
    if code:
        try:
            error = ErrorCode(code)
        except ValueError:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{what}: unknown error code {code}") from None
        raise KafkaError(error, f"{what}: {text}" if text else what)
