"""SASL DIGEST-MD5 (RFC 2831), both sides: the way ZooKeeper's clients prove that they know a password.

The password is not sent, and both sides prove that they know it: only a server that knows the password can compute its
answer, `rspauth`. Only `qop=auth` is implemented, so use TLS to protect the bytes that follow.

An exchange consists of an empty token and three others. Nonces are arguments; a nonce must never be used twice.

    client                                server
    b""                        ->
                               <-         realm, nonce, algorithm
    user, cnonce, response     ->
                               <-         rspauth
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from zab.core.errors import WireError

MECHANISM: Final = "DIGEST-MD5"
SERVICE: Final = "zookeeper"
HOST: Final = "zk-sasl-md5"
"""The host name and the realm in every exchange of ZooKeeper's clients and servers."""

CHALLENGE_BYTES_MAX: Final = 2048
RESPONSE_BYTES_MAX: Final = 4096
"""The limit of RFC 2831 for a response."""

_FIRST_USE: Final = b"00000001"
_DIRECTIVE: Final = re.compile(
    rb"""
    \s*+ ([!#$%&'*+.^_`|~0-9A-Za-z-]++) \s*+ = \s*+
    (?: "((?:[^"\\]|\\.)*+)" | ([^\s,"\\=]*+) )
    \s*+ (?:,|$)
    """,
    re.DOTALL | re.VERBOSE,
)
_EMPTY: Final = re.compile(rb"\s*(?:,|$)")
_ESCAPED: Final = re.compile(rb"\\(.)", re.DOTALL)
_HEX: Final = re.compile(rb"[0-9a-f]{32}", re.IGNORECASE)


class SaslError(WireError):
    """The exchange failed. The text is for this side; the other side learns only that the exchange failed."""


# -- tokens --------------------------------------------------------------------------------------------


def parse_directives(token: bytes, bytes_max: int = RESPONSE_BYTES_MAX) -> dict[str, list[bytes]]:
    """Parse `name=value, name="value", ...` into the unquoted values of each name, in order, or raise `SaslError`."""
    if len(token) > bytes_max:
        raise SaslError(f"a token of {len(token)} bytes: at most {bytes_max} are allowed")
    found: dict[str, list[bytes]] = {}
    at = 0
    while at < len(token):
        empty = _EMPTY.match(token, at)
        if empty is not None:
            at = max(empty.end(), at + 1)
            continue
        match = _DIRECTIVE.match(token, at)
        if match is None:
            raise SaslError(f"at byte {at} of a token there is no name=value")
        name, quoted, plain = match.groups()
        value = plain if quoted is None else _ESCAPED.sub(rb"\1", quoted)
        found.setdefault(name.decode().lower(), []).append(value)
        at = match.end()
    return found


def _quoted(value: bytes) -> bytes:
    return b'"' + value.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def _one(directives: Mapping[str, list[bytes]], name: str, default: bytes | None = None) -> bytes:
    values = directives.get(name, [])
    if not values and default is not None:
        return default
    if len(values) != 1:
        raise SaslError(f"the token has {len(values) or 'no'} `{name}` directives; exactly one is required")
    return values[0]


