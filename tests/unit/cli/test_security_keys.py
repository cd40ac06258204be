"""The keys of authentication and of the audit log, by ZooKeeper's names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.cli.zoo_cfg.keys import TABLE
from zab.cli.zoo_cfg.security_keys import audit_settings, security_settings
from zab.cli.zoo_cfg.zoo_source import ZooSource
from zab.config.config_source import BadConfig
from zab.core.errors import ConfigError
from zab.runtime.store_server.audit import AuditSettings
from zab.runtime.store_server.security_settings import SecuritySettings
from zab.service.authentication import shaped, subject_identities
from zab.store.acl import Access, Identity

APACHES = "org.apache.zookeeper.server.auth."


class Tickets:
    scheme = "ticket"
    proves = True

    def authenticate(self, credentials: bytes, host: str) -> Iterable[Identity] | None:
        return None

    def id_is_valid(self, name: str) -> bool:
        return True

    def matches(self, name: str, identity: str) -> bool:
        return name == identity


class NoProvider:
    scheme = "none"


def fails() -> None:
    raise ValueError("no key file")


def source_of(told: dict[str, str]) -> ZooSource:
    source = ZooSource(Path("zoo.cfg"), TABLE)
    source.add_options("-D", told.items())
    assert all(TABLE.knows(key) for key in source.entries)
    return source


def read(told: dict[str, str]) -> SecuritySettings:
    source = source_of(told)
    made = security_settings(source)
    if source.problems:
        raise BadConfig(source.problems)
    return made


@pytest.fixture
def jaas(tmp_path: Path) -> str:
    path = tmp_path / "jaas.conf"
    path.write_text('Server { x.DigestLoginModule required user_super="s" user_bob="b"; }; Other { };')
    return str(path)


def test_nothing_is_the_default() -> None:
    assert read({}) == SecuritySettings()
    assert read({}).schemes == {"ip", "digest"}


def test_users_of_a_login_configuration(jaas: str) -> None:
    made = read({"java.security.auth.login.config": jaas, "superUser": "super", "zookeeper.superUser.2": "bob"})
    assert made.sasl_users == {"super": "s", "bob": "b"}
    assert made.sasl_super == {"super", "bob"}
    assert made.schemes == {"ip", "digest", "sasl"}
    told = {"java.security.auth.login.config": jaas, "SASLAuthenticationProvider.superPassword": "another"}
    assert read(told).sasl_users == {"super": "another", "bob": "b"}


@pytest.mark.parametrize(("told", "required"), [
    ({"sessionRequireClientSASLAuth": "true"}, {"sasl"}),
    ({"enforce.auth.enabled": "true", "enforce.auth.schemes": "sasl, digest"}, {"sasl", "digest"}),
    ({"enforce.auth.enabled": "false", "enforce.auth.schemes": "sasl"}, set()),
    ({"sessionRequireClientSASLAuth": "true", "enforce.auth.enabled": "true", "enforce.auth.schemes": "ip"}, {"sasl"}),
])  # fmt: skip
def test_requirements_of_authentication(told: dict[str, str], required: set[str]) -> None:
    assert read({"authProvider.1": APACHES + "SASLAuthenticationProvider", **told}).required == required


def test_providers() -> None:
    names = {
        "1": "SASLAuthenticationProvider",
        "2": "EnsembleAuthenticationProvider",
        "x": "DigestAuthenticationProvider",
    }
    told = {f"authProvider.{number}": APACHES + name for number, name in names.items()}
    made = read({**told, "ensembleAuthName": "a, b", "authProvider.9": f"{__name__}:Tickets"})
    assert made.schemes == {"ip", "digest", "sasl", "ticket"}
    assert made.ensemble_names == frozenset({"a", "b"})
    access = made.access(Access(), tls=True)
    assert access.schemes == {"ip", "digest", "sasl", "ticket", "x509"}
    assert access.rules["ticket"].matches("1", "1")
    assert read({"ensembleAuthName": "a"}).ensemble_names is None, "nobody has asked for the provider"


def test_super_users_of_other_servers_count_only_for_schemes_with_one_here(jaas: str) -> None:
    everything = {
        "java.security.auth.login.config": jaas,
        "superUser": "super",
        "X509AuthenticationProvider.superUser": "CN=root",
    }
    assert read({}).access(Access(), tls=True).supers == frozenset()
    assert read(everything).access(Access(), tls=True, super_digest=True).supers == {"digest", "sasl", "x509"}
    assert read(everything).access(Access(), super_digest=False).supers == {"sasl"}, "x509 needs TLS for clients"
    without_digest = {"DigestAuthenticationProvider.enabled": "false"}
    assert read(without_digest).access(Access(), super_digest=True).supers == frozenset()
    assert read({"authProvider.9": f"{__name__}:Tickets"}).access(Access()).supers == {"super"}


def test_digest_ids_need_the_digest_scheme() -> None:
    made = read({"DigestAuthenticationProvider.enabled": "false"})
    assert made.access(Access()).schemes == {"ip"}


@pytest.mark.parametrize(("told", "why"), [
    ({"enforce.auth.enabled": "true"}, "enforce.auth.schemes must name"),
    ({"enforce.auth.enabled": "true", "enforce.auth.schemes": "sasl"}, "schemes=sasl: no client can .* is missing"),
    ({"enforce.auth.enabled": "true", "enforce.auth.schemes": "kerb"}, "schemes=kerb: .*'kerb', but no provider"),
    ({"sessionRequireClientSASLAuth": "true"}, "^sessionRequireClientSASLAuth=true: .*login.config is missing"),
    ({"authProvider.1": "com.acme.Auth"}, "authProvider.1=com.acme.Auth: no such provider. .*a Java class cannot"),
    ({"authProvider.1": "no.such.module:It"}, "cannot be loaded"),
    ({"authProvider.1": f"{__name__}:fails"}, "cannot be loaded: ValueError.'no key file'."),
    ({"authProvider.1": f"{__name__}:NoProvider"}, "not a provider"),
    ({"java.security.auth.login.config": "/nowhere"}, "java.security.auth.login.config=/nowhere: No such file"),
])  # fmt: skip
def test_invalid_arguments_are_reported(told: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read(told)


def test_value_that_is_no_flag_is_a_problem_of_its_key() -> None:
    with pytest.raises(BadConfig, match="-D: enforce.auth.enabled=sometimes: expected true or false"):
        read({"enforce.auth.enabled": "sometimes"})


def test_audit_log_is_off_unless_it_is_enabled() -> None:
    assert audit_settings(source_of({})) is None
    assert audit_settings(source_of({"audit.enable": "false"})) is None
    assert audit_settings(source_of({"zookeeper.audit.enable": "true"})) == AuditSettings()
    assert audit_settings(source_of({"audit.enable": "true", "audit.file": "a"})) == AuditSettings("a")
    source = source_of({"audit.enable": "maybe"})
    assert audit_settings(source) is None
    assert source.problems == ["-D: audit.enable=maybe: expected true or false"]


def test_another_section(jaas: str) -> None:
    with pytest.raises(ConfigError, match="'Other': no user may log in"):
        read({"java.security.auth.login.config": jaas, "sasl.serverconfig": "Other"})


KEYS = [
    key.name for name, keys in TABLE.sections if name == "Security" for key in keys if "ssl" not in key.name.lower()
]


@given(st.dictionaries(st.sampled_from(KEYS) | st.just("authProvider.1"), st.text(max_size=12)))
def test_any_file_is_settings_or_a_config_error(told: dict[str, str]) -> None:
    try:
        read(told)
    except (ConfigError, BadConfig):
        return


@pytest.mark.parametrize(("principal", "host", "realm", "expected"), [
    ("bob", True, True, "bob"), ("zk/h@R", False, False, "zk/h@R"), ("zk/h@R", True, False, "zk@R"),
    ("zk/h@R", False, True, "zk/h"), ("zk/h@R", True, True, "zk"), ("zk@R", False, True, "zk"),
    ("a/b", True, True, "a/b"), ("a@b@c", True, True, "a@b@c"), ("", True, True, ""),
])  # fmt: skip
def test_principals_in_shape(principal: str, host: bool, realm: bool, expected: str) -> None:
    assert shaped(principal, host, realm) == expected


def test_the_subject_of_a_certificate() -> None:
    assert subject_identities("CN=a", "CN=b") == subject_identities("CN=a", None) == [("x509", "CN=a")]
    assert subject_identities("CN=a", "CN=a") == [("super", "CN=a"), ("x509", "CN=a")]
