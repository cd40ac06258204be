"""What `--check` says of a file that can be served, and is more open than somebody may have meant it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from replica.cli.properties.plan import plan_of

AUTHORIZER = "authorizer.class.name=kafka.security.authorizer.AclAuthorizer"
PLAIN = ("listeners=IN://:1,OUT://:2", "listener.security.protocol.map=IN:PLAINTEXT,OUT:SASL_PLAINTEXT", "broker.id=1")
USERS = 'listener.name.out.plain.sasl.jaas.config=x.PlainLoginModule required user_ann="a";'
NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("stores")
    ours = trustme.CA()
    ours.cert_pem.write_to_path(made / "trust.pem")
    for name, ends in (("good", NOW + timedelta(days=9)), ("expired", NOW - timedelta(days=1))):
        held = ours.issue_cert("127.0.0.1", not_before=NOW - timedelta(days=90), not_after=ends)
        held.private_key_and_cert_chain_pem.write_to_path(made / f"{name}.pem")
    return made


def warned(*lines: str, now: datetime = NOW) -> list[str]:
    text = "\n".join(["zookeeper.connect=h:2181", "default.replication.factor=1", *lines])
    return list(plan_of("server.properties", text, now=now).warnings)


def tls(stores: Path, *lines: str, key: str = "good", trust: bool = True, protocol: str = "IN:SSL") -> list[str]:
    said = ["listeners=IN://:1", f"listener.security.protocol.map={protocol}", "broker.id=1", *lines]
    said.append(f"ssl.keystore.location={stores / f'{key}.pem'}")
    if trust:
        said.append(f"ssl.truststore.location={stores / 'trust.pem'}")
    return said


def test_any_tls_client_may_command_if_no_certificate_is_required(stores: Path) -> None:
    [warning] = warned(*tls(stores))
    assert (
        "server.properties: ssl.client.auth: any client that reaches listener CONTROLLER can send commands to this"
        in warning
    )
    [half_open] = warned(*tls(stores, "ssl.client.auth=requested"))
    assert "server.properties:6: ssl.client.auth=requested: any client that reaches listener CONTROLLER" in half_open
    assert warned(*tls(stores, "ssl.client.auth=required")) == []
    [open_acls] = warned(*tls(stores, AUTHORIZER, "allow.everyone.if.no.acl.found=true"))
    assert "any client that reaches listener CONTROLLER" in open_acls
    assert warned(*PLAIN, USERS) == [], "where all is plain nobody has asked for more"


def test_controllers_in_the_clear_beside_brokers_that_are_not(stores: Path) -> None:
    [warning] = warned(*tls(stores, "ssl.client.auth=required", protocol="IN:SSL,CONTROLLER:PLAINTEXT"))
    assert "set the protocol of CONTROLLER to that of the inter-broker listener, SSL" in warning
    assert "listener.security.protocol.map=IN:SSL,CONTROLLER:PLAINTEXT" in warning


def test_brokers_without_a_name_where_acls_are_asked(stores: Path) -> None:
    [outside] = warned(*PLAIN, USERS, AUTHORIZER, "super.users=User:ann")
    assert "brokers connect to listener IN as User:ANONYMOUS, which is not a super user" in outside
    assert warned(*PLAIN, USERS, AUTHORIZER, "allow.everyone.if.no.acl.found=true") == []
    assert any("to listener IN as User:ANONYMOUS" in each for each in warned(*tls(stores, AUTHORIZER)))
    assert warned(*tls(stores, AUTHORIZER, "ssl.client.auth=required")) == []


def test_a_super_user_that_anybody_is() -> None:
    [everybody] = warned(*PLAIN, USERS, AUTHORIZER, "super.users=User:ANONYMOUS")
    assert "may do everything at IN, CONTROLLER: remove" in everybody


def test_certificates_of_all_the_authorities_of_the_system(stores: Path) -> None:
    [anybody] = warned(*tls(stores, "ssl.client.auth=required", trust=False))
    assert "accepts every certificate that an authority trusted by the operating system has signed" in anybody


@pytest.mark.parametrize(
    ("user", "why"), [("user_kate", "is not one of the users"), ("user_kafka", "has a different password")]
)
def test_a_login_of_brokers_that_the_others_refuse(user: str, why: str) -> None:
    key = "listener.name.in.plain.sasl.jaas.config"
    [refused] = warned(
        "listeners=IN://:1",
        "listener.security.protocol.map=IN:SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol=PLAIN",
        f'{key}=x.PlainLoginModule required username="kafka" password="hush" user_ann="a" {user}="hark";',
    )
    assert f"{key}=...: brokers authenticate to each other as kafka, which {why}" in refused
    assert not {"hush", "hark"} & set(re.findall(r"\w+", refused))


def test_a_certificate_that_does_not_count_any_more_or_not_yet(stores: Path) -> None:
    [late] = warned(*tls(stores, "ssl.client.auth=required", key="expired"))
    assert "its certificate expired at 2029-12-31 00:00 UTC" in late
    [early] = warned(*tls(stores, "ssl.client.auth=required"), now=NOW - timedelta(days=91))
    assert "its certificate is not valid before 2029-10-03 00:00 UTC" in early


def test_a_login_that_is_said_for_no_mechanism() -> None:
    [idle] = warned(*PLAIN, USERS, USERS.replace("plain.sasl", "sasl"))
    assert "without effect: set it for a mechanism, for example listener.name.out.plain.sasl.jaas.config" in idle


def test_keys_that_no_listener_uses() -> None:
    told = warned("listeners=PLAINTEXT://h:1", "ssl.keystore.location=/nope.jks", "sasl.enabled.mechanisms=GSSAPI")
    assert any("ssl.keystore.location=/nope.jks: without effect: no listener uses TLS" in line for line in told)
    assert any("sasl.enabled.mechanisms=GSSAPI: without effect: no listener uses SASL" in line for line in told)


def test_keys_of_a_listener_that_does_not_use_them(stores: Path) -> None:
    key = "listener.name.plaintext.ssl.keystore.location"
    told = tls(stores, f"{key}=/nope.jks", protocol="IN:SSL,PLAINTEXT:PLAINTEXT")
    assert not any("no listener uses TLS" in line for line in told)
    told = warned("listeners=PLAINTEXT://h:1", f"{key}=/nope.jks")
    assert any(f"{key}=/nope.jks: without effect: this listener does not use TLS" in line for line in told)
