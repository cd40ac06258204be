"""The client's side of SASL, for connections to other brokers and for command-line tools."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol, TypeVar

from attrs import frozen

from replica.core.errors import ErrorCode, KafkaError
from replica.core.security.sasl_exchange import Proof, Refused
from replica.core.security.sasl_plain import PLAIN, PlainProof
from replica.core.security.sasl_scram import ScramProof
from replica.runtime.authentication.sasl_authenticator import ROUNDS_MAX, SCRAM, nonce
from replica.wire.fields import Api
from replica.wire.schemas.cluster_schemas import (
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)

Q = TypeVar("Q")
R = TypeVar("R")


@frozen(repr=False)
class Identity:
    """The mechanism, user name and password of a client."""

    mechanism: str
    name: str
    password: str

    def proof(self) -> Proof:
        if self.mechanism == PLAIN:
            return PlainProof(self.name, self.password)
        return ScramProof(SCRAM[self.mechanism], self.name, self.password, nonce())


class Exchanging(Protocol):
    """A function that sends a request in the given version, and returns the body of its response."""

    def __call__(self, api: Api[Q, R], version: int, body: Q) -> Awaitable[R]: ...


async def log_in(identity: Identity, exchange: Exchanging) -> int:
    """Authenticate a new connection, or one whose session is about to expire.

    Return the session's lifetime in ms; 0: it does not expire. Raise `KafkaError` if either side rejects the other.
    """
    handshake = await exchange(SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=identity.mechanism))
    if handshake.error_code:
        offered = ", ".join(handshake.mechanisms) or "none"
        raise KafkaError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            f"{identity.mechanism} is not enabled at the broker; enabled: {offered}",
        )
    proof = identity.proof()
    token = proof.first()
    for _ in range(ROUNDS_MAX):
        response = await exchange(SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=token))
        if response.error_code:
            why = response.error_message or "the broker rejects the login"
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{identity.mechanism}, {identity.name}: {why}")
        try:
            following = proof.step(bytes(response.auth_bytes))
        except Refused as error:
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{identity.mechanism}: {error}") from None
        if following is None:
            return response.session_lifetime_ms
        token = following
    raise KafkaError(
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        f"{identity.mechanism}: the exchange did not end after {ROUNDS_MAX} tokens",
    )
