"""The TLS settings of a port, and ZooKeeper's keys for them: `ssl.*` for clients, `ssl.quorum.*` between servers."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Final

from attrs import frozen

from zab.core.argument_names import checks_arguments
from zab.core.errors import ConfigError
from zab.net.tls.cipher_suites import VERSIONS, restrict
from zab.net.tls.key_stores import StoreFile


class ClientAuth(Enum):
    """The demand for a client certificate: required, requested, or not requested."""

    NEED = "need"
    WANT = "want"
    NONE = "none"


_MODES: Final = {
    ClientAuth.NEED: ssl.CERT_REQUIRED,
    ClientAuth.WANT: ssl.CERT_OPTIONAL,
    ClientAuth.NONE: ssl.CERT_NONE,
}


@checks_arguments
@frozen
class TlsPortSettings:
    """The TLS settings of one port.

    key_store           the key of this server, and its certificate with the chain to its authority
    trust_store         the authorities that may sign the certificates of the other ends
    client_auth         whether a client must show a certificate
    versions            the enabled versions of TLS
    cipher_suites       by Java's or OpenSSL's names; empty: OpenSSL's default
    verify_client_host  whether a client's certificate must name the client's address; between servers, the host of
                        the server that it claims to be. None: for servers as in `verify_server_host`, for clients no
    reverse_lookup      also accept a client's certificate that names the host name of the client's address in DNS
    verify_server_host  whether the certificate of a dialled peer must name its host
    crl                 check certificates against the revocation lists in `crl_file` and in a trust store in PEM format
    crl_file            a file of revocation lists in PEM format
    unify               whether the port accepts the other ends with and without TLS
    detection_ms        how long a client may take to send its first byte, which shows whether it speaks TLS
    handshake_ms        how long the handshake of a client may take
    handshakes_max      concurrent handshakes; above it, the oldest of the address with the most is closed
    reload              whether changed files are read again, for new connections of clients
    reload_ms           the least interval between checks for changed files; only a new connection causes a check
    """

    key_store: StoreFile
    trust_store: StoreFile | None = None
    client_auth: ClientAuth = ClientAuth.NEED
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()
    verify_client_host: bool | None = None
    reverse_lookup: bool = False
    verify_server_host: bool = True
    crl: bool = False
    crl_file: str | None = None
    unify: bool = False
    detection_ms: int = 5_000
    handshake_ms: int = 10_000
    handshakes_max: int = 250
    reload: bool = False
    reload_ms: int = 1_000

    def __attrs_post_init__(self) -> None:
        for name in ("detection_ms", "handshake_ms", "handshakes_max", "reload_ms"):
            if getattr(self, name) < 1:
                raise ConfigError(f"TlsPortSettings.{name} = {getattr(self, name)}: must be 1 or more")
        if self.client_auth is not ClientAuth.NONE and self.trust_store is None:
            needs = f"certificates of clients are requested (clientAuth={self.client_auth.value})"
            raise ConfigError(f"{needs}, and there is no trustStore.location to check them with")
        if not self.versions:
            raise ConfigError("TlsPortSettings.versions: no version of TLS is enabled")

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the contexts are made of. With `reload`, they are read again when one has changed."""
        trust = () if self.trust_store is None else (self.trust_store.path,)
        return (self.key_store.path, *trust, *(() if self.crl_file is None else (self.crl_file,)))

    def server_context(self) -> ssl.SSLContext:
        """Return the context for accepting. Read the files each time; a `ConfigError` says what is wrong."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # No client needs renegotiation, and a client that asks for it again and again keeps a server busy.
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        restrict(context, self.versions, self.cipher_suites)
        self._load(context)
        context.verify_mode = _MODES[self.client_auth]
        return context

    def client_context(self) -> ssl.SSLContext:
        """Return the context for dialling a peer. Read the files each time; a `ConfigError` says what is wrong."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        restrict(context, self.versions, self.cipher_suites)
        self._load(context)
        context.check_hostname = self.verify_server_host
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        self.key_store.load_key(context)
        if self.trust_store is not None:
            self.trust_store.load_trust(context)
        if self.crl_file is not None:
            try:
                context.load_verify_locations(self.crl_file)
            except (ssl.SSLError, OSError) as error:
                raise ConfigError(f"{self.crl_file}: no revocation list in PEM format: {error}") from error
        if self.crl:
            if not context.cert_store_stats()["crl"]:
                hint = "name a file in PEM format in ssl.crl.location (between servers: ssl.quorum.crl.location)"
                raise ConfigError(f"crl=true, and there is no revocation list to check: {hint}")
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], *, quorum: bool = False, folder: str | os.PathLike[str] = "."
    ) -> TlsPortSettings | None:
        """Return the settings in a `zoo.cfg`, or in system properties of Java with their prefix `zookeeper.`.

        `quorum`: read the keys `ssl.quorum.*` instead of `ssl.*`. Return None if no key store is named. Relative paths
        begin at `folder`. Raise `ConfigError` if a value is wrong, or asks for protection that is not supported.
        """
        return _Keys(properties, "ssl.quorum." if quorum else "ssl.", Path(folder)).settings()


# -- ZooKeeper's names ---------------------------------------------------------------------------------

