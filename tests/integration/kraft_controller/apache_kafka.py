"""Apache Kafka's own broker, of the last versions that kept their metadata in ZooKeeper, at our store."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.ports import free_port
from tests.integration.peers import kafka_java


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
            with (home / "log").open("wb") as out:
                process = subprocess.Popen([*kafka_java(), "kafka.Kafka", str(file)], stdout=out, stderr=out, cwd=home)
            processes.append(process)
        yield
        for number, process in zip(numbers, processes, strict=True):
            assert process.poll() is None, (folder / f"kafka{number}" / "log").read_text(errors="replace")
    finally:
        for process in processes:
            process.send_signal(signal.SIGKILL)
        for process in processes:
            process.wait()
