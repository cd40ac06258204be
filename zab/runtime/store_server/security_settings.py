"""The settings of authentication at the client port."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from attrs import evolve, field, frozen

from zab.core.argument_names import checks_arguments
from zab.core.errors import ConfigError
from zab.store.acl import SUPER, Access, Identity, Rules


class Provider(Rules, Protocol):
    """A user-defined scheme: its valid ids, the identities that they match, and the authentication of clients."""

    def authenticate(self, credentials: bytes, host: str) -> Iterable[Identity] | None:
        """Return the identities that these credentials prove. None refuses them, and the client is disconnected.

        Called in the event loop.
        """


_NO_USERS: Final[Mapping[str, str]] = {}
_NO_PROVIDERS: Final[Mapping[str, Provider]] = {}


@checks_arguments
@frozen
class SecuritySettings:
    """Authentication at the client port.

    digest           accept `user:password` (`DigestAuthenticationProvider.enabled`)
    sasl_users       passwords by user name, for SASL DIGEST-MD5; empty: no SASL
    sasl_super       names that are super users once proved by SASL (`superUser`)
    sasl_any         the id of the sasl scheme that stands for every sasl user (`letAnySaslUserDoX`)
    sasl_tolerant    keep a client whose SASL exchange failed, without a sasl identity (`allowSaslFailedClients`);
                     without effect if `required` contains sasl
    strip_host, strip_realm   drop this part of a principal `name/host@realm` (`kerberos.removeHostFromPrincipal`, ...)
    x509_super       the subject of the super user's certificate (`X509AuthenticationProvider.superUser`)
    required         requests need an identity of one of these schemes (`enforce.auth.schemes`)
    ensemble_names   the names of this ensemble: a client that authenticates with the scheme `ensemble` and any other
                     name is disconnected (`ensembleAuthName`). Empty: every name is accepted; None: the scheme is
                     unknown
    extra_schemes    schemes whose ids are valid in an ACL although no client can prove one here
    providers        user-defined schemes
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
            missing = "there are no sasl_users" if scheme == "sasl" else "no provider checks it here"
            raise ConfigError(f"clients are required to authenticate with scheme {scheme!r}, but {missing}")

    @property
    def schemes(self) -> frozenset[str]:
        """The schemes whose ids are valid in an ACL, besides `world`, `auth` and those that `access` adds."""
        schemes = {"ip", *self.extra_schemes, *self.providers}
        if self.digest:
            schemes.add("digest")
        if self.sasl_users:
            schemes.add("sasl")
        return frozenset(schemes)

    def access(self, access: Access, *, tls: bool = False, super_digest: bool = False) -> Access:
        """Return the access rules for the store, which must know the same schemes and super users as the port."""
        schemes = (access.schemes if self.digest else access.schemes - {"digest"}) | self.schemes
        schemes |= {"x509"} if tls else frozenset()
        supers = {
            "digest": self.digest and super_digest,
            "sasl": self.sasl_users and self.sasl_super,
            "x509": tls and self.x509_super is not None,
            SUPER: self.providers,  # a user-defined provider may authenticate a super user by its own rules
        }
        return evolve(
            access,
            schemes=schemes,
            rules={**access.rules, **self.providers},
            sasl_any=self.sasl_any,
            supers=access.supers | {scheme for scheme, has_super in supers.items() if has_super},
        )


DEFAULT_SECURITY: Final = SecuritySettings()
