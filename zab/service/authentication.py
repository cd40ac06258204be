"""The identities that a client proves on one connection: by auth requests, by SASL, and by its certificate.

An identity holds for the requests after the one that proved it, on this connection only. A failed authentication ends
the connection, so that a guess costs the client a connection. There are two exceptions: a wrong password for the super
user's name proves an ordinary digest identity, and a failed SASL exchange is tolerated if the settings say so.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from hmac import compare_digest
from typing import Final, Protocol

from zab.store.acl import SUPER, Identity, digest_id, encode_identities
from zab.store.acl_schemes import host_id
from zab.store.error_codes import ErrorCode
from zab.wire.sasl import DigestServer, SaslError

IDENTITIES_BYTES_MAX: Final = 16 << 10
"""The maximum size of one client's encoded identities, which each of its requests to the leader carries."""

CREDENTIALS_BYTES_MAX: Final = 64 << 10
"""The maximum size of scheme and credentials in one request. Any client may send them, so they are limited."""

NONCE_BYTES: Final = 30

_PRINCIPAL: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?(?:@([^/@]*))?")


class Verdict(Enum):
    """The fate of the connection after an auth request."""

    PROVED = "the connection continues, with the identities that were proved"
    REFUSED = "an error is sent, and the connection is closed"
    SENT_AWAY = "the connection is closed without a reply, so that the client tries another server"


class CredentialsProvider(Protocol):
    """The part of a user-defined scheme that checks credentials."""

    def authenticate(self, credentials: bytes, host: str) -> Iterable[Identity] | None:
        """Return the identities that the credentials prove, or None to refuse them."""


class Security(Protocol):
    """The settings of `SecuritySettings` that decide about credentials."""

    @property
    def digest(self) -> bool: ...
    @property
    def sasl_users(self) -> Mapping[str, str]: ...
    @property
    def sasl_super(self) -> frozenset[str]: ...
    @property
    def sasl_tolerant(self) -> bool: ...
    @property
    def strip_host(self) -> bool: ...
    @property
    def strip_realm(self) -> bool: ...
    @property
    def required(self) -> frozenset[str]: ...
    @property
    def ensemble_names(self) -> frozenset[str] | None: ...
    @property
    def providers(self) -> Mapping[str, CredentialsProvider]: ...


class IdentitySettings(Protocol):
    """The settings of `ClientPortSettings` that decide about identities."""

    @property
    def identities_max(self) -> int: ...
    @property
    def super_digest(self) -> str | None: ...
    @property
    def digest_algorithm(self) -> str: ...
    @property
    def security(self) -> Security: ...


