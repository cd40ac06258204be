"""Apache ZooKeeper on this machine: its jars, and the commands that start its programs.

The jars come inside the pyspark wheel. `ZAB_ZOOKEEPER_JARS` names a folder that holds them; else the jars of an
installed pyspark are used.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from functools import cache
from pathlib import Path
from typing import Final

SERVER: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of a JVM that lives for seconds: preparing for hours takes twice the processor time."""
_NEEDED: Final = (
    "audience-annotations", "commons-cli", "commons-io", "curator", "failureaccess", "guava", "jackson", "jline",
    "log4j", "metrics-core", "netty", "slf4j-api", "snappy-java", "zookeeper",
)  # fmt: skip
"""How the jars that ZooKeeper and its clients use begin. A wheel of pyspark has hundreds of others, each of which a JVM
would open."""


def jars() -> Path | None:
    """Return the folder with the jars; None if there is none."""
    named = os.environ.get("ZAB_ZOOKEEPER_JARS")
    if named:
        return Path(named)
    spec = importlib.util.find_spec("pyspark")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "jars"


def why_not() -> str | None:
    """Return the reason why Apache ZooKeeper cannot run here; None if it can."""
    if shutil.which("java") is None:
        return "Apache ZooKeeper needs java, and there is none: install a JDK"
    folder = jars()
    if folder is None or not list(folder.glob("zookeeper-3*.jar")):
        return "no jars of Apache ZooKeeper: set ZAB_ZOOKEEPER_JARS to their folder, or install pyspark"
    return None


@cache
def class_path() -> str:
    """Return the class path, from the named folder or from pyspark."""
    folder = jars()
    if folder is None or os.environ.get("ZAB_ZOOKEEPER_JARS"):
        return f"{folder}/*"
    return ":".join(sorted(str(path) for path in folder.glob("*.jar") if path.name.startswith(_NEEDED)))


def java(
    main: str,
    *arguments: str,
    properties: tuple[str, ...] = (),
    classes: Path | None = None,
    other: Path | None = None,
) -> list[str]:
    """Return the command that runs a class. The JVM searches the folder `classes` before the jars.

    `other` is a folder with the jars of another release.
    """
    path = class_path() if other is None else f"{other}/*"
    path = path if classes is None else f"{classes}:{path}"
    return ["java", "-Xmx256m", *QUICK, *(f"-D{text}" for text in properties), "-cp", path, main, *arguments]
