"""SASL SCRAM (RFC 5802): the client proves that it knows a password, and the server that it has a credential made from
this password. The password is not sent.

    n,,n=ann,r=fy1                        client: its user name and a nonce
    r=fy1Q7,s=c2FsdA==,i=4096             server: the client's nonce with its own appended, the salt, the iterations
    c=biws,r=fy1Q7,p=...                  client: a proof over all messages, keyed by the salted password
    v=...                                 server: a proof over the same messages

An unknown user name gets a salt, too, the same one each time, with the number of iterations that most users have, and
fails only at the client's last message. So the messages do not reveal whether a name exists, unless its credential has
another number of iterations or a salt of another length.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Callable
from typing import Final

from kraft_controller.core.configuration.scram import ITERATIONS_MIN, Credential, Mechanism
from replica.core.security.sasl_exchange import Refused

MESSAGE_BYTES_MAX: Final = 8_192
SERVER_ITERATIONS_MAX: Final = 1_000_000
"""The maximum number of iterations that the client accepts. They cost CPU time before the server is authenticated."""

_NAME: Final = r"(?:[^,=]|=2C|=3D)+"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_MORE: Final = r"(?P<more>(?:,[a-zA-Z]+=[^,]+)*)"
_BASE64: Final = r"[a-zA-Z0-9/+]+={0,2}"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<head>[ny],(?:a=(?P<identity>{_NAME}))?,)(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE}){_MORE})"
)
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[1-9]\d{{0,9}}){_MORE}"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<bare>c=(?P<head>{_BASE64}),r=(?P<nonce>{_NONCE}){_MORE}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = re.compile(rf"(?:e=(?P<error>[^,]+)|v=(?P<verifier>{_BASE64}))(?:,.*)?", re.DOTALL)
_TOKEN_AUTH: Final = ",tokenauth="

Find = Callable[[str], Credential | None]
"""Returns the credential of a user, or None if the user is unknown."""


class ScramExchange:
    """The server's side.

    nonce   a fresh random value for this exchange
    secret  the cluster's secret, from which the salts of unknown names are derived
    usual   the number of iterations for unknown names
    """

    def __init__(
        self, mechanism: Mechanism, find: Find, nonce: str, secret: bytes, usual: int = ITERATIONS_MIN
    ) -> None:
        self.done = False
        self.name = ""
        self._mechanism = mechanism
        self._find = find
        self._nonce = nonce
        self._secret = secret
        self._usual = usual
        self._credential: Credential | None = None
        self._known = False
        self._head = b""
        self._messages = ""

    def step(self, token: bytes) -> bytes:
        if self.done:
            raise Refused("the client sent a token after the end of the exchange")
        answer = self._first(_text(token)) if self._credential is None else self._final(_text(token))
        return answer.encode()

    def _first(self, text: str) -> str:
        found = _required(_CLIENT_FIRST.fullmatch(text), "its first message")
        name = unescaped(found["name"])
        if found["identity"] is not None and unescaped(found["identity"]) != name:
            raise Refused(f"{name!r} requests a different authorization identity")
        if _TOKEN_AUTH in found["more"]:
            raise Refused("delegation tokens are not supported")
        self.name = name
        stored = self._find(name)
        self._known = stored is not None
        credential = self._credential = stored or self._stand_in(name)
        self._nonce = found["nonce"] + self._nonce
        self._head = found["head"].encode()
        answer = f"r={self._nonce},s={_base64(credential.salt)},i={credential.iterations}"
        self._messages = f"{found['bare']},{answer}"
        return answer

    def _stand_in(self, name: str) -> Credential:
        """Return a credential for an unknown user name. `_final` refuses every proof for it."""
        made = self._mechanism.hmac(self._secret, f"{self._mechanism.value} {name}".encode())
        return Credential(made[:20], made, made, self._usual)

    def _final(self, text: str) -> str:
        found = _required(_CLIENT_FINAL.fullmatch(text), "its last message")
        mechanism, credential = self._mechanism, self._credential
        assert credential is not None
        if _decoded(found["head"]) != self._head:
            raise Refused("the channel binding differs from the first message's")
        # Old versions of librdkafka prepend their own nonce again, which Kafka's servers accept. The server's nonce
        # alone makes the exchange safe, and the proof covers the whole message.
        if not found["nonce"].endswith(self._nonce):
            raise Refused("the nonce does not end with the server's")
        over = f"{self._messages},{found['bare']}".encode()
        signature = mechanism.hmac(credential.stored_key, over)
        proof = _decoded(found["proof"])
        key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        right = hmac.compare_digest(mechanism.h(key), credential.stored_key)
        if not right or not self._known or len(proof) != len(signature):
            raise Refused(f"wrong name or password for user {self.name!r}")
        self.done = True
        return f"v={_base64(mechanism.hmac(credential.server_key, over))}"


class ScramProof:
    """The client's side. `nonce` as in `ScramExchange`."""

    def __init__(self, mechanism: Mechanism, name: str, password: str, nonce: str) -> None:
        self.done = False
        self._mechanism = mechanism
        self._password = password.encode()
        self._nonce = nonce
        self._bare = f"n={escaped(name)},r={nonce}"
        self._verifier: bytes | None = None

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def step(self, token: bytes) -> bytes | None:
        if self._verifier is not None:
            self._last(_text(token))
            return None
        found = _required(_SERVER_FIRST.fullmatch(_text(token)), "the server's first message")
        iterations, mechanism = int(found["iterations"]), self._mechanism
        if not found["nonce"].startswith(self._nonce) or found["nonce"] == self._nonce:
            raise Refused("the server did not append a nonce to the client's")
        if not ITERATIONS_MIN <= iterations <= SERVER_ITERATIONS_MAX:
            raise Refused(
                f"the server requests {iterations} iterations; {ITERATIONS_MIN} to {SERVER_ITERATIONS_MAX} are allowed"
            )
        salted = mechanism.salted(self._password, _decoded(found["salt"]), iterations)
        key = mechanism.hmac(salted, b"Client Key")
        final = f"c=biws,r={found['nonce']}"
        over = f"{self._bare},{_text(token)},{final}".encode()
        signature = mechanism.hmac(mechanism.h(key), over)
        self._verifier = mechanism.hmac(mechanism.hmac(salted, b"Server Key"), over)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        return f"{final},p={_base64(proof)}".encode()

    def _last(self, text: str) -> None:
        found = _required(_SERVER_FINAL.fullmatch(text), "the server's last message")
        if found["error"] is not None:
            raise Refused(f"the server reports {found['error']}")
        assert self._verifier is not None
        if not hmac.compare_digest(_decoded(found["verifier"]), self._verifier):
            raise Refused("the server's proof is wrong: the server does not have the user's credential")
        self.done = True


# -- the grammar -------------------------------------------------------------------------------------------


def escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _text(token: bytes) -> str:
    if len(token) > MESSAGE_BYTES_MAX:
        raise Refused(f"the message has {len(token)} bytes; the limit is {MESSAGE_BYTES_MAX}")
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise Refused("the message is not UTF-8") from None


def _required(found: re.Match[str] | None, what: str) -> re.Match[str]:
    if found is None:
        raise Refused(f"{what} is malformed")
    return found


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise Refused("the message contains invalid base64") from None
