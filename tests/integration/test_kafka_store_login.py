"""A broker at a store that wants to know who comes: over TLS with a certificate, or with a name and a password."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import ANY

import pytest
import trio
from attrs import evolve

import zab
from bench.ports import free_port
from replica.cli.properties.plan import plan_of
from replica.runtime.broker import Broker
from tests.integration.brokers import PATIENCE_S, in_thread
from tests.integration.certificates import Authority
from tests.integration.kraft_controller.site import Said, command
from tests.integration.stores import PORTS
from zab.config.config_source import BadConfig
from zab.net.tls.tls_settings import TlsPortSettings
from zab.runtime.store_server.security_settings import SecuritySettings


def lines(path: Path, port: int, *more: str) -> str:
    return "\n".join(
        ["broker.id=1", f"log.dirs={path / 'logs'}", f"zookeeper.connect=127.0.0.1:{port}/app",
         f"listeners=PLAINTEXT://127.0.0.1:{free_port()}", "zookeeper.set.acl=true", *more]
    )  # fmt: skip


async def acls(text: str, store: zab.StoreServer, login: str | None = None) -> dict[str, set[tuple[int, str]]]:
    """A broker starts as its file says; then who may do what with its nodes."""
    found = {}
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            broker = Broker(plan_of("server.properties", text).config)
            await nursery.start(broker.run)
            own = broker.parts.membership.session()
            assert own is not None
            for node in NODES:
                acl, _ = await own.acl(f"/{node}")
                found[node] = {(permissions, scheme) for permissions, scheme, _ in acl}
            if login is not None:
                at = f"127.0.0.1:{store.client_port}/app"
                words = ["alter", "users", "ann", "--set", "SCRAM-SHA-256=[password=a]", "--login", login, "--set-acl"]
                assert await in_thread(command, "configs", *words, "--store", at) == Said(0, ANY, "")
                assert {each[0::2] for each in (await own.acl("/config/users/ann"))[0]} == {(31, "kafka")}
            async with store.session() as stranger:
                assert (await stranger.get("/app/cluster/id"))[0]
                for path in ("/app/config/users", "/app/cluster/sasl_secret"):
                    with pytest.raises(zab.NoAuth):
                        await stranger.get(path)
                with pytest.raises(zab.NoAuth):
                    await stranger.set("/app/cluster/id", b"")
                with pytest.raises(zab.NoAuth):
                    await stranger.create("/app/config/topics/t")
            nursery.cancel_scope.cancel()
    return found


NODES = ("brokers/ids/1", "config/topics", "config/users", "cluster/id", "cluster/sasl_secret", "controller")


def wanted(scheme: str) -> dict[str, set[tuple[int, str]]]:
    seen, hidden = {(31, scheme), (1, "world")}, {(31, scheme)}
    return {
        "brokers/ids/1": seen, "config/topics": seen, "config/users": hidden, "cluster/id": seen,
        "cluster/sasl_secret": hidden, "controller": seen,
    }  # fmt: skip


async def test_over_tls_with_a_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = TlsPortSettings(authority.issue("server"), authority.trust)
    own = authority.as_pkcs12(authority.issue("broker"))
    client_ports = evolve(PORTS, tls=tls, security=SecuritySettings(required=frozenset({"x509"})))
    async with zab.open_store(
        tmp_path / "store", client_port=0, secure_client_port=0, client_ports=client_ports
    ) as store:
        assert store.secure_client_port is not None
        text = lines(
            tmp_path, store.secure_client_port, "zookeeper.ssl.client.enable=true",
            "zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty",
            f"zookeeper.ssl.keystore.location={own.path}", f"zookeeper.ssl.keystore.password={own.password}",
            f"zookeeper.ssl.truststore.location={authority.path}",
        )  # fmt: skip
        assert await acls(text, store) == wanted("x509")


async def test_with_a_name_and_a_password(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    module = "org.apache.zookeeper.server.auth.DigestLoginModule required"
    file.write_text(f'Client {{ {module} username="kafka" password="its own"; }};')
    security = SecuritySettings(sasl_users={"kafka": "its own"}, required=frozenset({"sasl"}))
    client_ports = evolve(PORTS, security=security)
    async with zab.open_store(tmp_path / "store", client_port=0, client_ports=client_ports) as store:
        assert store.client_port is not None
        text = lines(tmp_path, store.client_port, f"java.security.auth.login.config={file}")
        assert await acls(text, store, "kafka:its own") == wanted("sasl")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ([], "this requires credentials for the store"),
        (["zookeeper.ssl.client.enable=true"], "this requires credentials for the store"),
        (["java.security.auth.login.config=/nowhere"], "No such file"),
        (
            ["zookeeper.ssl.client.enable=true", "zookeeper.ssl.ocsp.enable=true"],
            "revocation of certificates is not checked",
        ),
        (["zookeeper.ssl.client.enable=true", "zookeeper.ssl.keystore.location=/nowhere"], "No such file"),
        (["zookeeper.ssl.context.supplier.class=x.Mine"], "would not be safe"),
    ],
)
def test_broker_does_not_start_with_an_unprotected_store(tmp_path: Path, more: list[str], why: str) -> None:
    with pytest.raises(BadConfig, match=why):
        plan_of("server.properties", lines(tmp_path, 2181, *more))
