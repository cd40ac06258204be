"""SCRAM with clients that we did not write: users are made by their tools and ours, log in, and are turned away."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.admin
import aiokafka.errors
import confluent_kafka
import confluent_kafka.admin
import pytest
import trio
from kafka import KafkaAdminClient

from bench.ports import free_port
from kraft_controller.runtime.admin.entity_configs import Entity, read_config
from replica.cli import main as command
from replica.runtime.authentication.sasl_authenticator import SaslSettings
from replica.runtime.configuration.broker_config import Listener
from tests.integration.brokers import Cluster, cluster, in_thread, until

confluent_admin: Any = confluent_kafka.admin
ANN = "SCRAM-SHA-512=[password=secret]"
BOTH = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def kafka_python(port: int, mechanism: str, name: str, password: str) -> int:
    client = KafkaAdminClient(
        bootstrap_servers=f"127.0.0.1:{port}", security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism,
        sasl_plain_username=name, sasl_plain_password=password,
    )  # fmt: skip
    try:
        return len(client.describe_cluster()["brokers"])
    finally:
        client.close()


def aio(port: int, mechanism: str, name: str, password: str) -> int:
    async def work() -> int:
        client = aiokafka.admin.AIOKafkaAdminClient(
            bootstrap_servers=f"127.0.0.1:{port}", security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism,
            sasl_plain_username=name, sasl_plain_password=password,
        )  # fmt: skip
        await client.start()
        try:
            return len((await client.describe_cluster())["brokers"])
        finally:
            await client.close()

    return asyncio.run(work())


def librdkafka(port: int, mechanism: str, name: str, password: str, within_s: float = 60) -> int:
    settings: dict[str, Any] = {
        "bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism,
        "sasl.username": name, "sasl.password": password,
    }  # fmt: skip
    return len(confluent_admin.AdminClient(settings).list_topics(timeout=within_s).brokers)


def alter(hosts: str, *changes: Any) -> dict[str, str | None]:
    """What was wrong with each user's."""
    client = confluent_admin.AdminClient({"bootstrap.servers": hosts})
    wrong: dict[str, str | None] = {}
    for name, future in client.alter_user_scram_credentials(list(changes)).items():
        error = future.exception(60)
        wrong[name] = None if error is None else error.args[0].name()
    return wrong


def put(name: str, mechanism: int, password: str, iterations: int = 4096) -> Any:
    kind = (
        confluent_admin.ScramMechanism.SCRAM_SHA_256
        if mechanism == 256
        else confluent_admin.ScramMechanism.SCRAM_SHA_512
    )
    info = confluent_admin.ScramCredentialInfo(kind, iterations)
    return confluent_admin.UserScramCredentialUpsertion(name, info, password.encode())


def described(hosts: str, *names: str) -> dict[str, list[tuple[str, int]]]:
    client = confluent_admin.AdminClient({"bootstrap.servers": hosts})
    asked: Any = client.describe_user_scram_credentials(list(names) or None)
    found = {name: future.result(60) for name, future in asked.items()} if names else asked.result(60)
    return {
        name: [(info.mechanism.name, info.iterations) for info in one.scram_credential_infos]
        for name, one in found.items()
    }


async def all_know(running: Cluster, count: int) -> None:
    await until(lambda: all(len(broker.parts.access.users._known) == count for broker in running.brokers.values()))


def test_users_come_and_go(tmp_path: Path) -> None:
    port = free_port()
    listener = Listener("OUT", "127.0.0.1", port, "SASL_PLAINTEXT", sasl=SaslSettings(BOTH))

    async def main() -> None:
        async with cluster(tmp_path, 1, (listener,)) as running:
            made = await in_thread(
                alter,
                running.hosts,
                put("ann", 256, "ann's, long=one"),
                put("ann", 512, "another"),
                put("b=o,b", 512, "b", 8192),
            )
            assert made == {"ann": None, "b=o,b": None}
            await all_know(running, 2)
            for client in (kafka_python, aio, librdkafka):
                assert await in_thread(client, port, "SCRAM-SHA-256", "ann", "ann's, long=one") == 1
                assert await in_thread(client, port, "SCRAM-SHA-512", "ann", "another") == 1
            assert await in_thread(librdkafka, port, "SCRAM-SHA-512", "b=o,b", "b") == 1
            login = ["--bootstrap", f"127.0.0.1:{port}", "--login", "SCRAM-SHA-512:ann:another"]
            assert await in_thread(command, ["groups", "list", *login]) == 0
            assert await in_thread(command, ["groups", "list", *login[:-1], "SCRAM-SHA-512:ann:wrong"]) == 1
            assert await in_thread(described, running.hosts) == {
                "ann": [("SCRAM_SHA_256", 4096), ("SCRAM_SHA_512", 4096)], "b=o,b": [("SCRAM_SHA_512", 8192)],
            }  # fmt: skip

            for mechanism, name, password in (
                ("SCRAM-SHA-256", "ann", "another"), ("SCRAM-SHA-512", "bob", "b"), ("SCRAM-SHA-512", "eve", "b"),
            ):  # fmt: skip
                with pytest.raises(aiokafka.errors.KafkaError):
                    await in_thread(aio, port, mechanism, name, password)
            with pytest.raises(confluent_kafka.KafkaException):
                await in_thread(librdkafka, port, "SCRAM-SHA-512", "eve", "b", 1)

            gone = confluent_admin.UserScramCredentialDeletion("ann", confluent_admin.ScramMechanism.SCRAM_SHA_256)
            assert await in_thread(alter, running.hosts, gone, put("eve", 512, "e", 100)) == {
                "ann": None, "eve": "UNACCEPTABLE_CREDENTIAL",
            }  # fmt: skip
            assert await in_thread(alter, running.hosts, gone) == {"ann": "RESOURCE_NOT_FOUND"}
            await until(lambda: len(running.brokers[1].parts.access.users._known["ann"]) == 1)
            with pytest.raises(aiokafka.errors.KafkaError):
                await in_thread(aio, port, "SCRAM-SHA-256", "ann", "ann's, long=one")

    trio.run(main)


def test_users_made_by_the_commands_of_operators(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    listener = Listener("OUT", "127.0.0.1", port, "SASL_PLAINTEXT", sasl=SaslSettings(BOTH))

    async def main() -> None:
        async with cluster(tmp_path, 1, (listener,)) as running:
            here = ["--store", f"127.0.0.1:{running.store.client_port}"]
            words = ["--alter", "--entity-type", "users", "--entity-name", "ann", "--add-config", ANN]
            assert await in_thread(command, ["configs", *words, *here]) == 0
            other = ["alter", "users", "bob", "--set", "SCRAM-SHA-256=[iterations=8192,password=b]"]
            assert await in_thread(command, ["configs", *other, *here]) == 0
            assert "users/bob: SCRAM-SHA-256=iterations=8192" in capsys.readouterr().out
            assert await in_thread(command, ["configs", "alter", "users", "c", "--set", "SCRAM-SHA-256=c", *here]) == 1
            assert "not a credential" in capsys.readouterr().err
            async with running.store.session() as session:
                kept = await read_config(session, Entity.of("users", "ann"))
            assert list(kept) == ["SCRAM-SHA-512"]
            assert "secret" not in kept["SCRAM-SHA-512"]
            await all_know(running, 2)
            assert await in_thread(kafka_python, port, "SCRAM-SHA-512", "ann", "secret") == 1
            assert await in_thread(kafka_python, port, "SCRAM-SHA-256", "bob", "b") == 1

    trio.run(main)
