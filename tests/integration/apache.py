"""Apache ZooKeeper itself, on loopback, for tests that compare with it.

`harness.apache_zookeeper` finds its jars. Without them, or without java, tests are skipped with the reason.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from atexit import register
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from threading import Lock, Thread

import pytest
from attrs import define, field, frozen

from bench.ports import free_port
from harness.apache_zookeeper import QUICK, SERVER, class_path, jars, java, why_not

START_SECONDS_MAX = 240
ANSWER_SECONDS_MAX = 5
"""Who asks in the moment in which it begins to serve is now and then not answered at all, and has to ask again."""
SOURCES = Path(__file__).parent / "java"
needs_apache = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


def client(name: str, *arguments: str, properties: tuple[str, ...] = ()) -> list[str]:
    """A program of ours beside this file, which uses their libraries."""
    return java(name, *arguments, properties=("log4j2.level=OFF", *properties), classes=_clients())


@cache
def _clients() -> Path:
    """Compile all clients together, which takes hardly longer than one."""
    folder = Path(tempfile.mkdtemp(prefix="zab-clients-"))
    register(partial(shutil.rmtree, folder, ignore_errors=True))
    without = () if any((jars() or folder).glob("curator-recipes-*.jar")) else ("org.apache.curator",)
    sources = [path for path in SOURCES.glob("*.java") if not path.name.startswith("Kafka")]
    compile_java(folder, [path for path in sources if not any(word in path.read_text() for word in without)])
    return folder


def compile_java(folder: Path, sources: list[Path]) -> None:
    quick = (f"-J{option}" for option in QUICK)
    subprocess.run(["javac", *quick, "-d", str(folder), "-cp", class_path(), *map(str, sources)], check=True)


def ask(port: int, word: str, seconds: float = 60) -> str:
    """Send a four-letter word, and return the reply."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(word.encode())
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


@frozen
class Server:
    port: int
    data: Path

    @property
    def files(self) -> Path:
        return self.data / "version-2"


@contextmanager
def running(
    folder: Path, system: tuple[str, ...] = (), classes: Path | None = None, /, **properties: str
) -> Iterator[Server]:
    """Run one standalone server. Its data directory stays for inspection.

    `system` has Java system properties as `name=value`.
    """
    server = Server(free_port(), folder / "data")
    with _process(folder, server, properties, system, classes) as process:
        _wait_for(server.port, process, folder / "server.log")
        yield server


@contextmanager
def ensemble(folder: Path, classes: Path | None = None, /, **properties: str) -> Iterator[list[int]]:
    """Three of them; their client ports."""
    with members(folder, classes, **properties) as started:
        yield [server.port for server, _ in started]


@contextmanager
def members(
    folder: Path, classes: Path | None = None, /, **properties: str
) -> Iterator[list[tuple[Server, subprocess.Popen[bytes]]]]:
    """Run three servers, and return their processes."""
    ports = {(sid, what): free_port() for sid in (1, 2, 3) for what in ("peer", "election")}
    lines = {
        f"server.{sid}": f"127.0.0.1:{ports[sid, 'peer']}:{ports[sid, 'election']}:participant" for sid in (1, 2, 3)
    }
    with ExitStack() as stack:
        started = []
        for sid in (1, 2, 3):
            server = Server(free_port(), folder / f"theirs-{sid}" / "data")
            server.data.mkdir(parents=True)
            (server.data / "myid").write_text(str(sid))
            settings = {"initLimit": "60", "syncLimit": "20", **lines, **properties}
            process = stack.enter_context(_process(folder / f"theirs-{sid}", server, settings, (), classes))
            started.append((server, process))
        for server, process in started:
            _wait_for(server.port, process, server.data.parent / "server.log")
        yield started


@contextmanager
def _process(
    folder: Path,
    server: Server,
    properties: dict[str, str],
    system: tuple[str, ...] = (),
    classes: Path | None = None,
    jars: Path | None = None,
    keeps_config: bool = False,
) -> Iterator[subprocess.Popen[bytes]]:
    """`keeps_config`: leave the configuration as the server has changed it, as it does after a reconfiguration."""
    server.data.mkdir(parents=True, exist_ok=True)
    config = folder / "zoo.cfg"
    if not keeps_config or not config.exists():
        config.write_text(
            f"tickTime=1000\ndataDir={server.data}\nclientPort={server.port}\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\nextendedTypesEnabled=true\n4lw.commands.whitelist=*\n"
            + "".join(f"{key}={value}\n" for key, value in properties.items())
        )
    command = java(SERVER, str(config), properties=system, classes=classes, other=jars)
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    patience = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < patience and process.poll() is None:
        try:
            if "Mode: " in ask(port, "srvr", ANSWER_SECONDS_MAX):  # `ruok` is said too early
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"Apache ZooKeeper does not start: {log.read_text()[-2000:]}")


# -- a proxy that remembers ----------------------------------------------------------------------------


@define
class Heard:
    """Both directions of one connection, as they came."""

    from_client: bytearray = field(factory=bytearray)
    from_server: bytearray = field(factory=bytearray)


@contextmanager
def recording(port: int, listens_at: tuple[str, int] = ("127.0.0.1", 0)) -> Iterator[tuple[int, list[Heard]]]:
    """Proxy `port`, and record all bytes. A connection is closed at once if nothing listens at `port`."""
    connections: list[Heard] = []
    sockets: list[socket.socket] = []
    lock = Lock()
    listener = socket.create_server(listens_at)

    def pump(source: socket.socket, target: socket.socket, heard: bytearray) -> None:
        try:
            while data := source.recv(65536):
                with lock:
                    heard += data
                target.sendall(data)
        except OSError:
            pass
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", port))
            except OSError:
                client.close()
                continue
            heard = Heard()
            connections.append(heard)
            sockets.extend((client, server))
            Thread(target=pump, args=(client, server, heard.from_client), daemon=True).start()
            Thread(target=pump, args=(server, client, heard.from_server), daemon=True).start()

    accepting = Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield listener.getsockname()[1], connections
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()
        for each in sockets:
            each.close()
