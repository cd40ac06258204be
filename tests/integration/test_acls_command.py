"""`zab-broker acls`, and Kafka's own tools at our store: what one writes the other reads, and brokers heed it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import trio

import zab
from replica.core.security.acl_authorization import AclSettings
from replica.core.security.acls import Operation, Pattern, PatternType, ResourceType
from replica.runtime.requests import ApiKey, Request
from tests.integration.brokers import Cluster, cluster, in_thread, until
from tests.integration.kraft_controller.site import Said, command
from tests.integration.peers import kafka_java, needs_kafka

TOPIC = ResourceType.TOPIC
PREFIXED = ("--resource-pattern-type", "prefixed")
SECRET = "SCRAM-SHA-256=[password=secret]"


class Desk:
    def __init__(self, running: Cluster) -> None:
        self.running = running
        self.store = f"127.0.0.1:{running.store.client_port}"

    async def acls(self, words: str) -> Said:
        return await in_thread(command, "acls", *words.split(), "--store", self.store)

    async def listed(self, words: str = "") -> list[tuple[str, str, str, str]]:
        said = await self.acls(f"--list --json {words}")
        assert said.code == 0, said
        return [(one["resource"], one["name"], one["principal"], one["operation"]) for one in said.json]

    def may(self, user: str, operation: Operation, name: str, kind: ResourceType = TOPIC) -> bool:
        authorizer = self.running.brokers[1].parts.access.authorizer
        assert authorizer is not None
        request: Request[Any] = Request(ApiKey.METADATA, 0, 0, None, {}, principal=f"User:{user}", host="10.0.0.1")
        return authorizer.allows(request, operation, kind, name, quiet=True)


async def test_acls_are_added_and_listed_and_removed_and_brokers_heed_them(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, acls=AclSettings(frozenset({"User:ANONYMOUS"}))) as running:
        desk = Desk(running)
        said = await desk.acls("--add --allow-principal User:ann --producer --topic t --idempotent")
        assert said.code == 0, said
        await until(lambda: desk.may("ann", Operation.IDEMPOTENT_WRITE, "kafka-cluster", ResourceType.CLUSTER))
        assert desk.may("ann", Operation.WRITE, "t")
        assert not desk.may("ann", Operation.READ, "t")

        words = "--add --allow-principal User:bob --consumer --topic t --group g- --resource-pattern-type prefixed"
        assert (await desk.acls(words)).code == 0
        assert (await desk.acls("--add --deny-principal User:bob --deny-host 10.0.0.1 --topic t-secret")).code == 0
        await until(lambda: desk.may("bob", Operation.READ, "t-1") and not desk.may("bob", Operation.READ, "t-secret"))
        assert desk.may("bob", Operation.READ, "g-1", ResourceType.GROUP)

        assert await desk.listed("--topic t-secret --resource-pattern-type match --principal User:bob") == [
            ("Topic", "t-secret", "User:bob", "All"), ("Topic", "t", "User:bob", "Read"),
            ("Topic", "t", "User:bob", "Describe"),
        ]  # fmt: skip
        assert len(await desk.listed()) == 8

        gone = "--remove --force --allow-principal User:ann --operation Write --topic t"
        assert (await desk.acls(gone)).code == 0
        await until(lambda: not desk.may("ann", Operation.WRITE, "t"))
        assert (await desk.acls(gone)).code == 1
        assert (await desk.acls("--remove --force --group g- --resource-pattern-type any")).code == 0
        await until(lambda: not desk.may("bob", Operation.READ, "g-1", ResourceType.GROUP))
        assert len(await desk.listed()) == 6

        async with running.store.session() as session:
            await session.set("/kafka-acl/Topic/t", b"{")
            await session.create("/kafka-acl-changes/acl_changes_", b"TOPIC:t", sequential=True)
        await until(lambda: not desk.may("ann", Operation.CREATE, "t"))
        said = await desk.acls("--list")
        assert (said.code, "until this node is repaired" in said.err) == (1, True)


async def test_returning_broker_reads_all_acls(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, acls=AclSettings(frozenset({"User:ANONYMOUS"}))) as running:
        desk = Desk(running)
        authorizer, broker = running.brokers[1].parts.access.authorizer, running.brokers[1]
        assert authorizer is not None
        assert broker.parts.membership.registration is not None
        assert broker.parts.membership.registration.session is not None
        before = broker.parts.membership.registration.session
        running.store._server.clients.sessions.close(before.id)
        await until(
            lambda: (
                broker.parts.membership.registration is not None
                and broker.parts.membership.registration.session is not before
            )
        )
        assert (await desk.acls("--add --allow-principal User:ann --operation Read --topic t")).code == 0
        await until(lambda: desk.may("ann", Operation.READ, "t"))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--add --topic t", "missing principal"),
        ("--add --allow-principal User:a", "missing resource"),
        ("--add --allow-principal ann --topic t", "use the form User:ann"),
        ("--add --allow-principal User:a --operation ClusterAction --topic t", "does not apply to Topic"),
        ("--add --allow-principal User:a --operation Dance --topic t", "Dance: expected one of All, Read"),
        ("--add --allow-principal User:a --topic t --resource-pattern-type match", "LITERAL or PREFIXED"),
        ("--add --allow-principal User:a --consumer --topic t", "--consumer a --topic and a --group"),
        ("--add --allow-principal User:a --producer --operation Read --topic t", "exclude"),
        ("--add --allow-principal User:a --idempotent --topic t", "--idempotent requires --producer"),
        ("--remove --force", "missing resource"),
        ("--list --add", "--add and --list exclude each other"),
        ("--list --principal ann", "use the form User:ann"),
        ("--list --authorizer-properties h:1", "expected zookeeper.connect="),
    ],
)
async def test_invalid_input_is_reported(words: str, why: str, tmp_path: Path) -> None:
    async with zab.open_store(tmp_path, client_port=0) as store:
        said = await in_thread(command, "acls", *words.split(), "--store", f"127.0.0.1:{store.client_port}")
    assert said.code == 2, said
    assert why in said.err


def java(main: str, *words: str) -> str:
    done = subprocess.run([*kafka_java(), main, *words], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_kafka
async def test_kafkas_own_tools_write_and_read_the_same(tmp_path: Path) -> None:
    with trio.fail_after(480):
        async with cluster(tmp_path, 1, acls=AclSettings(frozenset({"User:ANONYMOUS"}))) as running:
            desk = Desk(running)
            at_store = ("--authorizer-properties", f"zookeeper.connect={desk.store}")
            ann = ["--allow-principal", "User:ann", "--operation", "Read", "--topic", "t", *PREFIXED]
            await in_thread(java, "kafka.admin.AclCommand", *at_store, "--add", *ann)
            await until(lambda: desk.may("ann", Operation.READ, "t-1"))
            assert (await desk.acls("--add --deny-principal User:eve --operation Write --topic t --group g")).code == 2
            assert (await desk.acls("--add --deny-principal User:eve --operation Write --topic t")).code == 0
            assert (await desk.acls(f"--add --allow-principal User:bob --topic t {' '.join(PREFIXED)}")).code == 0
            said = await in_thread(java, "kafka.admin.AclCommand", *at_store, "--list")
            assert "(principal=User:eve, host=*, operation=WRITE, permissionType=DENY)" in said
            assert "(principal=User:ann, host=*, operation=READ, permissionType=ALLOW)" in said
            assert "(principal=User:bob, host=*, operation=ALL, permissionType=ALLOW)" in said
            # Over the wire, too.
            at_broker = ("--bootstrap-server", running.hosts)
            await in_thread(java, "kafka.admin.AclCommand", *at_broker, "--remove", "--force", *ann)
            await until(lambda: not desk.may("ann", Operation.READ, "t-1"))
            authorizer = running.brokers[1].parts.access.authorizer
            assert authorizer is not None
            prefixed = Pattern(TOPIC, "t", PatternType.PREFIXED)
            left = [acl.entry.principal for acl in authorizer.acls if acl.pattern == prefixed]
            assert left == ["User:bob"]

            words = ["--alter", "--entity-type", "users", "--entity-name", "ann", "--add-config", SECRET]
            await in_thread(java, "kafka.admin.ConfigCommand", "--zookeeper", desk.store, *words)
            await until(lambda: "ann" in running.brokers[1].parts.access.users._known)
            told = await desk_configs(desk)
            assert json.loads(told.out)[0]["value"] == "iterations=4096"


async def desk_configs(desk: Desk) -> Said:
    return await in_thread(command, "configs", "describe", "users", "ann", "--json", "--store", desk.store)
