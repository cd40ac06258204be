"""SASL SCRAM (RFC 5802): each side proves to the other that it knows a password, and neither says it.

    n,,n=ann,r=fy1                        who I am, and a number that was never used
    r=fy1Q7,s=c2FsdA==,i=4096             mine behind yours, and how your password was salted
    c=biws,r=fy1Q7,p=...                  a proof over all of this, with what the password makes of the salt
    v=...                                 and one that I knew what to compare it with

Somebody who is not known is asked for a proof, too, with a salt that is always the same for his name: whether a name is
known cannot be seen from the answers.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Callable
from typing import Final

from kraft_controller.core.scram import ITERATIONS_MIN, Credential, Mechanism
from replica.core.sasl import Refused

MESSAGE_BYTES_MAX: Final = 8_192
SERVER_ITERATIONS_MAX: Final = 1_000_000
"""More of them from a server that is not proved yet would only be to keep us busy."""

_NAME: Final = r"(?:[^,=]|=2C|=3D)+"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_MORE: Final = r"(?P<more>(?:,[a-zA-Z]+=[^,]+)*)"
_BASE64: Final = r"[a-zA-Z0-9/+]+={0,2}"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<head>[ny],(?:a=(?P<behalf>{_NAME}))?,)(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE}){_MORE})"
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
"""What is kept of somebody's password, by his name."""


class ScramExchange:
    """nonce   drawn for this exchange, and never again
    secret  of the cluster: it makes salts for those who are not known
    """

    def __init__(self, mechanism: Mechanism, find: Find, nonce: str, secret: bytes) -> None:
        self.done = False
        self.name = ""
        self._mechanism = mechanism
        self._find = find
        self._nonce = nonce
        self._secret = secret
        self._credential: Credential | None = None
        self._known = False
        self._head = b""
        self._said = ""

    def step(self, token: bytes) -> bytes:
        if self.done:
            raise Refused("everything has been said already")
        answer = self._first(_text(token)) if self._credential is None else self._final(_text(token))
        return answer.encode()

    def _first(self, text: str) -> str:
        said = _required(_CLIENT_FIRST.fullmatch(text), "its first message")
        name = unescaped(said["name"])
        if said["behalf"] is not None and unescaped(said["behalf"]) != name:
            raise Refused(f"{name!r} wants to act as somebody else")
        if _TOKEN_AUTH in said["more"]:
            raise Refused("it wants to log in with a delegation token, and there are none here")
        self.name = name
        found = self._find(name)
        self._known = found is not None
        credential = self._credential = found or self._stand_in(name)
        self._nonce = said["nonce"] + self._nonce
        self._head = said["head"].encode()
        answer = f"r={self._nonce},s={_base64(credential.salt)},i={credential.iterations}"
        self._said = f"{said['bare']},{answer}"
        return answer

    def _stand_in(self, name: str) -> Credential:
        """Nothing fits it: its keys are no hash of anything that a client could send."""
        made = self._mechanism.hmac(self._secret, f"{self._mechanism.value} {name}".encode())
        return Credential(made[:20], made, made, ITERATIONS_MIN)

    def _final(self, text: str) -> str:
        said = _required(_CLIENT_FINAL.fullmatch(text), "its last message")
        mechanism, credential = self._mechanism, self._credential
        assert credential is not None
        if _decoded(said["head"]) != self._head:
            raise Refused("it means another channel than this one")
        # Old clients of librdkafka write their own number in front once more; Kafka's servers take it, too. Ours, new
        # in every exchange, is the one that matters, and the proof is made over all of it.
        if not said["nonce"].endswith(self._nonce):
            raise Refused("its number is not the one that it was given")
        over = f"{self._said},{said['bare']}".encode()
        signature = mechanism.hmac(credential.stored_key, over)
        proof = _decoded(said["proof"])
        key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        right = hmac.compare_digest(mechanism.h(key), credential.stored_key)
        if not right or not self._known or len(proof) != len(signature):
            raise Refused(f"wrong name or password, for {self.name!r}")
        self.done = True
        return f"v={_base64(mechanism.hmac(credential.server_key, over))}"


class ScramProof:
    """`nonce` as for the other side."""

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
        said = _required(_SERVER_FIRST.fullmatch(_text(token)), "the server's first message")
        iterations, mechanism = int(said["iterations"]), self._mechanism
        if not said["nonce"].startswith(self._nonce) or said["nonce"] == self._nonce:
            raise Refused("the server has not put its number behind ours")
        if not ITERATIONS_MIN <= iterations <= SERVER_ITERATIONS_MAX:
            raise Refused(f"the server wants {iterations} iterations: {ITERATIONS_MIN} at least")
        salted = mechanism.salted(self._password, _decoded(said["salt"]), iterations)
        key = mechanism.hmac(salted, b"Client Key")
        final = f"c=biws,r={said['nonce']}"
        over = f"{self._bare},{_text(token)},{final}".encode()
        signature = mechanism.hmac(mechanism.h(key), over)
        self._verifier = mechanism.hmac(mechanism.hmac(salted, b"Server Key"), over)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        return f"{final},p={_base64(proof)}".encode()

    def _last(self, text: str) -> None:
        said = _required(_SERVER_FINAL.fullmatch(text), "the server's last message")
        if said["error"] is not None:
            raise Refused(f"the server says {said['error']}")
        assert self._verifier is not None
        if not hmac.compare_digest(_decoded(said["verifier"]), self._verifier):
            raise Refused("the server does not know the password either")
        self.done = True


# -- the grammar -------------------------------------------------------------------------------------------


def escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _text(token: bytes) -> str:
    if len(token) > MESSAGE_BYTES_MAX:
        raise Refused(f"a message of {len(token)} bytes: {MESSAGE_BYTES_MAX} are allowed")
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise Refused("a message that is no text") from None


def _required(found: re.Match[str] | None, what: str) -> re.Match[str]:
    if found is None:
        raise Refused(f"{what} is none of SCRAM's")
    return found


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise Refused("a message with damaged base64") from None
