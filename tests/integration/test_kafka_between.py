"""Brokers among themselves over TLS and with a login: three of them, as their files say, with real certificates."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from attrs import define, field

import zab
from bench.ports import free_port
from kraft_controller.core.commands import Numbered, UpdateMetadata
from kraft_controller.core.configuration.scram import Mechanism, of_password
from kraft_controller.core.names import BrokerEpoch, BrokerId, ControllerEpoch
from kraft_controller.core.state import Endpoint
from kraft_controller.runtime.admin.entity_configs import Entity, alter_config
from kraft_controller.runtime.frames import Frames
from kraft_controller.wire.command_frames import FrameError, encode
from replica.cli.properties.plan import plan_of
from replica.core.security.acls import Entry, Operation, Pattern, Permission, ResourceType
from replica.runtime.authentication.sasl_client import Identity
from replica.runtime.authorization.authorizer import write_acls
from replica.runtime.broker import Broker
from replica.runtime.configuration.broker_config import CONTROLLER, Peers
from replica.runtime.network.broker_client import connect
from replica.runtime.network.broker_connection import ClientSettings, Unreachable
from replica.runtime.network.inter_broker_clients import InterBrokerClients
from replica.runtime.requests import ApiKey
from tests.integration.brokers import PATIENCE_S, until
from tests.integration.certificates import Authority, needs_keytool
from tests.kafka_bodies import ask
from zab.net.tls.key_stores import StoreFile

AUTHORIZER = "authorizer.class.name=kafka.security.authorizer.AclAuthorizer"


@define(eq=False)
class Site:
    path: Path
    store: zab.StoreServer
    nursery: trio.Nursery
    lines: list[str]
    brokers: dict[int, Broker] = field(factory=dict)
    ports: dict[int, int] = field(factory=dict)
    scopes: dict[int, trio.CancelScope] = field(factory=dict)

    async def start(self, number: int, *lines: str) -> None:
        self.begin(number, *lines)
        await self.brokers[number].started.wait()

    def begin(self, number: int, *lines: str) -> None:
        port = self.ports.setdefault(number, free_port())
        usual = [
            f"broker.id={number}", f"log.dirs={self.path / f'broker{number}'}", "zookeeper.connect=unused:1",
            f"listeners=IN://127.0.0.1:{port}", "inter.broker.listener.name=IN", "offsets.topic.num.partitions=1",
            "default.replication.factor=3", "min.insync.replicas=2", "group.initial.rebalance.delay.ms=0",
            *self.lines, *lines,
        ]  # fmt: skip
        plan = plan_of("server.properties", "\n".join(usual))
        self.brokers[number] = Broker(plan.config, self.store.session)
        self.scopes[number] = trio.CancelScope()
        self.nursery.start_soon(self._run, number)

    async def _run(self, number: int) -> None:
        with self.scopes[number]:
            await self.brokers[number].run()


@asynccontextmanager
async def site(path: Path, *lines: str) -> AsyncIterator[Site]:
    with trio.fail_after(PATIENCE_S):
        async with zab.open_store(path / "store", client_port=0) as store, trio.open_nursery() as nursery:
            yield Site(path, store, nursery, list(lines))
            nursery.cancel_scope.cancel()


async def replicated(here: Site, tls: ssl.SSLContext | None, identity: Identity | None) -> None:
    """A topic of three replicas, all of which are in sync: commands came, and everybody fetched."""
    addresses = [("127.0.0.1", port) for port in here.ports.values()]
    async with connect(addresses, tls=tls, identity=identity) as client:
        new = {"name": "t", "num_partitions": 3, "replication_factor": 3}
        made = await ask(client, ApiKey.CREATE_TOPICS, {"topics": [new], "timeout_ms": 60_000})
        assert made["topics"][0]["error_code"] == 0, made
        await until(lambda: all("t" in broker.parts.metadata_cache.topics for broker in here.brokers.values()))
        described = await client.metadata(["t"])
        assert [len(part.isr_nodes) for part in described.topics[0].partitions] == [3, 3, 3]
        # A group makes its topic, whose replicas only count when they have fetched.
        await client.patiently(lambda: client.coordinator("g"))
    for broker in here.brokers.values():
        await until(partial(_has_offsets, broker))


def _has_offsets(broker: Broker) -> bool:
    return "__consumer_offsets" in broker.parts.metadata_cache.topics


def keys(store: StoreFile, trust: StoreFile, auth: str = "required") -> list[str]:
    lines = [f"ssl.keystore.location={store.path}", f"ssl.truststore.location={trust.path}", f"ssl.client.auth={auth}"]
    lines += [f"ssl.keystore.password={store.password}"] if store.password else []
    return lines + ([f"ssl.truststore.password={trust.password}"] if trust.password else [])


def client_tls(authority: Authority, own: StoreFile | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.path)
    if own is not None:
        own.load_key(context)
    return context


@pytest.mark.parametrize("kind", ["PEM", "PKCS12", pytest.param("JKS", marks=needs_keytool)])
async def test_both_ends_show_certificates(tmp_path: Path, kind: str) -> None:
    authority = Authority(tmp_path)
    own, trust = authority.issue("broker"), authority.trust
    pem = own
    if kind != "PEM":
        own = authority.as_pkcs12(own) if kind == "PKCS12" else authority.as_jks(own)
        trust = authority.trust_as("JKS") if kind == "JKS" else trust
    lines = [
        "listener.security.protocol.map=IN:SSL",
        "ssl.principal.mapping.rules=RULE:^CN=(.*?),.*$/$1/",
        AUTHORIZER,
        "super.users=User:broker",
    ]
    async with site(tmp_path, *keys(own, trust), *lines) as here:
        for number in (1, 2, 3):
            await here.start(number)
        await replicated(here, client_tls(authority, pem), None)

        # Who has no certificate is not heard, and who has one that is nobody's may do nothing.
        port = here.brokers[1].ports[CONTROLLER]
        assert not await heard(port, Peers(client_tls(authority)))
        assert not await heard(port, Peers(None))
        assert not await heard(port, Peers(client_tls(authority, authority.issue("eve"))))
        assert await heard(port, Peers(client_tls(authority, pem)))


async def heard(port: int, peers: Peers) -> bool:
    """A command of an earlier life is answered, if only with a refusal, where commands are listened to."""
    command = UpdateMetadata(BrokerId(9), ControllerEpoch(0), BrokerEpoch(0), (), ())
    with trio.fail_after(120):
        try:
            frames = Frames(await InterBrokerClients(peers).stream(Endpoint(CONTROLLER, "127.0.0.1", port)))
        except (OSError, trio.BrokenResourceError):
            return False
        try:
            await frames.send(encode(Numbered(1, command)))
            return await frames.receive() is not None
        except (OSError, FrameError, trio.BrokenResourceError):
            return False
        finally:
            await frames.aclose()


async def test_a_certificate_has_to_name_the_host_that_is_dialled(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    elsewhere = authority.issue("elsewhere", "elsewhere.example")
    rules = "listener.security.protocol.map=IN:SSL"
    async with site(tmp_path, rules, *keys(elsewhere, authority.trust)) as here:
        here.begin(1)
        await until(lambda: here.brokers[1].parts.membership.is_controller)
        links = here.brokers[1].parts.membership.connections
        assert links is not None
        await until(lambda: any(queue.resent >= 3 for queue in links.queues() if queue.broker.id == 1))
        assert not here.brokers[1].started.is_set()  # it cannot even speak to itself
        here.scopes[1].cancel()
        await here.start(2, "ssl.endpoint.identification.algorithm=")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
async def test_brokers_log_in_at_each_other(tmp_path: Path, mechanism: str) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("broker")
    module, own_login = "x.LoginModule required", 'username=kafka password="its password"'
    users = 'user_kafka="its password" user_ann="hers"' if mechanism == "PLAIN" else ""
    lines = [
        "listener.security.protocol.map=IN:SASL_SSL",
        f"sasl.enabled.mechanisms={mechanism}",
        f"sasl.mechanism.inter.broker.protocol={mechanism}",
        f"listener.name.in.{mechanism.lower()}.sasl.jaas.config={module} {own_login} {users};",
        *keys(own, authority.trust, "none"),
        AUTHORIZER,
        "super.users=User:root",
    ]  # fmt: skip
    async with site(tmp_path, *lines) as here:
        async with here.store.session() as session:
            for name, password in (("kafka", "its password"), ("ann", "hers")) if mechanism != "PLAIN" else ():
                kept = of_password(Mechanism(mechanism), password, b"salt")
                await alter_config(session, Entity.of("users", name), {mechanism: kept.text})
            cluster = Pattern(ResourceType.CLUSTER, "kafka-cluster")
            may = {
                Entry("User:kafka", "*", each, Permission.ALLOW)
                for each in (Operation.CLUSTER_ACTION, Operation.CREATE)
            }
            await write_acls(session, cluster, lambda before: before | may)
            topics = Pattern(ResourceType.TOPIC, "*")
            sees = {Entry("User:kafka", "*", Operation.DESCRIBE, Permission.ALLOW)}
            await write_acls(session, topics, lambda before: before | sees)
            groups = Pattern(ResourceType.GROUP, "g")
            await write_acls(session, groups, lambda before: before | sees)
        for number in (1, 2, 3):
            await here.start(number)
        tls, kafka = client_tls(authority), Identity(mechanism, "kafka", "its password")
        await replicated(here, tls, kafka)

        port = here.brokers[1].ports[CONTROLLER]
        assert await heard(port, Peers(tls, kafka))
        assert not await heard(port, Peers(tls, Identity(mechanism, "kafka", "another")))
        assert not await heard(port, Peers(tls, Identity(mechanism, "ann", "hers")))  # she is known, and no broker
        assert not await heard(port, Peers(tls))
        async with connect([("127.0.0.1", here.ports[1])], ClientSettings(request_s=5), tls) as client:
            with pytest.raises(Unreachable):
                await client.metadata([])
