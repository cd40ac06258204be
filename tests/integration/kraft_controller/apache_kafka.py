"""Apache Kafka's own broker, of the last versions that kept their metadata in ZooKeeper, at our store.

`ZAB_KAFKA_JARS` names a folder with `kafka_2.13-3.9.1.jar` and all that it needs, as
`mvn dependency:copy-dependencies` lays them out for org.apache.kafka:kafka_2.13:3.9.1. Without it the tests that want
it are skipped and say so.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ports import free_port


def why_not() -> str | None:
    named = os.environ.get("ZAB_KAFKA_JARS")
    if shutil.which("java") is None:
        return "Apache Kafka needs java, and there is none"
    if not named or not list(Path(named).glob("kafka_2.13-3.*.jar")):
        return "no jars of Apache Kafka 3: $ZAB_KAFKA_JARS names no folder that has them"
    return None


needs_kafka = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


@contextmanager
def running(folder: Path, store: str, *numbers: int) -> Iterator[None]:
    """Brokers of these numbers, which live until the block ends."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for number in numbers:
            (home := folder / f"kafka{number}").mkdir(parents=True)
            file = home / "server.properties"
            settings = {
                "broker.id": number,
                "zookeeper.connect": store,
                "zookeeper.session.timeout.ms": 18_000,
                "listeners": f"PLAINTEXT://127.0.0.1:{free_port()}",
                "log.dirs": home / "data",
                "offsets.topic.replication.factor": 1,
                "controlled.shutdown.enable": "false",
                "auto.create.topics.enable": "false",
            }
            file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            words = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{os.environ['ZAB_KAFKA_JARS']}/*"]
            with (home / "log").open("wb") as out:
                process = subprocess.Popen([*words, "kafka.Kafka", str(file)], stdout=out, stderr=out, cwd=home)
            processes.append(process)
        yield
        for number, process in zip(numbers, processes, strict=True):
            assert process.poll() is None, (folder / f"kafka{number}" / "log").read_text(errors="replace")
    finally:
        for process in processes:
            process.send_signal(signal.SIGKILL)
        for process in processes:
            process.wait()
