"""Listeners with TLS, and SASL PLAIN over it or without."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
import trio
import trustme
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from bench.ports import free_port
from replica.runtime.authentication.sasl_authenticator import SaslSettings
from replica.runtime.configuration.broker_config import PLAINTEXT, Listener
from tests.integration.brokers import cluster, in_thread

USERS = {"alice": "her password"}
SASL = SaslSettings(users=USERS)


def test_listeners_admit_only_clients_with_valid_credentials(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    ports = {name: free_port() for name in ("SSL", "SASL_PLAINTEXT", "SASL_SSL")}
    more = (
        Listener("SSL", "127.0.0.1", ports["SSL"], "SSL", tls=tls),
        Listener("SASL_PLAINTEXT", "127.0.0.1", ports["SASL_PLAINTEXT"], "SASL_PLAINTEXT", sasl=SASL),
        Listener("SASL_SSL", "127.0.0.1", ports["SASL_SSL"], "SASL_SSL", tls=tls, sasl=SASL),
    )

    def librdkafka(protocol: str, password: str) -> Any:
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": f"127.0.0.1:{ports[protocol]}",
            "security.protocol": protocol,
            "ssl.ca.location": str(tmp_path / "ca.pem"),
        }
        if protocol.startswith("SASL"):
            settings |= {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": password}
        return AdminClient(settings).list_topics(timeout=120 if password == USERS["alice"] else 2)

    def kafka_python(protocol: str, password: str) -> Any:
        settings: dict[str, Any] = {"security_protocol": protocol, "ssl_cafile": str(tmp_path / "ca.pem")}
        if protocol.startswith("SASL"):
            settings |= {
                "sasl_mechanism": "PLAIN", "sasl_plain_username": "alice", "sasl_plain_password": password,
            }  # fmt: skip
        admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{ports[protocol]}", **settings)
        try:
            return admin.describe_cluster()
        finally:
            admin.close()

    async def main() -> None:
        async with cluster(tmp_path, 1, more=more) as running:
            for protocol in ports:
                found = await in_thread(librdkafka, protocol, USERS["alice"])
                assert [each.port for each in found.brokers.values()] == [ports[protocol]]
                described = await in_thread(kafka_python, protocol, USERS["alice"])
                assert [each["port"] for each in described["brokers"]] == [ports[protocol]]
            with pytest.raises(confluent_kafka.KafkaException):
                await in_thread(librdkafka, "SASL_PLAINTEXT", "another's")
            assert running.brokers[1].config.listeners[0].name == PLAINTEXT

    trio.run(main)