# -- proofs -------------------------------------------------------------------------------------------


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _latin_if_it_can(text: str) -> bytes:
    """Encode text in ISO 8859-1 if possible, else in UTF-8, as RFC 2831 requires for hashing."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return _utf_8(text)


def _utf_8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _secret(user: str, realm: str, password: str, encode: Callable[[str], bytes]) -> bytes:
    return _md5(b":".join((encode(user), encode(realm), encode(password))))


def _proof(secret: bytes, nonce: bytes, cnonce: bytes, authzid: bytes | None, doing: bytes, uri: bytes) -> bytes:
    a1 = _md5(b":".join((secret, nonce, cnonce) if authzid is None else (secret, nonce, cnonce, authzid)))
    a2 = _md5(doing + b":" + uri)
    return _md5(b":".join((_hex(a1), nonce, _FIRST_USE, cnonce, b"auth", _hex(a2)))).hex().encode()


def _hex(raw: bytes) -> bytes:
    return raw.hex().encode()


_ASKING: Final = b"AUTHENTICATE"
_ANSWERING: Final = b""


# -- the server ----------------------------------------------------------------------------------------


class DigestServer:
    """One exchange with one client. `password_of` returns a user's password, or None for an unknown user.

    The time of the answer does not reveal whether the user exists.
    """

    def __init__(
        self,
        nonce: bytes,
        password_of: Callable[[str], str | None],
        realm: str = HOST,
        service: str = SERVICE,
        host: str = HOST,
    ) -> None:
        self.user: str | None = None
        """The user; None until the client has proved that it knows the password."""
        self._nonce = nonce
        self._password_of = password_of
        self._realm = realm
        self._uri = f"{service}/{host}".encode()
        self._asked = False
        self._failed = False

    @property
    def complete(self) -> bool:
        return self.user is not None

    def step(self, token: bytes) -> bytes:
        """Return the answer to a token, or raise `SaslError`. A failed or complete exchange accepts no more tokens."""
        if self._failed or self.complete:
            raise SaslError("the exchange is over")
        self._failed = True  # stays so if the next line raises
        answer = self._respond(token) if self._asked else self._challenge(token)
        self._failed = False
        return answer

    def _challenge(self, token: bytes) -> bytes:
        if token:
            raise SaslError(f"the first token has {len(token)} bytes, but it must be empty in {MECHANISM}")
        self._asked = True
        realm, nonce = _quoted(_utf_8(self._realm)), _quoted(self._nonce)
        return b"realm=%b,nonce=%b,charset=utf-8,algorithm=md5-sess" % (realm, nonce)

    def _respond(self, token: bytes) -> bytes:
        """Check a response by RFC 2831, section 2.1.2, and return `rspauth` (2.1.3).

        The nonce must be this exchange's and unused, the realm and the URI must be this server's, and the hash must
        match the user's password. The hash is computed for unknown users, too, so that the time reveals nothing.
        """
        directives = parse_directives(token)
        if not hmac.compare_digest(_one(directives, "nonce"), self._nonce):
            raise SaslError("not the nonce of this exchange: a replay, or the response to another challenge")
        if _one(directives, "nc") != _FIRST_USE:
            raise SaslError("the nonce count is not 00000001: a nonce may be used only once")
        if _one(directives, "qop", b"auth").lower() != b"auth":
            raise SaslError("only qop=auth is supported")
        realm = _text(_one(directives, "realm", b""))
        if realm != self._realm:
            raise SaslError(f"the realm is {realm!r}, not this server's, {self._realm!r}")
        uri = _one(directives, "digest-uri")
        if uri.lower() != self._uri.lower():
            raise SaslError(f"the response is for {_text(uri)!r}, not for {self._uri.decode()!r}")
        cnonce, response, authzid = _one(directives, "cnonce"), _one(directives, "response"), None
        if not cnonce or not _HEX.fullmatch(response):
            raise SaslError("the response lacks a cnonce or a hash of 32 hexadecimal digits")
        if "authzid" in directives:
            authzid = _one(directives, "authzid")
        user = _text(_one(directives, "username"))
        password = self._password_of(user)
        proved = None
        for encode in (_latin_if_it_can, _utf_8):  # not every client follows the rule about ISO 8859-1
            secret = _secret(user, realm, password or "", encode)
            if hmac.compare_digest(_proof(secret, self._nonce, cnonce, authzid, _ASKING, uri), response.lower()):
                proved = secret
        if proved is None or password is None or not user:
            raise SaslError(f"user {user!r} is not known" if password is None else f"a wrong password for {user!r}")
        self.user = user
        return b"rspauth=" + _proof(proved, self._nonce, cnonce, authzid, _ANSWERING, uri)


# -- the client ----------------------------------------------------------------------------------------


class DigestClient:
    """One exchange with one server. The caller sends an empty token first; `step` answers the server's tokens.

    `complete` is True once the server has proved that it knows the password, too.
    """

    def __init__(
        self,
        user: str,
        password: str,
        cnonce: bytes,
        service: str = SERVICE,
        host: str = HOST,
    ) -> None:
        self.complete = False
        self._user = user
        self._password = password
        self._cnonce = cnonce
        self._uri = f"{service}/{host}".encode()
        self._expected: bytes | None = None

    def step(self, token: bytes) -> bytes:
        """Return the response to a challenge, or empty bytes after a correct `rspauth`. Otherwise raise `SaslError`."""
        if self.complete:
            raise SaslError("the exchange is over")
        if self._expected is None:
            return self._respond(token)
        proof = _one(parse_directives(token, CHALLENGE_BYTES_MAX), "rspauth")
        if not hmac.compare_digest(proof.lower(), self._expected):
            raise SaslError("the server has not proved that it knows the password")
        self.complete = True
        return b""

    def _respond(self, challenge: bytes) -> bytes:
        directives = parse_directives(challenge, CHALLENGE_BYTES_MAX)
        nonce = _one(directives, "nonce")
        if not nonce or _one(directives, "algorithm").lower() != b"md5-sess":
            raise SaslError("the challenge lacks a nonce or the algorithm md5-sess")
        if b"auth" not in set(_listed(directives.get("qop", [b"auth"]))):
            raise SaslError("the server does not offer qop=auth")
        utf_8 = _one(directives, "charset", b"").lower() == b"utf-8"
        realm = directives.get("realm", [b""])[0]
        user = _utf_8(self._user) if utf_8 else _latin_if_it_can(self._user)
        secret = _secret(self._user, _text(realm), self._password, _latin_if_it_can)
        proof, self._expected = (
            _proof(secret, nonce, self._cnonce, None, doing, self._uri) for doing in (_ASKING, _ANSWERING)
        )
        parts = [b"charset=utf-8"] if utf_8 else []
        parts += [
            b"username=" + _quoted(user),
            b"realm=" + _quoted(realm),
            b"nonce=" + _quoted(nonce),
            b"nc=" + _FIRST_USE,
            b"cnonce=" + _quoted(self._cnonce),
            b"digest-uri=" + _quoted(self._uri),
            b"response=" + proof,
            b"qop=auth",
        ]
        return b",".join(parts)


def _listed(values: list[bytes]) -> Iterator[bytes]:
    for value in values:
        yield from (one.strip().lower() for one in value.split(b","))
