"""Authentication at the client port: its settings, and ZooKeeper's names for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final, Protocol

from attrs import evolve, field, frozen

from zab.config.jaas import SERVER, digest_users, parse_jaas
from zab.core.errors import ConfigError
from zab.store.acl import SUPER, Access, Identity, Rules


class Provider(Rules, Protocol):
    """A scheme of your own: its valid ids, the identities that they match, and the authentication of clients."""

    def authenticate(self, credentials: bytes, host: str) -> Iterable[Identity] | None:
        """Return the identities that these credentials prove; None closes the connection. Called in the event loop."""


PROVIDERS: Final = "zab.providers"
"""The group of entry points in which `authProvider.N` is looked up."""

_NO_USERS: Final[Mapping[str, str]] = {}
_NO_PROVIDERS: Final[Mapping[str, Provider]] = {}


@frozen
class SecuritySettings:
    """Authentication at the client port.

    digest           accept `user:password` (`DigestAuthenticationProvider.enabled`)
    sasl_users       passwords by names, for SASL DIGEST-MD5; empty: no SASL
    sasl_super       names that are super users once proved by SASL (`superUser`)
    sasl_any         the id of the sasl scheme that stands for every sasl user (`letAnySaslUserDoX`)
    sasl_tolerant    keep a client that failed at SASL, without an identity (`allowSaslFailedClients`)
    strip_host, strip_realm   of a principal `name/host@realm` (`kerberos.removeHostFromPrincipal`, ...)
    x509_super       the subject of the super user's certificate (`X509AuthenticationProvider.superUser`)
    required         requests need an identity of one of these schemes (`enforce.auth.schemes`)
    ensemble_names   a client that names another ensemble is disconnected (`ensembleAuthName`); None: no client may
                     name one
    extra_schemes    schemes whose ids may stand in an ACL although no client can prove one here
    providers        schemes of your own
    """

    digest: bool = True
    sasl_users: Mapping[str, str] = field(default=_NO_USERS, repr=lambda users: f"<{len(users)}>")
    sasl_super: frozenset[str] = frozenset()
    sasl_any: str | None = None
    sasl_tolerant: bool = False
    strip_host: bool = False
    strip_realm: bool = False
    x509_super: str | None = None
    required: frozenset[str] = frozenset()
    ensemble_names: frozenset[str] | None = None
    extra_schemes: frozenset[str] = frozenset()
    providers: Mapping[str, Provider] = _NO_PROVIDERS

    def __attrs_post_init__(self) -> None:
        for scheme in sorted(self.required - self.schemes - {"x509"}):
            raise ConfigError(f"clients must authenticate with scheme {scheme!r}, which has no provider here")

    @property
    def schemes(self) -> frozenset[str]:
        """The schemes whose ids may stand in an ACL."""
        schemes = {"ip", *self.extra_schemes, *self.providers}
        if self.digest:
            schemes.add("digest")
        if self.sasl_users:
            schemes.add("sasl")
        return frozenset(schemes)

    def access(self, access: Access, *, tls: bool = False, super_digest: bool = False) -> Access:
        """Return the access rules for the store: it must know the same schemes and super users as the port."""
        schemes = (access.schemes if self.digest else access.schemes - {"digest"}) | self.schemes
        schemes |= {"x509"} if tls else frozenset()
        supers = {
            "digest": self.digest and super_digest,
            "sasl": self.sasl_users and self.sasl_super,
            "x509": tls and self.x509_super is not None,
            SUPER: self.providers,  # a scheme of your own may prove it in a way of its own
        }
        return evolve(
            access,
            schemes=schemes,
            rules={**access.rules, **self.providers},
            sasl_any=self.sasl_any,
            supers=access.supers | {scheme for scheme, has_super in supers.items() if has_super},
        )

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> SecuritySettings:
        """Read the lines of a `zoo.cfg`, or Java's system properties with the prefix `zookeeper.`."""
        return _from_properties({key.removeprefix("zookeeper."): value for key, value in properties.items()})


DEFAULT_SECURITY: Final = SecuritySettings()

# -- ZooKeeper's names ---------------------------------------------------------------------------------

LOGIN_FILE: Final = "java.security.auth.login.config"
SECURITY_KEYS: Final = frozenset({
    "DigestAuthenticationProvider.enabled", "superUser", "letAnySaslUserDoX", "allowSaslFailedClients",
    "kerberos.removeHostFromPrincipal", "kerberos.removeRealmFromPrincipal", "X509AuthenticationProvider.superUser",
    "enforce.auth.enabled", "enforce.auth.schemes", "sessionRequireClientSASLAuth", "ensembleAuthName",
    "SASLAuthenticationProvider.superPassword", "sasl.serverconfig", LOGIN_FILE,
})  # fmt: skip
"""The keys that `SecuritySettings.from_properties` reads, beside `authProvider.N` and `superUser.N`."""