_SUFFIXES: Final = frozenset({
    "keyStore.location", "keyStore.password", "keyStore.passwordPath", "keyStore.type", "trustStore.location",
    "trustStore.password", "trustStore.passwordPath", "trustStore.type", "clientAuth", "protocol", "enabledProtocols",
    "ciphersuites", "hostnameVerification", "clientHostnameVerification", "allowReverseDnsLookup", "crl",
    "crl.location", "ocsp", "handshakeDetectionTimeoutMillis", "context.supplier.class", "authProvider",
})  # fmt: skip
TLS_KEYS: Final = frozenset({
    *(f"ssl.{suffix}" for suffix in _SUFFIXES),
    *(f"ssl.quorum.{suffix}" for suffix in _SUFFIXES),
    "client.portUnification", "client.certReload", "netty.server.outstandingHandshake.limit",
    "portUnification", "sslQuorumReloadCertFiles",
})  # fmt: skip
"""The keys that `TlsPortSettings.from_properties` reads, and the two keys `authProvider`, which it ignores."""


class _Keys:
    def __init__(self, properties: Mapping[str, str], prefix: str, folder: Path) -> None:
        self._properties = {key.removeprefix("zookeeper."): value.strip() for key, value in properties.items()}
        self._prefix = prefix
        self._folder = folder

    def _text(self, suffix: str) -> str | None:
        return self._properties.get(self._prefix + suffix) or None

    def _listed(self, suffix: str) -> tuple[str, ...]:
        return tuple(part for part in (piece.strip() for piece in (self._text(suffix) or "").split(",")) if part)

    def _truth(self, key: str, default: bool) -> bool:
        text = self._properties.get(key, "").lower()
        if text not in ("", "true", "false", "yes", "no"):
            raise ConfigError(f"{key}={text}: expected true or false")
        return text in ("true", "yes") if text else default

    def _number(self, key: str, default: int) -> int:
        """Return the number. 0 and below mean the default; ZooKeeper takes such a handshake limit for no limit."""
        text = self._properties.get(key)
        if not text:
            return default
        try:
            number = int(text)
        except ValueError:
            raise ConfigError(f"{key}={text}: expected a whole number") from None
        return number if number > 0 else default

    def _store(self, which: str) -> StoreFile | None:
        location = self._text(f"{which}.location")
        if location is None:
            return None
        password, path = self._text(f"{which}.password"), self._text(f"{which}.passwordPath")
        if path is not None:
            key = f"{self._prefix}{which}.passwordPath={path}"
            try:
                password = (self._folder / path).read_text().rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"{key}: the password cannot be read: {error}") from error
        kind = self._text(f"{which}.type")
        return StoreFile(str(self._folder / location), password, None if kind is None else kind.upper())

    def settings(self) -> TlsPortSettings | None:
        """Return the settings of the port, or None if the properties name no key store.

        The keys `ssl.*` and `ssl.quorum.*`, and their defaults, are those of ZooKeeper's `X509Util` and its subclasses.
        A key that asks for protection which is not supported here is refused, such as OCSP. A quorum port must demand
        certificates if it verifies the hosts of dialling servers.
        """
        for suffix, what in (("ocsp", "OCSP"), ("context.supplier.class", "a Java class")):
            text = self._text(suffix)
            if text is not None and text.lower() != "false":
                # The operator asked for protection: without OCSP, for example, revoked certificates would be trusted.
                raise ConfigError(f"{self._prefix}{suffix}={text}: {what} is not available here; remove this line")
        key_store = self._store("keyStore")
        if key_store is None:
            return None
        auth = (self._text("clientAuth") or "need").lower()
        if auth not in {each.value for each in ClientAuth}:
            raise ConfigError(f"{self._prefix}clientAuth={auth}: expected need, want or none")
        verify = self._truth(f"{self._prefix}hostnameVerification", True)
        quorum = self._prefix == "ssl.quorum."
        # ZooKeeper checks a dialling server's address, but not in FIPS mode, which is its default. Here the
        # certificate is compared with the configured host of that server, which needs no name service.
        suffix = "clientHostnameVerification"
        asked = None if self._text(suffix) is None else self._truth(f"{self._prefix}{suffix}", False)
        verify_client = asked and verify
        if quorum and verify and asked is not False and auth != ClientAuth.NEED.value:
            raise ConfigError(
                f"ssl.quorum.clientAuth={auth}: a server without a certificate could not be identified, and "
                "would be refused; remove this line, or set ssl.quorum.clientHostnameVerification=false as well"
            )
        return TlsPortSettings(
            key_store=key_store,
            trust_store=self._store("trustStore"),
            client_auth=ClientAuth(auth),
            versions=self._versions(),
            cipher_suites=self._listed("ciphersuites"),
            verify_client_host=verify_client,
            reverse_lookup=self._truth(f"{self._prefix}allowReverseDnsLookup", quorum),
            verify_server_host=verify,
            crl=self._truth(f"{self._prefix}crl", False),
            crl_file=None if (crl := self._text("crl.location")) is None else str(self._folder / crl),
            unify=self._truth("portUnification" if quorum else "client.portUnification", False),
            detection_ms=self._number(f"{self._prefix}handshakeDetectionTimeoutMillis", 5_000),
            handshakes_max=self._number("netty.server.outstandingHandshake.limit", 250),
            reload=self._truth("sslQuorumReloadCertFiles" if quorum else "client.certReload", False),
        )

    def _versions(self) -> tuple[str, ...]:
        enabled = self._listed("enabledProtocols")
        if enabled:
            return enabled
        protocol = self._text("protocol") or "TLSv1.3"
        if protocol in ("TLS", "TLSv1.3"):
            return ("TLSv1.2", "TLSv1.3")
        if protocol not in VERSIONS:
            raise ConfigError(f"{self._prefix}protocol={protocol}: one of {', '.join(VERSIONS)} is expected")
        return (protocol,)
