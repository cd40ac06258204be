"""The keys about security: TLS and SASL of each listener and between brokers, and authorization.

Ignoring one of these keys could make the broker less secure than its file demands, so an unknown one is an error, not a
warning.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final

from replica.cli.properties.properties_source import PropertiesSource, Scope
from replica.core.security.acl_authorization import AclSettings
from replica.core.security.acls import BadAcl, check_principal
from replica.core.security.principals import BadRules, Principals, read_rules
from replica.core.security.sasl_plain import PLAIN
from replica.runtime.authentication.sasl_authenticator import MECHANISMS, SaslSettings
from replica.runtime.authentication.sasl_client import Identity
from zab.config.config_source import ConfigSource, all_of
from zab.config.jaas import parse_jaas
from zab.config.values import any_long
from zab.core.errors import ConfigError
from zab.net.tls.cipher_suites import restrict
from zab.net.tls.key_stores import StoreFile

_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS: Final = "TLSv1.2,TLSv1.3"
_USER: Final = "user_"
JAAS: Final = "sasl.jaas.config"
AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"

TLS: Final = frozenset({
    "ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.password", "ssl.key.password",
    "ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.password", "ssl.client.auth",
    "ssl.protocol", "ssl.enabled.protocols", "ssl.cipher.suites", "ssl.endpoint.identification.algorithm",
    "ssl.principal.mapping.rules",
})  # fmt: skip
SASL: Final = frozenset({"sasl.enabled.mechanisms", "connections.max.reauth.ms"})
OF_LISTENERS: Final = TLS | SASL | {JAAS}
"""Keys that may be set for one listener, with its name as a prefix."""
HARMLESS: Final = frozenset({
    "ssl.provider", "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm", "ssl.secure.random.implementation",
    "ssl.allow.dn.changes", "ssl.allow.san.changes", "sasl.server.max.receive.size", JAAS,
    "sasl.kerberos.service.name", "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor",
    "sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class",
})  # fmt: skip
"""Keys that may be ignored safely, such as those of Java's libraries, or of Kerberos, which is refused anyway."""
SENSITIVE: Final = (
    "ssl.", "sasl.", "zookeeper.ssl.", "zookeeper.sasl.", "authorizer.", "principal.builder.", "security.providers",
    "alter.config.policy.", "create.topic.policy.", "client.quota.callback.",
)  # fmt: skip


def check_sensitive(source: PropertiesSource, known: Collection[str], listeners: Collection[str]) -> frozenset[str]:
    """Return the known keys for single listeners. Record a problem for each key of an unknown listener, and for each
    unknown key about security."""
    understood = set()
    for key in source.entries:
        if key.startswith("listener.name."):
            name, _, rest = key.removeprefix("listener.name.").partition(".")
            if name not in {each.lower() for each in listeners}:
                source.problem(key, f"no such listener; expected one of {', '.join(listeners)}")
            if rest in OF_LISTENERS or _mechanism_key(rest):
                understood.add(key)
            elif rest not in HARMLESS and (rest.startswith(SENSITIVE) or ".sasl." in f".{rest}"):
                source.problem(key, "unknown key about security: ignoring it would not be safe")
        elif key.startswith(SENSITIVE) and key not in known and key not in HARMLESS:
            source.problem(key, "unknown key about security: ignoring it would not be safe")
    return frozenset(understood)


def _mechanism_key(rest: str) -> bool:
    mechanism, _, key = rest.partition(".")
    return mechanism.upper() in MECHANISMS and key in (JAAS, "connections.max.reauth.ms")


# -- TLS ---------------------------------------------------------------------------------------------------


def tls_of(source: PropertiesSource, listener: str) -> ssl.SSLContext:
    """Make the TLS context of a listener. Raise all its mistakes together."""
    scope = source.at(listener)
    wanted = scope.text("ssl.client.auth", "none")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE

    def check_key_store() -> None:
        if not scope.text("ssl.keystore.location"):
            raise scope.wrong("ssl.keystore.location", "a listener uses TLS: set the file with its certificate and key")

    def check_client_auth() -> None:
        if wanted not in _CLIENT_AUTH:
            raise scope.wrong("ssl.client.auth", f"expected one of {', '.join(_CLIENT_AUTH)}")

    all_of(check_key_store, check_client_auth, lambda: _load(scope, context, "ssl."))
    if wanted != "none" and not scope.text("ssl.truststore.location"):
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = _CLIENT_AUTH[wanted]
    return context