_PREFIXES: Final = ("authProvider.", "superUser.")
_KNOWN: Final = {
    "IPAuthenticationProvider": "ip",
    "DigestAuthenticationProvider": "digest",
    "SASLAuthenticationProvider": "sasl",
    "X509AuthenticationProvider": "x509",
    "EnsembleAuthenticationProvider": "ensemble",
}
_CLASS: Final = re.compile(r"(?:org\.apache\.zookeeper\.server\.auth\.)?(\w+)")


def is_security_key(key: str) -> bool:
    """Return whether `SecuritySettings.from_properties` reads this key of a `zoo.cfg`."""
    key = key.removeprefix("zookeeper.")
    return key in SECURITY_KEYS or key.startswith(_PREFIXES)


def truth(properties: Mapping[str, str], key: str, default: bool = False) -> bool:
    text = properties.get(key)
    if text is None or not text.strip():
        return default
    lower = text.strip().lower()
    if lower in ("true", "yes"):
        return True
    if lower in ("false", "no"):
        return False
    raise ConfigError(f"{key}={text}: true or false is expected")


def listed(text: str | None) -> list[str]:
    return [part for part in (piece.strip() for piece in (text or "").split(",")) if part]


def _from_properties(properties: Mapping[str, str]) -> SecuritySettings:
    extra, providers = _providers(properties)
    required: frozenset[str] = frozenset()
    if truth(properties, "sessionRequireClientSASLAuth"):
        required = frozenset({"sasl"})
    elif truth(properties, "enforce.auth.enabled"):
        required = frozenset(listed(properties.get("enforce.auth.schemes")))
        if not required:
            raise ConfigError("enforce.auth.enabled=true: enforce.auth.schemes must name the schemes, as in `sasl`")
    return SecuritySettings(
        digest=truth(properties, "DigestAuthenticationProvider.enabled", True),
        sasl_users=_sasl_users(properties),
        sasl_super=frozenset(
            value for key, value in properties.items() if key == "superUser" or key.startswith("superUser.")
        ),
        sasl_any=properties.get("letAnySaslUserDoX"),
        sasl_tolerant=truth(properties, "allowSaslFailedClients"),
        strip_host=truth(properties, "kerberos.removeHostFromPrincipal"),
        strip_realm=truth(properties, "kerberos.removeRealmFromPrincipal"),
        x509_super=properties.get("X509AuthenticationProvider.superUser"),
        required=required,
        ensemble_names=frozenset(listed(properties.get("ensembleAuthName"))) if "ensemble" in extra else None,
        extra_schemes=frozenset(extra) - {"ensemble"},
        providers=providers,
    )


def _sasl_users(properties: Mapping[str, str]) -> Mapping[str, str]:
    path = properties.get(LOGIN_FILE)
    if not path:
        return _NO_USERS
    text, section = read_text(path, LOGIN_FILE), properties.get("sasl.serverconfig")
    if section is None and SERVER not in parse_jaas(text, path):
        return _NO_USERS  # as in the original: the file may be for clients, or for other programs
    users = digest_users(text, section or SERVER, path)
    password = properties.get("SASLAuthenticationProvider.superPassword")
    if password is not None and "super" in users:
        users["super"] = password
    return users


def read_text(path: str, key: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise ConfigError(f"{key}={path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{key}={path}: not a text file: {error}") from error


def _providers(properties: Mapping[str, str]) -> tuple[set[str], dict[str, Provider]]:
    """`authProvider.N=...`: one of ZooKeeper's classes, an entry point of this Python, or `module:name`."""
    schemes: set[str] = set()
    providers: dict[str, Provider] = {}
    for key, value in properties.items():
        if not key.startswith("authProvider."):
            continue
        known = _CLASS.fullmatch(value.strip())
        if known is not None and known[1] in _KNOWN:
            schemes.add(_KNOWN[known[1]])
            continue
        provider = load_provider(value.strip(), key)
        providers[str(provider.scheme)] = provider
    return schemes - {"ip", "digest"}, providers


def load_provider(name: str, key: str) -> Any:
    """Load a provider by its name. Like ZooKeeper's, it names its `scheme` itself."""
    try:
        if ":" in name:
            module, _, attribute = name.partition(":")
            made = getattr(import_module(module), attribute)
        else:
            (found,) = entry_points(group=PROVIDERS, name=name)
            made = found.load()
        provider = made() if callable(made) else made
    except ValueError:
        known = ", ".join(sorted(_KNOWN))
        raise ConfigError(
            f"{key}={name}: no such provider. It may be one of {known}, the name of an entry point "
            f"in the group {PROVIDERS!r}, or `module:name`; a Java class cannot be loaded here"
        ) from None
    except Exception as error:
        raise ConfigError(f"{key}={name}: the provider cannot be loaded: {error!r}") from error
    if not isinstance(getattr(provider, "scheme", None), str) or not callable(getattr(provider, "authenticate", None)):
        raise ConfigError(f"{key}={name}: not a provider: it needs a `scheme` and a method `authenticate`")
    return provider
