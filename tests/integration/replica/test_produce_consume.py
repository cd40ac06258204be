"""`zab-broker produce` and `consume`, as processes, at brokers in this one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from replica.cli import main
from tests.integration.brokers import Cluster, cluster

pytestmark = pytest.mark.slow


async def run(brokers: Cluster, *arguments: str, given: bytes = b"") -> bytes:
    command = [sys.executable, "-m", "replica.cli", *arguments, "--bootstrap", brokers.hosts]
    done = await trio.run_process(
        command, stdin=given, capture_stdout=True, capture_stderr=True, check=False, env=dict(os.environ)
    )
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


def test_what_cannot_be_is_said(capsys: pytest.CaptureFixture[str]) -> None:

    assert main(["consume", "t", "--bootstrap", "127.0.0.1:1", "--within", "0.2"]) == 1
    assert "127.0.0.1:1" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        main(["consume", "t", "--offset", "1", "--from-beginning"])
    assert end.value.code == 2
