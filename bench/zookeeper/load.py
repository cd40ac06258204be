"""The load generator: the stock Java client, compiled on demand, in a process that is told what to do."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from bench.workers import Worker
from harness.apache_zookeeper import jars, why_not

SOURCES: Final = tuple(sorted((Path(__file__).parents[1] / "java").glob("*.java")))
COMPILE_S: Final = 120


class Missing(Exception):
    """Something that is needed for the comparison is not on this machine."""


def check() -> None:
    """Raise `Missing` if Apache ZooKeeper or a compiler is not on this machine."""
    reason = why_not() or (None if shutil.which("javac") else "no javac on this machine")
    if reason is not None:
        raise Missing(reason)


def zookeeper_version() -> str:
    return next(_jars().glob("zookeeper-3*.jar")).stem.removeprefix("zookeeper-")


def _jars() -> Path:
    check()
    folder = jars()
    assert folder is not None
    return folder


def java(*arguments: str, heap_mib: int = 512) -> list[str]:
    return ["java", f"-Xms{heap_mib // 2}m", f"-Xmx{heap_mib}m", "-cp", f"{_jars()}/*:{_compiled()}", *arguments]


def _compiled() -> Path:
    """The folder with the classes. Compiled once for each state of the sources, and kept in the temporary directory."""
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"zab-bench-java-{os.getuid()}-{digest}"
    if not (folder / "Load.class").exists():
        folder.mkdir(exist_ok=True, mode=0o700)
        command = ["javac", "-cp", f"{_jars()}/*", "-d", str(folder), *map(str, SOURCES)]
        subprocess.run(command, check=True, timeout=COMPILE_S)
    return folder


def load(directory: Path) -> Worker:
    return Worker(java("Load"), directory / "load.log")
