"""A server and a broker with secrets in their configurations show none: in logs, on pages, in four-letter words."""

from __future__ import annotations

import socket
import time
from http.client import HTTPConnection
from pathlib import Path

from bench.ports import free_ports
from tests import forkserver
from tests.integration.processes import ROOT
from tests.integration.served import serve
from zab.runtime.admin.commands import NAMES
from zab.wire.client.client_frames import FOUR_LETTER_WORDS

CANARY = "canary"


def fetch(port: int, path: str, method: str = "GET") -> str:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path)
        return connection.getresponse().read().decode("utf-8", "replace")
    finally:
        connection.close()


def word(port: int, name: str) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(name.encode())
        said = b""
        while data := connection.recv(1 << 16):
            said += data
    return said.decode("utf-8", "replace")


def test_log_pages_and_words_of_a_server_show_no_secret(tmp_path: Path) -> None:
    client, admin = free_ports(2)
    login = tmp_path / "jaas.conf"
    login.write_text('Server { a.DigestLoginModule required user_super="canary1" user_bob="canary2"; };')
    config = tmp_path / "zoo.cfg"
    config.write_text(
        f"tickTime=400\ndataDir={tmp_path}/data\nclientPort={client}\nclientPortAddress=127.0.0.1\n"
        f"4lw.commands.whitelist=*\nadmin.enableServer=true\nadmin.serverAddress=127.0.0.1\nadmin.serverPort={admin}\n"
        f"java.security.auth.login.config={login}\n"
        "SASLAuthenticationProvider.superPassword=canary3\n"
        "SASLAuthenticationProvider.superPassword=canary4\n"
        "DigestAuthenticationProvider.superDigest=super:canary5\n"
        "ssl.trustStore.password=canary6\nsuperDigst=super:canary7\n"
    )
    with serve(config, "--log-level", "debug", "-D", "ssl.keyStore.password=canary8") as served:
        served.ready()
        pages = {path: fetch(admin, path) for path in ("/", "/metrics", *(f"/commands/{name}" for name in NAMES))}
        pages |= {name: word(client, name) for name in map(str, FOUR_LETTER_WORDS.values())}
        served.stop()
    assert CANARY not in served.log.read_text()
    assert not [path for path, page in pages.items() if CANARY in page]
    assert "superPassword=..." in served.log.read_text(), "the log does name the key"
    assert all(pages[path] for path in ("/", "/metrics", "/commands/configuration", "conf"))


def test_log_and_pages_of_a_broker_show_no_secret(tmp_path: Path) -> None:
    client, broker, pages_port = free_ports(3)
    config = tmp_path / "zoo.cfg"
    config.write_text(f"tickTime=400\ndataDir={tmp_path}/data\nclientPort={client}\nclientPortAddress=127.0.0.1\n")
    properties = tmp_path / "server.properties"
    plain = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    login = 'a.PlainLoginModule required username="b" password="canary{0}" user_b="canary{0}" user_ann="canary2";'
    properties.write_text(
        f"broker.id=1\nlog.dirs={tmp_path}/logs\nzookeeper.connect=127.0.0.1:{client}\n"
        f"listeners=SASL_PLAINTEXT://127.0.0.1:{broker}\nsecurity.inter.broker.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism.inter.broker.protocol=PLAIN\nsasl.enabled.mechanisms=PLAIN\n"
        f"{plain}={login.format(1)}\n{plain}={login.format(3)}\n"
        "ssl.keystore.password=canary4\nssl.keystore.password=canary7\nsll.key.passwort=canary5\npassword.encoder.secret=canary6\n"
        "offsets.topic.replication.factor=1\ndefault.replication.factor=1\n"
    )
    log = tmp_path / "broker.log"
    with serve(config) as served, log.open("ab") as said:
        served.ready()
        options = ["--log-level", "debug", "--operators", f"127.0.0.1:{pages_port}"]
        process = forkserver.start(
            ["-m", "replica.cli", "serve", str(properties), *options],
            cwd=ROOT,
            stdout=said,
            stderr=said,
        )
        try:
            while process.poll() is None and not answers(pages_port):
                time.sleep(0.1)
            paths = ("/", "/status.json", "/metrics", "/health")
            pages = {path: fetch(pages_port, path) for path in paths}
        finally:
            process.terminate()
            process.wait()
    assert CANARY not in log.read_text()
    assert not [path for path, page in pages.items() if CANARY in page]
    assert f"{plain}=..." in log.read_text(), "the log does name the key"
    assert all(pages.values())


def answers(port: int) -> bool:
    try:
        return bool(fetch(port, "/status.json"))
    except OSError:
        return False
