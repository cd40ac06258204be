"""Three PySyncObj processes, started and found ready."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attrs import frozen

from bench.ports import free_ports
from bench.workers import Worker, ask_all, closing, python

STATED: Final = (
    "PySyncObj with its default settings (ticks of 50 ms, AppendEntries every 100 ms, journal where said). "
    "Its journal is a memory-mapped file that is never synced: it survives kill -9, not the loss of power."
)


@frozen
class Variant:
    """The setup of the peer."""

    name: str
    journal: bool = True
    msync: bool = False
    batch: bool = True


JOURNAL: Final = Variant("PySyncObj, journal")
MEMORY: Final = Variant("PySyncObj, memory only", journal=False)
MSYNC: Final = Variant("PySyncObj, journal, msync per tick", msync=True)
NO_BATCH: Final = Variant("PySyncObj, journal, no batching", batch=False)


@contextmanager
def peers(variant: Variant, directory: Path, count: int = 3) -> Iterator[tuple[Worker, list[Worker]]]:
    """The leader, and all."""
    directory.mkdir(parents=True)
    addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
    workers: dict[int, Worker] = {}
    with closing(workers):
        for number, own in enumerate(addresses):
            arguments = ["--own", own, "--others", *(each for each in addresses if each != own)]
            if variant.journal:
                arguments += ["--journal", str(directory / f"journal-{number}")]
            if variant.msync:
                arguments.append("--msync")
            if not variant.batch:
                arguments.append("--no-batch")
            workers[number] = Worker(python("bench.peer", *arguments), directory / f"peer-{number}.log")
        found = ask_all(workers.values(), "status")
        leaders = [workers[number] for number, answer in enumerate(found) if answer["leader"]]
        if len(leaders) != 1 or not all(answer["ready"] for answer in found):
            raise RuntimeError(f"PySyncObj found no leader: {found}")
        yield leaders[0], list(workers.values())