class ClientAuthentication:
    """The identities of one client, and its SASL exchange."""

    def __init__(
        self,
        settings: IdentitySettings,
        host: str,
        proved: Iterable[Identity] = (),
        random_bytes: Callable[[int], bytes] | None = None,
    ) -> None:
        """`proved`: the identities of the certificate. `random_bytes` makes nonces; without it SASL is refused."""
        self.identities: tuple[Identity, ...] = (("ip", host_id(host)), *proved)
        """All identities that the client has proved on this connection, beginning with its address."""
        self.encoded = encode_identities(self.identities)
        """`identities`, as each request of the client to the leader carries them."""
        self.why = ""
        """The reason for the last failure of credentials, for the log."""
        self._settings = settings
        self._security = settings.security
        self._random_bytes = random_bytes
        self.host = host_id(host)
        """The address under which failed logins are counted."""
        self._exchange: DigestServer | None = None
        """The SASL exchange, from its first token on; None after a failure."""
        self.barred = False
        """True if the server requires an identity of certain schemes, and the client has none of them."""
        self.guessed_wrong = False
        """True if the last credentials count as a wrong guess. The super user's name with a wrong password does so,
        although it proves an ordinary digest identity.
        """
        self._update_barred()

    def _update_barred(self) -> None:
        required = self._security.required
        self.barred = bool(required) and not any(scheme in required for scheme, _ in self.identities)

    def _add(self, found: Iterable[Identity]) -> bool:
        identities = tuple(dict.fromkeys([*self.identities, *found]))
        if len(identities) > self._settings.identities_max:
            self.why = (
                f"the client would have {len(identities)} identities; ClientPortSettings.identities_max allows "
                f"{self._settings.identities_max}"
            )
            return False
        encoded = encode_identities(identities)
        if len(encoded) > IDENTITIES_BYTES_MAX:
            self.why = f"the client's identities would take {len(encoded)} bytes: {IDENTITIES_BYTES_MAX} are allowed"
            return False
        self.identities, self.encoded = identities, encoded
        self._update_barred()
        return True

    # -- opcode 100 --------------------------------------------------------------------------------

    def authenticate(self, scheme: str, credentials: bytes) -> Verdict:
        security = self._security
        self.guessed_wrong, self.why = False, ""
        if len(scheme) + len(credentials) > CREDENTIALS_BYTES_MAX:
            self.why = f"{len(credentials)} bytes of credentials; with the scheme, the limit is {CREDENTIALS_BYTES_MAX}"
            return Verdict.REFUSED
        if scheme == "ensemble" and security.ensemble_names is not None:
            if (
                credentials
                and security.ensemble_names
                and credentials.decode("utf-8", "replace") not in security.ensemble_names
            ):
                self.why = "the client names another ensemble"
                return Verdict.SENT_AWAY
            return Verdict.PROVED
        found = self._found(scheme, credentials)
        if found is None:
            self.guessed_wrong = True
            self.why = self.why or f"the credentials of scheme {scheme!r:.100} prove no identity"
            return Verdict.REFUSED
        return Verdict.PROVED if self._add(found) else Verdict.REFUSED

    def may_be_wrong(self, scheme: str, credentials: bytes) -> bool:
        """Return whether credentials may be a wrong guess.

        In the digest scheme only those with the super user's name may: it accepts any other name with any password.
        """
        chief = self._settings.super_digest
        if scheme != "digest":
            return True
        return chief is not None and credentials.partition(b":")[0] == _bytes(chief).partition(b":")[0]

    def _found(self, scheme: str, credentials: bytes) -> Iterable[Identity] | None:
        """Return the identities that the credentials add, which may be none; None if the credentials are refused.

        A user-defined provider takes precedence over a built-in scheme. The digest scheme accepts any name and
        password, because the identity is their hash (ZooKeeper's `DigestAuthenticationProvider`). A wrong password for
        the super user's name counts as a guess. Address and certificate need no credentials: the connection proves
        them.
        """
        provider = self._security.providers.get(scheme)
        if provider is not None:
            try:
                return provider.authenticate(credentials, self.host)
            except Exception as error:
                self.why = f"the provider of {scheme!r} failed: {error!r}"
                return None
        match scheme:
            case "digest" if self._security.digest:
                name = digest_id(credentials, self._settings.digest_algorithm)
                chief = self._settings.super_digest
                is_super = chief is not None and compare_digest(_bytes(name), _bytes(chief))
                if not is_super and self.may_be_wrong(scheme, credentials):
                    self.guessed_wrong, self.why = True, "a wrong password for the super user"
                return [*([(SUPER, "")] if is_super else []), ("digest", name)]
            case "ip":
                return []
            case "x509":
                return [] if any(of == "x509" for of, _ in self.identities) else None
            case _:
                return None

    @property
    def proved_by_sasl(self) -> bool:
        return self._exchange is not None and self._exchange.complete

    # -- opcode 102 --------------------------------------------------------------------------------

    def sasl(self, token: bytes | None) -> tuple[bytes | None, int]:
        """Return the answer and an error code. The answer is None after a failure.

        If the code is not 0, the connection must be closed.
        """
        self.guessed_wrong = False
        try:
            return self._step(token), 0
        except SaslError as error:
            proved = self._exchange is not None and self._exchange.user is not None
            self.guessed_wrong, self.why = not proved, str(error)
            self._exchange = None
            needed = "sasl" in self._security.required
            if self._security.sasl_tolerant and not needed:
                return None, 0
            return None, int(ErrorCode.SESSION_CLOSED_REQUIRES_SASL_AUTH if needed else ErrorCode.AUTH_FAILED)

    def _step(self, token: bytes | None) -> bytes:
        if token is None:
            raise SaslError("the request has no token")
        if not self._security.sasl_users or self._random_bytes is None:
            raise SaslError("no client can log in by SASL: no users are configured")
        if self._exchange is None:
            self._exchange = DigestServer(b64encode(self._random_bytes(NONCE_BYTES)), self._security.sasl_users.get)
        answer = self._exchange.step(token)
        if self._exchange.user is not None:
            name = shaped(self._exchange.user, self._security.strip_host, self._security.strip_realm)
            is_super = name in self._security.sasl_super
            if not self._add([("sasl", name), *([(SUPER, "")] if is_super else [])]):
                raise SaslError(self.why)
        return answer


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def shaped(principal: str, strip_host: bool, strip_realm: bool) -> str:
    """Return a principal `name/host@realm` without the parts that the settings remove."""
    match = _PRINCIPAL.fullmatch(principal)
    if match is None or match[3] is None:  # a principal without a realm is taken as it is
        return principal
    host = "" if strip_host or match[2] is None else f"/{match[2]}"
    return match[1] + host + ("" if strip_realm else f"@{match[3]}")


def subject_identities(subject: str, chief: str | None) -> list[Identity]:
    """Return the identities of a verified certificate; `chief` is the super user's subject."""
    return [*([(SUPER, subject)] if subject == chief else []), ("x509", subject)]
