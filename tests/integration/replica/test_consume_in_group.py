"""`zab-broker consume --group`: members share a topic, go on where the group is, and leave in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import confluent_kafka
import pytest
import trio

from replica.cli import main
from replica.cli.consume_command import GroupReader
from replica.cli.group_member import GroupMember
from replica.core.groups.group_states import GroupState
from replica.runtime.network.broker_client import connect
from tests import forkserver
from tests.integration.brokers import Cluster, cluster, in_thread, until
from tests.integration.kafka_clients import Confluent, Pairs

pytestmark = pytest.mark.slow


def command(brokers: Cluster, *more: str) -> list[str]:
    return ["-m", "replica.cli", "consume", "t", "--group", "g", *more, "--bootstrap", brokers.hosts]


async def printed(brokers: Cluster, *more: str) -> list[str]:
    done = await forkserver.run_in_thread(command(brokers, *more), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


async def write(brokers: Cluster, *values: str) -> None:
    pairs: Pairs = [(value.encode(), value.encode()) for value in values]
    await in_thread(Confluent().write, brokers.hosts, "t", pairs)


def members_of(brokers: Cluster) -> int:
    """In a group that is settled; -1: it is not."""
    for broker in brokers.brokers.values():
        for group in broker.parts.group_coordinator.coordinator.groups:
            if group.id == "g" and group.state in (GroupState.STABLE, GroupState.EMPTY):
                return len(group.members)
    return -1


def values(prefix: str, count: int) -> list[str]:
    return sorted(f"{prefix}{number}" for number in range(count))


async def test_a_group_goes_on_where_it_was(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, partitions=3) as brokers:
        await write(brokers, *values("a", 30))
        assert await printed(brokers, "--until-end") == []  # nothing was committed, and it begins at the end
        assert members_of(brokers) == 0, "it has not left"
        await write(brokers, *values("b", 30))
        first = await printed(brokers, "--count", "7")
        rest = await printed(brokers, "--until-end")
        assert sorted(first + rest) == values("b", 30)
        assert await printed(brokers, "--until-end", "--from-beginning") == []


async def test_it_commits_and_leaves_on_an_interrupt(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, partitions=3) as brokers:
        await write(brokers, *values("a", 10))
        process = await trio.lowlevel.open_process(
            [sys.executable, *command(brokers, "--from-beginning")], stdout=subprocess.PIPE, env=dict(os.environ)
        )
        said = b""
        assert process.stdout is not None
        while said.count(b"\n") < 10:
            said += await process.stdout.receive_some()
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0
        assert members_of(brokers) == 0, "it has not left"
        await write(brokers, "new")
        assert await printed(brokers, "--until-end", "--from-beginning") == ["new"]


async def test_members_take_over_partitions_of_a_leaving_member(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replica.cli.consume_command.HEARTBEAT_S", 0.1)
    arguments = SimpleNamespace(
        count=None, until_end=False, isolation="read_uncommitted", from_beginning=True, offset=None, since=None,
        keys=False, json=False,
    )  # fmt: skip
    async with cluster(tmp_path, 3, partitions=4) as brokers, trio.open_nursery() as nursery:
        await write(brokers, *values("a", 40))
        bootstrap = [("127.0.0.1", port) for port in brokers.ports.values()]
        readers: list[GroupReader] = []

        def held() -> list[list[int]]:
            return sorted([each.where.partition for each in reader.positions or ()] for reader in readers)

        async def member() -> None:
            async with connect(bootstrap) as client:
                reader = GroupReader(client, arguments, GroupMember(client, "g", "t"))
                readers.append(reader)
                await reader.run()

        out: list[str] = []

        def shown(count: int) -> bool:
            out.extend(capsys.readouterr().out.splitlines())
            return len(out) >= count

        nursery.start_soon(member)
        await until(lambda: held() == [[0, 1, 2, 3]])
        nursery.start_soon(member)
        await until(lambda: held() == [[0, 1], [2, 3]])
        await until(partial(shown, 40))
        await write(brokers, *values("b", 40))
        await until(partial(shown, 80))
        readers.pop(0).stop()
        await until(lambda: held() == [[0, 1, 2, 3]])
        await write(brokers, *values("c", 40))
        await until(partial(shown, 120))
        assert sorted(out) == sorted(values("a", 40) + values("b", 40) + values("c", 40))
        # One that the coordinator has removed joins again, with another id. What it had not committed comes twice.
        before = readers[0]._member.member_id
        async with connect(bootstrap) as client:
            removed = GroupMember(client, "g", "t")
            removed.member_id = before
            await removed.leave()
        await until(lambda: readers[0]._member.member_id not in (before, ""))
        await until(lambda: held() == [[0, 1, 2, 3]])
        readers[0].stop()


async def test_it_shares_a_group_with_another_client(tmp_path: Path) -> None:
    """One of the two leads the group and assigns the partitions, the other one takes what it is given."""

    def read(hosts: str, found: list[str], stop: list[bool]) -> None:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": hosts, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["t"])
        while not stop:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found.append(bytes(message.value() or b"").decode())
        consumer.close()

    async with cluster(tmp_path, 1, partitions=4) as brokers, trio.open_nursery() as nursery:
        await write(brokers, *values("a", 8))
        for other_first in (True, False):
            found: list[str] = []
            stop: list[bool] = []
            if other_first:
                nursery.start_soon(in_thread, read, brokers.hosts, found, stop)
                await until(lambda: members_of(brokers) == 1)
            process = await trio.lowlevel.open_process(
                [sys.executable, *command(brokers, "--from-beginning")], stdout=subprocess.PIPE, env=dict(os.environ)
            )
            if not other_first:
                await until(lambda: members_of(brokers) == 1)
                nursery.start_soon(in_thread, read, brokers.hosts, found, stop)
            await until(lambda: members_of(brokers) == 2)
            wanted = values("first" if other_first else "second", 40)
            await write(brokers, *wanted)
            said = b""
            assert process.stdout is not None
            while not set(wanted) <= {*found, *said.decode().splitlines()}:
                with trio.move_on_after(0.1):
                    said += await process.stdout.receive_some()
            assert set(found) & set(wanted)
            assert set(said.decode().splitlines()) & set(wanted)
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
            stop.append(True)
            await until(lambda: members_of(brokers) == 0)


def test_group_and_partition_options_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consume", "t", "--group", "g", "--partition", "1", "--bootstrap", "127.0.0.1:1"]) == 2
    assert "the group determines partitions and offsets" in capsys.readouterr().err