def client_tls(scope: Scope, prefix: str = "ssl.") -> ssl.SSLContext:
    """Make the TLS context for connections to other brokers or to the store."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _load(scope, context, prefix)
    if not scope.text(f"{prefix}truststore.location"):
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    key = f"{prefix}endpoint.identification.algorithm"
    algorithm = scope.text(key, "https").lower()
    if algorithm not in ("", "https"):
        raise scope.wrong(key, "expected https, or empty, which disables the check of host names")
    context.check_hostname = algorithm == "https"
    return context


def _load(scope: Scope, context: ssl.SSLContext, prefix: str) -> None:
    """Load TLS versions, cipher suites, key and trusted authorities into the context. Raise all mistakes together."""

    def load_versions() -> None:
        try:
            versions = _listed(scope.text(f"{prefix}enabled.protocols", _VERSIONS))
            restrict(context, versions, _listed(scope.text(f"{prefix}cipher.suites")))
        except (ConfigError, IndexError) as error:
            key = "cipher.suites" if "ciphersuites" in str(error) else "enabled.protocols"
            raise scope.wrong(
                prefix + key, error if isinstance(error, ConfigError) else "it names no version"
            ) from None

    def load_store(which: str, act: Callable[[StoreFile, ssl.SSLContext], object]) -> None:
        key = f"{prefix}{which}.location"
        location = scope.text(key)
        if location:
            try:
                act(_store(scope, prefix, which, location), context)
            except ConfigError as error:
                raise scope.wrong(key, error) from None

    all_of(
        load_versions,
        lambda: load_store("keystore", StoreFile.load_key),
        lambda: load_store("truststore", StoreFile.load_trust),
    )


def key_store_of(source: PropertiesSource, listener: str) -> StoreFile:
    scope = source.at(listener)
    return _store(scope, "ssl.", "keystore", scope.text("ssl.keystore.location"))


def _store(scope: Scope, prefix: str, which: str, location: str) -> StoreFile:
    password = scope.text(f"{prefix}{which}.password") or None
    if which == "keystore":
        own = scope.text(f"{prefix}key.password") or None
        if own is not None and password is not None and own != password:
            raise scope.wrong(
                f"{prefix}key.password", "the private key and its keystore file must have the same password"
            )
        password = password or own
    kind = scope.text(f"{prefix}{which}.type").upper()
    return StoreFile(location, password, kind or None)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def principals_of(source: PropertiesSource, listener: str) -> Principals:
    scope = source.at(listener)
    try:
        return read_rules(scope.text("ssl.principal.mapping.rules", "DEFAULT"))
    except BadRules as error:
        raise scope.wrong("ssl.principal.mapping.rules", error) from None


# -- SASL --------------------------------------------------------------------------------------------------


def sasl_of(source: PropertiesSource, listener: str) -> SaslSettings:
    """Read the SASL mechanisms and users of a listener. Raise all its mistakes together."""
    scope = source.at(listener)
    mechanisms = _listed(scope.text("sasl.enabled.mechanisms", PLAIN))
    key = jaas_key(listener, PLAIN)

    def check_mechanisms() -> None:
        for mechanism in mechanisms:
            if mechanism not in MECHANISMS:
                why = f"{mechanism} is not supported; expected {', '.join(MECHANISMS)}"
                raise scope.wrong("sasl.enabled.mechanisms", why)
        if not mechanisms:
            raise scope.wrong("sasl.enabled.mechanisms", f"expected at least one of {', '.join(MECHANISMS)}")

    users: dict[str, str] = {}

    def read_users() -> None:
        if PLAIN not in mechanisms:
            return
        options = _login(source, listener, PLAIN)
        users.update({name.removeprefix(_USER): text for name, text in options.items() if name.startswith(_USER)})
        if not users:
            raise source.wrong(key, 'no user: expected `... required user_alice="her password";`')

    def check_user(name: str, password: str) -> None:
        if not name or not password:
            raise source.wrong(key, f"{_USER}{name} lacks {'a password' if name else 'a name'}: anybody could log in")

    def check_users() -> None:
        all_of(*(partial(check_user, name, password) for name, password in users.items()))

    all_of(check_mechanisms, read_users, check_users, lambda: _lifetime_ms(scope, mechanisms))
    return SaslSettings(mechanisms, users if PLAIN in mechanisms else None, _lifetime_ms(scope, mechanisms))


def _lifetime_ms(scope: Scope, mechanisms: tuple[str, ...]) -> int:
    """Return the shortest session lifetime that the file sets for the listener or one of its mechanisms; 0 if none.

    Kafka has one for each mechanism. Here all have the shortest: re-authenticating early is safe, late is not.
    """
    key = "connections.max.reauth.ms"
    found = []
    for name in (key, *(f"{mechanism.lower()}.{key}" for mechanism in mechanisms)):
        text = scope.text(name, "0")
        try:
            found.append(any_long(text))
        except ValueError:
            raise scope.wrong(name, "expected a time in ms; 0: sessions do not expire") from None
    return min((each for each in found if each > 0), default=0)


def jaas_key(listener: str, mechanism: str) -> str:
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.{JAAS}"


def _login(source: PropertiesSource, listener: str, mechanism: str) -> Mapping[str, str]:
    return login_options(source, jaas_key(listener, mechanism))


def login_options(source: ConfigSource, key: str) -> Mapping[str, str]:
    """Return the options of a login module in Java's format, `class.Name required name="value" ...;`. Return
    an empty mapping if the key is not set."""
    text = source.text(key)
    if not text:
        return {}
    try:
        modules = [options for _, options in parse_jaas(f"here {{ {text} }};", key)["here"]]
    except ConfigError as error:
        raise source.wrong(key, error) from None
    if len(modules) != 1:
        raise source.wrong(key, f"{len(modules)} login modules; expected one")
    return modules[0]


def identity_of(source: PropertiesSource, listener: str) -> Identity:
    """Return the identity with which this broker authenticates at this listener of other brokers."""
    key = "sasl.mechanism.inter.broker.protocol"
    mechanism = source.text(key)
    if mechanism not in MECHANISMS:
        raise source.wrong(
            key, f"brokers must authenticate at listener {listener}; expected one of {', '.join(MECHANISMS)}"
        )
    if mechanism not in _listed(source.at(listener).text("sasl.enabled.mechanisms", PLAIN)):
        raise source.wrong(key, f"this mechanism is not in sasl.enabled.mechanisms of listener {listener}")
    options = _login(source, listener, mechanism)
    missing = [option for option in ("username", "password") if not options.get(option)]
    if missing:
        why = f"missing {' and '.join(missing)}; brokers authenticate to each other with this login"
        raise source.wrong(jaas_key(listener, mechanism), why)
    return Identity(mechanism, options["username"], options["password"])


# -- authorization -----------------------------------------------------------------------------------------


def warn_without_authorizer(source: PropertiesSource) -> None:
    key = "authorizer.class.name"
    for other in ("super.users", "allow.everyone.if.no.acl.found"):
        if other in source and not source.text(key):
            source.warn(other, f"without effect: {key} is not set, so every client may do everything")


def acls_of(source: PropertiesSource) -> AclSettings | None:
    key = "authorizer.class.name"
    name = source.text(key)
    if not name:
        return None
    if name != AUTHORIZER:
        raise source.wrong(
            key, f"expected {AUTHORIZER}, which keeps its ACLs in the store; no other authorizer is supported"
        )
    supers = [each.strip() for each in source.text("super.users").split(";") if each.strip()]
    for each in supers:
        try:
            check_principal(each)
        except BadAcl as error:
            raise source.wrong("super.users", error) from None
    return AclSettings(frozenset(supers), source.value("allow.everyone.if.no.acl.found", False))
