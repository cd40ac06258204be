"""A broker and its store, each in a process of its own on loopback, and a blocking client for hostile requests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from attrs import define, field

from bench.ports import free_port, free_ports
from replica.wire.api import ApiKey
from replica.wire.messages import decode_response, encode_request
from replica.wire.schemas import APIS
from tests.kafka_bodies import body_of, values_of
from zab.core.ensemble import Ensemble, Server
from zab.core.zxid import ServerId

ROOT: Final = Path(__file__).resolve().parents[2]
PATIENCE_S: Final = 60.0
USER, PASSWORD = "mallory", "secret"
_JAAS: Final = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
Body = dict[str, Any]


class Cut(Exception):
    """The broker closed the connection."""


@define(eq=False)
class Client:
    """One connection. `user` logs in with SASL PLAIN first."""

    port: int
    user: str | None = None
    client_id: str = "fuzz"
    _socket: socket.socket = field(init=False)
    _correlation: int = 0

    def __attrs_post_init__(self) -> None:
        self._socket = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.user is not None:
            self.ask(ApiKey.SASL_HANDSHAKE, {"mechanism": "PLAIN"}, 1)
            reply = self.ask(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": f"\0{self.user}\0{PASSWORD}".encode()}, 1)
            assert reply["error_code"] == 0, reply

    def ask(self, api: ApiKey, body: Body, version: int | None = None) -> Body:
        version = APIS[api].last if version is None else version
        self.start(api, body, version)
        return values_of(decode_response(APIS[api], version, self.receive())[1])

    def start(self, api: ApiKey, body: Body, version: int) -> None:
        """Send a request, and leave its reply to `receive`."""
        self.send(encode_request(APIS[api], version, 0, self.client_id, body_of(APIS[api].request, body)))

    def exchange(self, frame: bytes, timeout_s: float = PATIENCE_S) -> bytes | None:
        """The reply to a frame that has its length in front; None if the broker closed the connection, or waits."""
        self._socket.settimeout(timeout_s)
        try:
            self.send(frame)
            return self.receive()
        except (Cut, ConnectionError, TimeoutError):
            return None
        finally:
            self._socket.settimeout(PATIENCE_S)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> bytes:
        size = int.from_bytes(self._exactly(4), "big")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        pieces, missing = [], size
        while missing:
            data = self._socket.recv(min(missing, 1 << 20))
            if not data:
                raise Cut
            pieces.append(data)
            missing -= len(data)
        return b"".join(pieces)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@define(eq=False)
class BrokerProcess:
    """port is open to super users, guarded to a user without rights; pid is the broker's process."""

    port: int
    guarded: int
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def client(self, user: str | None = None) -> Client:
        return Client(self.port if user is None else self.guarded, user)

    @property
    def rss_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def tracebacks(self) -> list[str]:
        text = self.log.read_text(errors="replace")
        return [text[at : at + 3000] for at in _places(text, "Traceback (most recent call last)")]


def _places(text: str, what: str) -> Iterator[int]:
    at = text.find(what)
    while at >= 0:
        yield at
        at = text.find(what, at + 1)


@contextmanager
def broker_process(path: Path, *more: str) -> Iterator[BrokerProcess]:
    store_port, plain, guarded = free_ports(3)
    server = Server(ServerId(1), "127.0.0.1", free_port(), free_port())
    properties = path / "server.properties"
    properties.write_text(
        "\n".join(
            (
                "broker.id=1",
                f"listeners=PLAINTEXT://127.0.0.1:{plain},GUARDED://127.0.0.1:{guarded}",
                "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,GUARDED:SASL_PLAINTEXT",
                "listener.name.guarded.sasl.enabled.mechanisms=PLAIN",
                f"listener.name.guarded.plain.sasl.jaas.config={_JAAS}",
                "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
                "super.users=User:ANONYMOUS",
                f"log.dirs={path / 'broker'}",
                f"zookeeper.connect=127.0.0.1:{store_port}",
                "offsets.topic.num.partitions=2",
                "offsets.topic.replication.factor=1",
                "transaction.state.log.num.partitions=2",
                "transaction.state.log.replication.factor=1",
                "transaction.state.log.min.isr=1",
                "group.initial.rebalance.delay.ms=0",
                "auto.create.topics.enable=false",
                *more,
                "",
            )
        )
    )
    log = path / "broker.log"
    running: list[subprocess.Popen[bytes]] = []
    with log.open("ab") as told, (path / "store.log").open("ab") as store_told:

        def start(arguments: list[str], file: Any) -> subprocess.Popen[bytes]:
            running.append(
                subprocess.Popen([sys.executable, "-m", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=file)
            )
            return running[-1]

        try:
            ensemble = Ensemble((server,))
            start(
                ["tests.integration.store_process", "1", ensemble.text(), str(path / "store"), str(store_port)],
                store_told,
            )
            broker = start(["replica.cli", "serve", str(properties)], told)
            made = BrokerProcess(plain, guarded, broker, log)
            _wait_until_served(made)
            yield made
        finally:
            for process in running:
                process.send_signal(signal.SIGKILL)
            for process in running:
                process.wait()


def _wait_until_served(broker: BrokerProcess) -> None:
    until = time.monotonic() + PATIENCE_S
    while True:
        assert broker.process.poll() is None, broker.log.read_text()[-4000:]
        try:
            with broker.client() as client:
                found = client.ask(ApiKey.METADATA, {"topics": [], "allow_auto_topic_creation": False})
                if found["controller_id"] == 1:
                    return
        except (OSError, Cut):
            pass
        assert time.monotonic() < until, "the broker does not start"
        time.sleep(0.05)
