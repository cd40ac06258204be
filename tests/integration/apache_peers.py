"""The conversations between servers of Apache ZooKeeper, recorded while a scenario runs.

Each server has its own file of host names. There its own name is the address at which it listens, and every other name
is the address of a proxy in front of that server. So all have the same configuration, and every connection between
servers goes through a proxy.

    python -m tests.integration.apache_peers FOLDER    stores the conversations of a fresh run
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final

from attrs import define, field

from bench.ports import free_port
from tests.integration import apache
from tests.integration.raw_client import Client
from tests.unit.wire.apache_conversations import Conversation
from zab.store.acl import OPEN
from zab.store.operations import Op
from zab.wire.disk_files import parse_name
from zab.wire.disk_log import LogReader, encode_record
from zab.wire.disk_txn import FileTxn

PROXY_HOST: Final = "127.0.0.2"
VOTERS: Final = (1, 2, 3)
OBSERVER: Final = 4
SERVERS: Final = (*VOTERS, OBSERVER)
SETTLE_S_MAX: Final = 60


@define
class _Link:
    channel: str
    listener: int
    heard: list[apache.Heard]
    stages: list[str] = field(factory=list)


class Ensemble:
    """Three voters and an observer with proxies between them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._links: list[_Link] = []
        self._running: dict[int, AbstractContextManager[object]] = {}
        self._stage = "start"
        self._properties = {"initLimit": "60", "syncLimit": "20", "reconfigEnabled": "true", "skipACL": "yes"}
        self.servers = {sid: apache.Server(free_port(), folder / f"{sid}" / "data") for sid in SERVERS}
        for sid in SERVERS:
            ports = {channel: free_port() for channel in ("quorum", "election")}
            role = "observer" if sid == OBSERVER else "participant"
            self._properties[f"server.{sid}"] = f"zk{sid}:{ports['quorum']}:{ports['election']}:{role}"
            for channel, port in ports.items():
                _, heard = stack.enter_context(apache.recording(port, (PROXY_HOST, port)))
                self._links.append(_Link(channel, sid, heard))
        stack.callback(self._end)

    def _end(self) -> None:
        for sid in list(self._running):
            self.stop(sid)

    def begin(self, stage: str) -> None:
        self._name_new()
        self._stage = stage

    def _name_new(self) -> None:
        for link in self._links:
            link.stages += [self._stage] * (len(link.heard) - len(link.stages))

    def start(self, *sids: int, wait: bool = True) -> None:
        processes = {}
        for sid in sids:
            folder, server = self._folder / f"{sid}", self.servers[sid]
            server.data.mkdir(parents=True, exist_ok=True)
            (server.data / "myid").write_text(f"{sid}")
            names = "".join(f"{'127.0.0.1' if each == sid else PROXY_HOST} zk{each}\n" for each in SERVERS)
            (folder / "hosts").write_text(names)
            for old in folder.glob("zoo.cfg.*"):
                old.unlink()
            properties = {**self._properties, **({"peerType": "observer"} if sid == OBSERVER else {})}
            system = (f"jdk.net.hosts.file={folder / 'hosts'}",)
            running = apache._process(folder, server, properties, system)
            processes[sid] = running.__enter__()
            self._running[sid] = running
        for sid in sids if wait else ():
            server = self.servers[sid]
            apache._wait_for(server.port, processes[sid], server.data.parent / "server.log")

    def stop(self, sid: int) -> None:
        self._running.pop(sid).__exit__(None, None, None)

    def client(self, sid: int, resumes: Client | None = None) -> Client:
        return Client(self.servers[sid].port, resumes=resumes)

    @property
    def leader(self) -> int:
        return next(sid for sid in VOTERS if "Mode: leader" in apache.ask(self.servers[sid].port, "srvr"))

    def wait_until_equal(self, *sids: int) -> None:
        """Wait until these servers have the same last zxid."""
        patience = time.monotonic() + SETTLE_S_MAX
        while len(found := {_zxid(self.servers[sid].port) for sid in sids}) > 1 or None in found:
            assert time.monotonic() < patience, "the servers did not reach the same zxid"
            time.sleep(0.1)

    def conversations(self) -> list[Conversation]:
        self._name_new()
        return [
            Conversation(link.channel, link.listener, stage, bytes(heard.from_client), bytes(heard.from_server))
            for link in self._links
            for stage, heard in zip(link.stages, link.heard, strict=True)
        ]


def _zxid(port: int) -> str | None:
    """Return the last zxid of a server; None if it does not serve."""
    return next((line for line in apache.ask(port, "srvr").splitlines() if line.startswith("Zxid:")), None)


