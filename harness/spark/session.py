"""A Spark session with the settings of this pipeline. By default, everything runs on this machine."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import tempfile
import threading
import time
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import harness
from harness.spark.identity import PACKAGES

ROOT: Final = Path(harness.__file__).resolve().parents[1]
HASH_SEED: Final = "0"
"""The hash seed of all tasks. No result may depend on it; if one does by mistake, all tasks agree nevertheless."""
TRIES: Final = 4
"""The number of attempts of a task whose process is killed."""

END_S: Final = 10.0
"""The time that a JVM has to end before it is killed."""

SETTINGS: Final[dict[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "FATAL",  # errors of tasks are raised and reported by this process
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.task.maxFailures": str(TRIES),
    "spark.executorEnv.PYTHONHASHSEED": HASH_SEED,
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Python and the JVM exchange rows through a socket. On a busy machine either may be slow.
    "spark.python.authenticate.socketTimeout": "300s",
    "spark.network.timeout": "600s",
    # A group may be one long history, so rows are transferred in pieces.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
}
QUIET: Final = """\
rootLogger.level = fatal
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c: %m%n
"""
"""The configuration of the JVM's log until the JVM has read the settings above."""
QUICK_START: Final = " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
LITTLE: Final[dict[str, str]] = {
    "spark.sql.codegen.wholeStage": "false",  # compiling a query takes longer than interpreting it
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
"""The settings for few rows, for which the fixed cost of a stage dominates."""
LOCAL: Final[dict[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
}


def is_local(master: str) -> bool:
    return master.startswith("local")


def with_tries(master: str) -> str:
    """Allow several attempts of a task: `local[2,4]` allows four, `local[2]` only one."""
    if master == "local":
        return f"local[1,{TRIES}]"
    return re.sub(r"^local\[([^,\]]+)\]$", rf"local[\1,{TRIES}]", master)


def refusals() -> tuple[type[Exception], ...]:
    """Return the exceptions of Spark."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError


@contextmanager
def session(master: str, name: str, *, quick: bool = False, settings: Mapping[str, str] | None = None) -> Iterator[Any]:
    """Start a session that ends with the block. Under spark-submit, its master and settings stay as given there.

    `quick`: optimize the start of the JVM, not its speed.
    """
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory(prefix="zab-harness-") as folder:
        chosen = {**SETTINGS, "spark.sql.warehouse.dir": f"{folder}/warehouse"}
        if quick:
            chosen |= LITTLE
        builder = SparkSession.builder.appName(name)
        if "PYSPARK_GATEWAY_PORT" not in os.environ:  # without spark-submit, this process chooses the master
            builder = builder.master(with_tries(master))
            if is_local(master):
                chosen |= LOCAL
                quiet = Path(folder) / "log4j2.properties"
                quiet.write_text(QUIET)
                chosen["spark.driver.extraJavaOptions"] = (
                    f"-Dlog4j2.configurationFile={quiet}{QUICK_START if quick else ''}"
                )
        for key, value in {**chosen, **(settings or {})}.items():
            builder = builder.config(key, value)
        # Python's workers on this machine are children of the JVM, which is a child of this process.
        environment = {
            "PYTHONHASHSEED": HASH_SEED,
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
            "PYTHONWARNINGS": "ignore::FutureWarning",
            "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
            "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1" if is_local(master) else ""),
        }
        with _environment(environment), _quiet_py4j(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # pyspark uses deprecated functions of pandas
            others = _children()
            try:
                spark = _started(builder)
                try:
                    if not is_local(str(spark.sparkContext.master)):
                        spark.sparkContext.addPyFile(str(_sources(Path(folder))))
                    yield spark
                finally:
                    if sys.exception() is None or isinstance(sys.exception(), Exception):
                        spark.stop()
            except KeyboardInterrupt:
                _end(_children() - others)
                raise


def _started(builder: Any) -> Any:
    """Start Spark in another thread, so that Ctrl-C interrupts this one.

    An exception during communication with the JVM would appear as an error of the connection.
    """
    made: list[Any] = []
    failed: list[BaseException] = []

    def start() -> None:
        try:
            made.append(builder.getOrCreate())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=start, name="start of Spark", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.2)
    if failed:
        raise failed[0]
    return made[0]


@contextmanager
def _quiet_py4j() -> Iterator[None]:
    """Silence py4j, which logs long messages about each error that it raises, also through the root logger."""

    def is_of_others(record: logging.LogRecord) -> bool:
        return Path(record.pathname).parent.name != "py4j"

    py4j, root = logging.getLogger("py4j"), logging.getLogger()
    before = py4j.level
    py4j.setLevel(logging.CRITICAL)
    root.addFilter(is_of_others)
    try:
        yield
    finally:
        py4j.setLevel(before)
        root.removeFilter(is_of_others)


def _children() -> set[int]:
    """Return the children of this process. Without /proc return none: the JVM also ends when its stdin is closed."""
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found |= {int(word) for word in path.read_text().split()}
    return found


def _end(jvms: set[int]) -> None:
    """Stop JVMs by signals, because their connections may be inside a message. On SIGTERM a JVM stops Spark."""
    for jvm in jvms:
        with suppress(ProcessLookupError):
            os.kill(jvm, signal.SIGTERM)
    until = time.monotonic() + END_S
    while any(map(_lives, jvms)) and time.monotonic() < until:
        time.sleep(0.05)
    for jvm in filter(_lives, jvms):
        with suppress(ProcessLookupError):
            os.kill(jvm, signal.SIGKILL)


def _lives(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    except ChildProcessError:  # it has ended, and its exit status was collected
        return False


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    before = {key: os.environ.get(key) for key in wanted}
    os.environ.update({key: value for key, value in wanted.items() if value})
    try:
        yield
    finally:
        for key, was in before.items():
            if was is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = was


def _sources(folder: Path) -> Path:
    """Write the packages into an archive for executors on other machines. They need the libraries themselves."""
    path = folder / "zab-harness.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for source in sorted((ROOT / package).rglob("*")):
                if source.suffix in (".py", ".html", ".diff", ".txt") and source.is_file():
                    archive.write(source, source.relative_to(ROOT))
    return path
