"""An ensemble of etcd and load for it, of its Go modules where Go is at hand: another protocol, and another client."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.ports import free_ports
from bench.workers import Worker
from bench.zookeeper.ensembles import COUNT, SIDS, end_all, end_with_parent
from bench.zookeeper.load import Missing

VERSION: Final = "v3.7.3"
MODULES: Final = (f"go.etcd.io/etcd/server/v3@{VERSION}", f"go.etcd.io/etcd/client/v3@{VERSION}")
PROGRAMS: Final = ("server", "load")
BUILD_S: Final = 1_200
"""The first build compiles some hundred packages. What it made is kept in the temporary directory."""
_HERE: Final = Path(__file__).parent


def _built_in() -> Path:
    parts = [VERSION.encode(), *((_HERE / name / "main.go").read_bytes() for name in PROGRAMS)]
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"zab-bench-etcd-{os.getuid()}-{digest}"


def programs() -> Path:
    """The folder of both programs. Raises `Missing`."""
    folder = _built_in()
    if all((folder / name).exists() for name in PROGRAMS):
        return folder
    if shutil.which("go") is None:
        raise Missing("no go on this machine")
    with tempfile.TemporaryDirectory(prefix="zab-bench-etcd-") as made:
        try:
            _build(Path(made), folder)
        except subprocess.SubprocessError as error:
            said = getattr(error, "stderr", None) or b""
            raise Missing(f"it cannot be built: {error} {said[-500:].decode(errors='replace')}") from None
    return folder


def _build(work: Path, folder: Path) -> None:
    """In a folder that goes away again with all that was fetched and compiled."""
    for name in PROGRAMS:
        shutil.copytree(_HERE / name, work / "source" / name)
    environment = os.environ | {"GOFLAGS": "-mod=mod -modcacherw", "GOTOOLCHAIN": "local"}
    for name in ("GOMODCACHE", "GOCACHE"):
        environment.setdefault(name, str(work / name.lower()))
    for command in (
        ["go", "mod", "init", "zab-bench-etcd"],
        ["go", "get", *MODULES],
        *(["go", "build", "-o", str(work / "made" / name), f"./{name}"] for name in PROGRAMS),
    ):
        subprocess.run(command, cwd=work / "source", env=environment, check=True, capture_output=True, timeout=BUILD_S)
    folder.mkdir(exist_ok=True, mode=0o700)
    for name in PROGRAMS:
        shutil.move(work / "made" / name, folder / f"{name}.new")
        (folder / f"{name}.new").rename(folder / name)


class Etcd:
    """Three servers with their default settings; they sync what they write."""

    label = "etcd"

    def __init__(self, directory: Path) -> None:
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        directory = directory.resolve()
        directory.mkdir(parents=True)
        ports = free_ports(2 * COUNT)
        clients = {sid: f"127.0.0.1:{ports[2 * sid - 2]}" for sid in SIDS}
        peers = {sid: f"http://127.0.0.1:{ports[2 * sid - 1]}" for sid in SIDS}
        self.hosts = ",".join(clients.values())
        cluster = ",".join(f"{sid}={peers[sid]}" for sid in SIDS)
        server = programs() / "server"
        for sid in SIDS:
            command = [str(server), "--name", str(sid), "--data-dir", str(directory / str(sid))]
            command += ["--listen-client-urls", f"http://{clients[sid]}", "--initial-cluster", cluster]
            command += ["--advertise-client-urls", f"http://{clients[sid]}", "--listen-peer-urls", peers[sid]]
            command += ["--initial-advertise-peer-urls", peers[sid], "--initial-cluster-state", "new"]
            with (directory / f"{sid}.log").open("ab") as log:
                self._processes[sid] = subprocess.Popen(
                    [*command, "--log-level", "warn"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    start_new_session=True, preexec_fn=end_with_parent,
                )  # fmt: skip

    @property
    def pids(self) -> dict[int, int]:
        return {sid: process.pid for sid, process in self._processes.items()}

    def end(self) -> None:
        end_all(self._processes.values())


@contextmanager
def etcd(directory: Path) -> Iterator[Etcd]:
    side = Etcd(directory)
    try:
        yield side
    finally:
        side.end()


def load(directory: Path) -> Worker:
    return Worker([str(programs() / "load")], directory / "etcd-load.log")