@contextmanager
def ensemble(folder: Path) -> Iterator[Ensemble]:
    with ExitStack() as stack:
        yield Ensemble(folder, stack)


# -- the scenario --------------------------------------------------------------------------------------


def write_every_kind(client: Client, prefix: str) -> None:
    """Leave every kind of transaction that a client can cause in the log."""
    ask = client.ask
    ask(Op.CREATE, prefix, b"data", OPEN, 0)
    ask(Op.CREATE2, f"{prefix}/s-", None, OPEN, 2)
    ask(Op.CREATE_CONTAINER, f"{prefix}/c", b"", OPEN, 4)
    ask(Op.CREATE_TTL, f"{prefix}/t", b"t", OPEN, 5, 100_000)
    ask(Op.CREATE, f"{prefix}/e", b"", OPEN, 1)
    ask(Op.CREATE, prefix, b"", OPEN, 0)  # an error
    ask(Op.SET_DATA, prefix, b"more", -1)
    ask(Op.SET_DATA, prefix, None, 7)  # an error
    ask(Op.SET_ACL, f"{prefix}/t", ((31, "world", "anyone"), (1, "ip", "10.0.0.0/8")), -1)
    ask(Op.DELETE, f"{prefix}/t", -1)
    succeeds = [
        (Op.CHECK, (prefix, -1)), (Op.CREATE, (f"{prefix}/m", b"m", OPEN, 0)), (Op.SET_DATA, (f"{prefix}/m", b"n", 0)),
        (Op.DELETE, (f"{prefix}/m", 1)),
    ]  # fmt: skip
    client.tell(Op.MULTI, tuple(succeeds))
    client.tell(Op.MULTI, (*succeeds[:2], (Op.DELETE, ("/none", -1)), succeeds[2]))
    ask(Op.SYNC, prefix)


def run(ensemble: Ensemble) -> None:
    """Start, then bring one follower back by DIFF, by TRUNC and by SNAP, then change the membership."""
    ensemble.start(*SERVERS)
    leader = ensemble.leader
    back, other = (sid for sid in VOTERS if sid != leader)
    client = ensemble.client(other)
    write_every_kind(client, "/a")
    client.socket.close()
    moved = ensemble.client(back, resumes=client)
    moved.ask(Op.SET_DATA, "/a", b"moved", -1)
    moved.close()
    ensemble.wait_until_equal(*SERVERS)
    ensemble.begin("diff")
    ensemble.stop(back)
    client = ensemble.client(OBSERVER)
    write_every_kind(client, "/b")
    client.close()
    ensemble.start(back)
    ensemble.wait_until_equal(*SERVERS)
    ensemble.begin("trunc")
    ensemble.stop(back)
    append_one(ensemble.servers[back].files)
    ensemble.start(back)
    ensemble.begin("snap")
    ensemble.stop(back)
    shutil.rmtree(ensemble.servers[back].files)
    ensemble.start(back)
    ensemble.begin("reconfig")
    last = ensemble.client(back)
    assert not isinstance(last.ask(Op.RECONFIG, None, f"{OBSERVER}", None, -1), int)
    last.close()


def run_election(ensemble: Ensemble) -> None:
    """Restart the leader, so that the others elect."""
    ensemble.begin("election")
    leader = ensemble.leader
    ensemble.stop(leader)
    ensemble.start(leader)


def append_one(files: Path) -> None:
    """Append a transaction to the newest log that has transactions: one that was never committed."""
    logs = sorted(files.glob("log.*"), key=lambda path: parse_name(path.name) or (0, 0))
    for path in reversed(logs):
        data = path.read_bytes()
        reader = LogReader([data])
        txns = list(reader)
        if txns:
            last = txns[-1]
            more = FileTxn(last.session, last.cxid + 1, last.zxid + 1, last.time_ms, Op.ERROR, (-101,))
            path.write_bytes(data[: reader.end] + encode_record(more) + bytes(1 << 12))
            return
    raise AssertionError("no log has a transaction")


def store(conversations: Sequence[Conversation], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, each in enumerate(conversations):
        (folder / f"{each.name}-{number:02}").write_bytes(each.encode())


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="zab-peers-") as scratch, ensemble(Path(scratch)) as started:
        try:
            run(started)
            run_election(started)
        finally:
            store(started.conversations(), folder)
            if sys.exc_info()[0] is not None:
                shutil.copytree(scratch, folder / "scratch", dirs_exist_ok=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
