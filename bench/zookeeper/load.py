"""The load generator: the stock Java client, compiled on demand, in a process that is told what to do."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from bench.workers import Worker

SOURCES: Final = tuple(sorted((Path(__file__).parents[1] / "java").glob("*.java")))
COMPILE_S: Final = 120


class Missing(Exception):
    """Something that is needed for the comparison is not on this machine."""


def jars() -> Path:
    """`ZAB_ZOOKEEPER_JARS`, or those that come inside the wheel of pyspark."""
    named = os.environ.get("ZAB_ZOOKEEPER_JARS")
    spec = importlib.util.find_spec("pyspark")
    inside = None if spec is None or spec.origin is None else Path(spec.origin).parent / "jars"
    folder = Path(named) if named else inside
    if folder is None or not list(folder.glob("zookeeper-3*.jar")):
        raise Missing("no jars of Apache ZooKeeper: set ZAB_ZOOKEEPER_JARS to their folder, or install pyspark")
    return folder


def check() -> None:
    """Raises `Missing`."""
    jars()
    for tool in ("java", "javac"):
        if shutil.which(tool) is None:
            raise Missing(f"no {tool} on this machine")


def zookeeper_version() -> str:
    return next(jars().glob("zookeeper-3*.jar")).stem.removeprefix("zookeeper-")


def java(*arguments: str, heap_mib: int = 512) -> list[str]:
    return ["java", f"-Xms{heap_mib // 2}m", f"-Xmx{heap_mib}m", "-cp", f"{jars()}/*:{_compiled()}", *arguments]


def _compiled() -> Path:
    """The folder with the classes. Compiled once for each state of the sources, and kept in the temporary directory."""
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"zab-bench-java-{os.getuid()}-{digest}"
    if not (folder / "Load.class").exists():
        folder.mkdir(exist_ok=True, mode=0o700)
        command = ["javac", "-cp", f"{jars()}/*", "-d", str(folder), *map(str, SOURCES)]
        subprocess.run(command, check=True, timeout=COMPILE_S)
    return folder


def load(directory: Path) -> Worker:
    return Worker(java("Load"), directory / "load.log")
