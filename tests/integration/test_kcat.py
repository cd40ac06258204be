"""kcat, unmodified, as at a prompt: it looks, writes and reads; alone, in a group, in a transaction."""

from __future__ import annotations

import json
import subprocess
import time
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.brokers import Cluster, cluster, in_thread
from tests.integration.peers import needs_kcat

pytestmark = [pytest.mark.slow, needs_kcat]

PATIENCE_S: Final = 240
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
LINES: Final = [f"k{number}:value {number}" for number in range(300)]


def kcat(hosts: str, *words: str, given: str = "") -> str:
    command = ["kcat", "-b", hosts, "-m", "60", *words]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, (words, done.stdout[-500:], done.stderr)
    return done.stdout


def described(hosts: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kcat(hosts, "-L", "-J"))
    return found


def of_group(hosts: str, group: str, count: int) -> list[str]:
    """So many as a member of it, from where it is: at first from the beginning."""
    words = ("-G", group, "-c", str(count), "-q", "-f", "%s\n", "-X", "auto.offset.reset=earliest", "t")
    return kcat(hosts, *words).splitlines()


async def leader(running: Cluster) -> int:
    found = await in_thread(described, running.hosts)
    [topic] = [each for each in found["topics"] if each["topic"] == "t"]
    return int(topic["partitions"][0]["leader"])


@pytest.mark.parametrize("acks", ["all", "1", "0"])
async def test_what_it_writes_with_each_codec_it_reads(acks: str, tmp_path: Path) -> None:
    def read_all(hosts: str, count: int) -> list[str]:
        """Read until there are `count` records: with acks=0, kcat ends before the broker has them."""
        until_s = time.monotonic() + PATIENCE_S
        while True:
            found = kcat(hosts, "-C", "-t", "t", "-e", "-q", "-Z", "-f", "%k:%s:%h %S %p %o\n").splitlines()
            if len(found) >= count or time.monotonic() > until_s:
                return found

    def work(hosts: str) -> None:
        written: list[str] = []
        for codec in CODECS:
            words = ("-z", codec, "-X", f"acks={acks}", "-K:", "-H", f"codec={codec}", "-H", "empty=")
            kcat(hosts, "-P", "-t", "t", *words, given="\n".join(LINES))
            for line in LINES:
                size = len(line.partition(":")[2])
                written.append(f"{line}:codec={codec},empty= {size} 0 {len(written)}")
            assert read_all(hosts, len(written)) == written
        kcat(hosts, "-P", "-t", "t", "-X", f"acks={acks}", "-Z", "-K:", given="no value:")
        written.append(f"no value:NULL: -1 0 {len(written)}")
        assert read_all(hosts, len(written)) == written

    async with cluster(tmp_path, 1) as running:
        await in_thread(work, running.hosts)


async def test_what_it_says_of_a_cluster(tmp_path: Path) -> None:
    async with cluster(tmp_path, 3, partitions=2) as running:
        await in_thread(partial(kcat, given="1:one\n2:two"), running.hosts, "-P", "-t", "t", "-K:")
        found = await in_thread(described, running.hosts)
        assert {each["id"] for each in found["brokers"]} == {1, 2, 3}
        assert found["controllerid"] in {1, 2, 3}
        [topic] = [each for each in found["topics"] if each["topic"] == "t"]
        assert [each["partition"] for each in topic["partitions"]] == [0, 1]
        for partition in topic["partitions"]:
            assert {each["id"] for each in partition["replicas"]} == {1, 2, 3}
        ends = await in_thread(kcat, running.hosts, "-Q", "-t", "t:0:-1", "-t", "t:1:-1")
        assert sum(int(line.split()[-1]) for line in ends.splitlines()) == 2
        begins = await in_thread(kcat, running.hosts, "-Q", "-t", "t:0:-2", "-t", "t:1:1")
        assert begins.splitlines() == ["t [0] offset 0", "t [1] offset 0"]


async def test_a_group_and_an_idempotent_producer_go_on_when_the_leader_ends(tmp_path: Path) -> None:
    first, second = [f"first {number}" for number in range(200)], [f"second {number}" for number in range(200)]

    def write(hosts: str, lines: list[str]) -> None:
        kcat(hosts, "-P", "-t", "t", "-X", "enable.idempotence=true", given="\n".join(lines))

    async with cluster(tmp_path, 3) as running:
        await in_thread(write, running.hosts, first)
        assert await in_thread(of_group, running.hosts, "g", 150) == first[:150]
        await running.stop(await leader(running))
        await running.all_know_all()
        await in_thread(write, running.hosts, second)
        assert await in_thread(of_group, running.hosts, "g", 250) == first[150:] + second
        everything = await in_thread(kcat, running.hosts, "-C", "-t", "t", "-e", "-q")
        assert everything.splitlines() == first + second


async def test_what_a_transaction_wrote_is_read_and_what_was_aborted_is_not(tmp_path: Path) -> None:
    def read(hosts: str, level: str) -> list[str]:
        return kcat(hosts, "-C", "-t", "t", "-e", "-q", "-X", f"isolation.level={level}").splitlines()

    def cut_off(hosts: str) -> None:
        """In the midst of a transaction, which the next of the same name aborts."""
        words = ["kcat", "-b", hosts, "-P", "-t", "t", "-X", "transactional.id=kcat"]
        with subprocess.Popen(words, stdin=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL) as process:
            assert process.stdin is not None
            process.stdin.write("cut off\n" * 10_000)  # it takes lines when a kilobyte of them is there
            process.stdin.flush()
            try:
                until_s = time.monotonic() + PATIENCE_S
                while "cut off" not in read(hosts, "read_uncommitted"):
                    assert time.monotonic() < until_s
                    time.sleep(0.1)
            finally:
                process.kill()

    async with cluster(tmp_path, 1) as running:
        whole = ("-P", "-t", "t", "-X", "transactional.id=kcat")
        await in_thread(partial(kcat, given="one\ntwo"), running.hosts, *whole)
        await in_thread(cut_off, running.hosts)
        assert await in_thread(read, running.hosts, "read_committed") == ["one", "two"]
        await in_thread(partial(kcat, given="three"), running.hosts, *whole)
        assert await in_thread(read, running.hosts, "read_committed") == ["one", "two", "three"]
        everything = await in_thread(read, running.hosts, "read_uncommitted")
        assert [line for line, _ in groupby(everything)] == ["one", "two", "cut off", "three"]
