"""`zab-broker produce` and `consume`, as processes, at brokers in this one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kraft_controller.core.names import wrong_with_name
from replica.cli import main
from tests import forkserver
from tests.integration.brokers import Cluster, cluster

pytestmark = pytest.mark.slow


async def run(brokers: Cluster, *arguments: str, given: bytes = b"") -> bytes:
    command = ["-m", "replica.cli", *arguments, "--bootstrap", brokers.hosts]
    done = await forkserver.run_in_thread(command, given=given, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    out: bytes = done.stdout
    return out


def read(out: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.decode().splitlines()]


async def test_lines_become_records_and_records_lines(tmp_path: Path) -> None:
    async with cluster(tmp_path, 3, partitions=3) as brokers:
        lines = [f"{number % 7}:value {number}" for number in range(50)]
        await run(brokers, "produce", "t", "--key-separator", ":", "--codec", "gzip", given="\n".join(lines).encode())
        found = read(await run(brokers, "consume", "t", "--from-beginning", "--until-end", "--json"))
        assert sorted(f"{each['key']}:{each['value']}" for each in found) == sorted(lines)
        for key in range(7):
            theirs = [each for each in found if each["key"] == str(key)]
            assert len({each["partition"] for each in theirs}) == 1
            numbers = [int(each["value"].split()[1]) for each in theirs]
            assert numbers == sorted(numbers)
        partition = found[0]["partition"]
        some = await run(
            brokers, "consume", "t", "--partition", str(partition), "--offset", "1", "--count", "2", "--keys"
        )
        held = [each for each in found if each["partition"] == partition]
        assert some.decode().splitlines() == [f"{each['key']}\t{each['value']}" for each in held[1:3]]


async def test_missing_objects_are_reported_at_once(tmp_path: Path) -> None:
    """Though both commands are patient with what may pass."""
    async with cluster(tmp_path, 1, partitions=3, auto_create=False) as brokers:
        await brokers.brokers[1].parts.topics.make_if_missing("orders")
        await brokers.all_know_all()
        for arguments, why in (
            (["consume", "orders", "--partition", "9"], "topic orders has partitions 0 to 2, but no partition 9"),
            (["consume", "order"], "there is no topic order; did you mean orders?"),
            (["produce", "orders", "--partition", "3"], "topic orders has partitions 0 to 2, but no partition 3"),
            (["produce", "order"], "did you mean orders?, and none was created on demand"),
        ):
            command = ["-m", "replica.cli", *arguments, "--bootstrap", brokers.hosts, "--within", "600"]
            done = await forkserver.run_in_thread(command, given=b"x", capture_output=True)
            assert (done.returncode, why in done.stderr.decode()) == (1, True), done.stderr.decode()


async def test_illegal_topic_name_is_reported_with_the_rule(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        for verb in ("produce", "consume"):
            command = ["-m", "replica.cli", verb, "a b", "--bootstrap", brokers.hosts]
            done = await forkserver.run_in_thread(command, given=b"x", capture_output=True)
            told = done.stderr.decode()
            assert (done.returncode, str(wrong_with_name("a b")) in told) == (1, True), told


async def test_offset_after_the_end_is_reported(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        await run(brokers, "produce", "t", given=b"one\ntwo\n")
        for offset, told in (
            (99_999_999, "t-0 ends at offset 2: it has no records from offset 99999999 on\n"),
            (2, ""),
        ):
            command = ["-m", "replica.cli", "consume", "t", "--until-end", "--bootstrap", brokers.hosts]
            done = await forkserver.run_in_thread(
                [*command, "--partition", "0", "--offset", str(offset)], capture_output=True, check=True
            )
            assert (done.stdout, done.stderr.decode()) == (b"", told)


async def test_written_records_are_reported_as_json(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as brokers:
        told = json.loads(await run(brokers, "produce", "t", "--json", given=b"one\ntwo\n"))
        assert told == {"topic": "t", "records": 2, "partitions": {"0": 2}}


async def test_failed_run_reports_the_written_records_and_the_line_where_it_stopped(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, partitions=3) as brokers:
        lines = [b"one", b"two", b"x" * (2 << 20), b"four"]
        for name, chosen, said in (
            ("t", ["--partition", "0"], "2 records written to t; stopped at line 3 of the input\n"),
            ("u", [], "2 records written to u; stopped at line 3 of the input\n"),
        ):
            command = ["-m", "replica.cli", "produce", name, *chosen, "--bootstrap", brokers.hosts]
            done = await forkserver.run_in_thread(command, given=b"\n".join(lines), capture_output=True)
            told = done.stderr.decode()
            assert (done.returncode, said in told, "MESSAGE_TOO_LARGE" in told) == (1, True, True), told
            found = await run(brokers, "consume", name, "--from-beginning", "--until-end")
            assert len(found.splitlines()) == 2


def test_unreachable_broker_and_contradicting_options_are_reported(capsys: pytest.CaptureFixture[str]) -> None:

    assert main(["consume", "t", "--bootstrap", "127.0.0.1:1", "--within", "0.2"]) == 1
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first.startswith("cannot connect to 127.0.0.1:1: Connection refused; retrying for up to ")
    assert last.endswith(": cannot connect to 127.0.0.1:1: Connection refused")
    assert main(["consume", "t", "--offset", "1", "--from-beginning"]) == 2
