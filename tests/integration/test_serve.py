"""`zab serve` with ZooKeeper's own configuration files, and clients that we did not write."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import trustme
from click.testing import CliRunner

from bench.ports import free_port, free_ports
from harness import apache_zookeeper
from tests.integration import apache
from tests.integration.apache import ask
from tests.integration.served import PATIENCE_S, Served, real_start, serve, three_configs
from zab.cli.root import zab
from zab.store.acl import digest_id

pytest.importorskip("kazoo", reason="kazoo is not installed")

from kazoo.client import KazooClient

pytestmark = pytest.mark.slow

QUICKSTART = """\
# The number of milliseconds of each tick
tickTime=2000
# The number of ticks that the initial
# synchronization phase can take
initLimit=10
# The number of ticks that can pass between
# sending a request and getting an acknowledgement
syncLimit=5
# the directory where the snapshot is stored.
dataDir={data}
# the port at which the clients will connect
clientPort={port}
"""


def zkcli(hosts: str, *words: str) -> str:
    command = apache_zookeeper.java(
        "org.apache.zookeeper.ZooKeeperMain", "-server", hosts, *words, properties=("log4j2.level=OFF",)
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    return done.stdout + done.stderr


def test_ipv6_address_is_printed_in_brackets(tmp_path: Path) -> None:
    config, port = tmp_path / "zoo.cfg", free_port()
    config.write_text(QUICKSTART.format(data=tmp_path / "data", port=port))
    with serve(config, "-D", "clientPortAddress=::1") as server:
        assert f"listens for clients on [::1]:{port}\n" in server.said.get(timeout=PATIENCE_S)


def test_the_quickstart_file_is_taken_as_it_is(tmp_path: Path) -> None:
    port = free_port()
    config = tmp_path / "zoo.cfg"
    config.write_text(QUICKSTART.format(data=tmp_path / "data", port=port))
    with serve(config, start=real_start) as server:
        assert "server 1 is ready: it leads in epoch 1" in server.ready()
        client = KazooClient(f"127.0.0.1:{port}")
        client.start(240)
        client.create("/a", b"data")
        client.stop()
        client.close()
        assert server.stop() == 0
    assert "warning" not in server.log.read_text()
    assert config.read_text() == QUICKSTART.format(data=tmp_path / "data", port=port)
    with serve(config, start=real_start) as server:
        server.ready()
        client = KazooClient(f"127.0.0.1:{port}")
        client.start(240)
        server.process.send_signal(signal.SIGHUP)
        assert client.get("/a")[0] == b"data"
        client.stop()
        client.close()
        while "signal_ignored signal=SIGHUP" not in server.log.read_text():
            assert server.process.poll() is None
        assert server.stop(signal.SIGINT) == 0
    said = server.log.read_text()
    assert said.index("ended by=SIGTERM") < said.index("ended by=SIGINT")


@apache.needs_apache
@pytest.mark.mechanism(95, 96, 97)
def test_three_processes_serve_zkcli_and_kazoo_while_the_leader_is_killed(tmp_path: Path) -> None:
    configs, ports = three_configs(tmp_path)
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    with ExitStack() as stack:
        servers: list[Served] = [stack.enter_context(serve(config)) for config in configs]
        for server in servers:
            server.ready()
        assert "Created /by-zkcli" in zkcli(hosts, "create", "/by-zkcli", "one")
        client = KazooClient(hosts, timeout=10)
        client.start(240)
        session = client.client_id
        client.create("/by-kazoo", b"two", ephemeral=True)
        (leader,) = [sid for sid, port in enumerate(ports) if "Mode: leader" in ask(port, "srvr")]
        servers[leader].stop(signal.SIGKILL)
        client.retry(client.set, "/by-kazoo", b"three")
        assert client.client_id == session
        alive = [port for sid, port in enumerate(ports) if sid != leader]
        assert "three" in zkcli(f"127.0.0.1:{alive[0]}", "get", "/by-kazoo")
        assert sorted("leader" in ask(port, "srvr") for port in alive) == [False, True]
        client.stop()
        client.close()
        again = stack.enter_context(serve(configs[leader]))
        assert "follows server" in again.ready()
        assert "one" in zkcli(f"127.0.0.1:{ports[leader]}", "get", "/by-zkcli")
        rest = [again, *(server for sid, server in enumerate(servers) if sid != leader)]
        assert [server.stop() for server in rest] == [0, 0, 0]


def test_a_log_of_its_own_in_a_directory_of_its_own(tmp_path: Path) -> None:
    port = free_port()
    config = tmp_path / "zoo.cfg"
    config.write_text(
        f"dataDir={tmp_path}/data\ndataLogDir={tmp_path}/log\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
    )
    for value in (b"one", b"two"):
        with serve(config, "--log-format", "json") as server:
            server.ready()
            client = KazooClient(f"127.0.0.1:{port}")
            client.start(240)
            client.ensure_path("/a")
            assert client.get("/a")[0] == (b"" if value == b"one" else b"one")
            client.set("/a", value)
            client.stop()
            client.close()
            assert server.stop() == 0
    assert [file.name for file in (tmp_path / "log").iterdir() if file.name.startswith("log.")]
    assert not [file.name for file in (tmp_path / "data").iterdir() if file.name.startswith("log.")]
    events = [json.loads(line) for line in server.log.read_text().splitlines()]
    assert {"time", "level", "event", "server", "epoch"} <= set(events[0])


def test_a_port_that_is_taken_is_status_1_and_one_line(tmp_path: Path) -> None:
    config = tmp_path / "zoo.cfg"
    port = free_port()
    config.write_text(f"dataDir={tmp_path}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n")
    with socket.create_server(("127.0.0.1", port)), serve(config, "--log-level", "error") as server:
        assert server.process.wait(timeout=120) == 1
    (line,) = server.log.read_text().splitlines()
    assert line.startswith(f"zab serve: cannot listen on 127.0.0.1:{port} for clients")
    assert line.endswith("Is another server running there?")
    assert not (tmp_path / "data").exists(), "no history has begun"


@pytest.mark.parametrize(("place", "name"), [(0, "learner"), (1, "election")])
def test_peer_port_that_is_taken_is_reported_before_anything_is_written(tmp_path: Path, place: int, name: str) -> None:
    client_port, *mine = free_ports(3)
    others = free_ports(2)
    config = tmp_path / "zoo.cfg"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "myid").write_text("1\n")
    config.write_text(
        f"dataDir={tmp_path}/data\nclientPort={client_port}\nclientPortAddress=127.0.0.1\ninitLimit=10\nsyncLimit=5\n"
        f"server.1=127.0.0.1:{mine[0]}:{mine[1]}\nserver.2=127.0.0.1:{others[0]}:{others[1]}\n"
    )
    with socket.create_server(("127.0.0.1", mine[place])), serve(config, "--log-level", "error") as server:
        assert server.process.wait(timeout=120) == 1
    (line,) = [line for line in server.log.read_text().splitlines() if line.startswith("zab serve: ")]
    assert line.startswith(f"zab serve: cannot listen on 127.0.0.1:{mine[place]} for the {name} port")
    assert [file.name for file in (tmp_path / "data").iterdir()] == ["myid"]


def test_server_that_is_terminated_before_it_has_begun_ends_with_status_0(tmp_path: Path) -> None:
    """A pipe in place of the file holds the process where it is."""
    config = tmp_path / "zoo.cfg"
    os.mkfifo(config)
    with serve(config) as server, config.open("w"):
        server.process.terminate()
        assert server.process.wait(timeout=120) == 0


def test_why_a_server_cannot_listen_or_write(tmp_path: Path) -> None:
    for line, says in (
        (f"dataDir={tmp_path}/data\nclientPortAddress=192.0.2.1\n", "This machine has no such address."),
        ("dataDir=/proc/nowhere\nclientPortAddress=127.0.0.1\n", "no directory can be made there"),
    ):
        config = tmp_path / "zoo.cfg"
        config.write_text(f"{line}clientPort={free_port()}\n")
        config.with_suffix(".log").unlink(missing_ok=True)
        with serve(config, "--log-level", "error") as server:
            assert server.process.wait(timeout=120) == 1
        (line,) = server.log.read_text().splitlines()
        assert says in line


def test_a_running_server_is_asked_for_a_snapshot(tmp_path: Path) -> None:
    port, admin = free_port(), free_port()
    config = tmp_path / "zoo.cfg"
    config.write_text(
        f"dataDir={tmp_path}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        f"admin.serverPort={admin}\nadmin.serverAddress=127.0.0.1\nadmin.rateLimiterIntervalInMS=0\n"
        f"DigestAuthenticationProvider.superDigest={digest_id(b'u:p')}\n"
    )
    url, backup = f"http://127.0.0.1:{admin}", tmp_path / "backup"
    with serve(config) as server:
        server.ready()
        client = KazooClient(f"127.0.0.1:{port}")
        client.start(240)
        client.create("/kept", b"data")
        refused = CliRunner().invoke(zab, ["snapshot", "take", url, str(backup)])
        assert refused.exit_code == 1
        assert "give credentials with --auth" in refused.output
        assert not backup.exists()
        wrong = CliRunner().invoke(zab, ["snapshot", "take", f"http://127.0.0.1:{port}", str(backup)])
        assert "name the admin port (admin.serverPort) instead" in wrong.output
        taken = CliRunner().invoke(zab, ["snapshot", "take", url, str(backup), "--auth", "digest:u:p"])
        assert taken.exit_code == 0, taken.output
        client.stop()
        client.close()
        assert server.stop() == 0
    gone = CliRunner().invoke(zab, ["snapshot", "take", url, str(tmp_path / "other"), "--auth", "digest:u:p"])
    assert (gone.exit_code, len(gone.output.splitlines())) == (1, 1)
    assert CliRunner().invoke(zab, ["import", str(backup), str(tmp_path / "new")]).exit_code == 0
    dumped = CliRunner().invoke(zab, ["snapshot", "dump", str(tmp_path / "new"), "--under", "/kept", "-d"])
    assert "data='data'" in dumped.output or "data=data" in dumped.output


def test_a_changed_membership_is_written_back(tmp_path: Path) -> None:
    configs, ports = three_configs(tmp_path)
    for config in configs:
        config.write_text(config.read_text() + "reconfigEnabled=true\nskipACL=yes\n")
    with ExitStack() as stack:
        servers = [stack.enter_context(serve(config)) for config in configs]
        for server in servers:
            server.ready()
        client = KazooClient(f"127.0.0.1:{ports[0]}", timeout=20)
        client.start(240)
        client.reconfig(joining=None, leaving="3", new_members=None)
        client.stop()
        client.close()
        for config in configs[:2]:
            while "dynamicConfigFile=" not in config.read_text():
                time.sleep(0.1)
        for server in servers:
            server.stop()
        for config in configs[:2]:
            assert "server.3" not in config.read_text()
            assert "server.3" in config.with_name(config.name + ".bak").read_text()
        again = [stack.enter_context(serve(config)) for config in configs[:2]]
        for server in again:
            server.ready()
        assert [server.stop() for server in again] == [0, 0]


def test_tls_for_clients_and_between_servers(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    issued = authority.issue_cert("127.0.0.1", common_name="everybody")
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "me.pem"))
    stores = f"keyStore.location={tmp_path}/me.pem", f"trustStore.location={tmp_path}/ca.pem"
    configs, _ = three_configs(tmp_path)
    secure = [free_port() for _ in configs]
    for config, port in zip(configs, secure, strict=True):
        lines = [f"{kind}.{each}" for kind in ("ssl", "ssl.quorum") for each in stores]
        config.write_text(
            config.read_text() + f"secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\nsslQuorum=true\n"
            "ssl.quorum.clientHostnameVerification=false\n" + "\n".join(lines) + "\n"
        )
    with ExitStack() as stack:
        servers = [stack.enter_context(serve(config)) for config in configs]
        for server in servers:
            server.ready()
        client = KazooClient(
            ",".join(f"127.0.0.1:{port}" for port in secure),
            use_ssl=True,
            ca=str(tmp_path / "ca.pem"),
            certfile=str(tmp_path / "me.pem"),
            keyfile=str(tmp_path / "me.pem"),
        )
        client.start(240)
        client.create("/over-tls", b"x")
        client.stop()
        client.close()
        assert [server.stop() for server in servers] == [0, 0, 0]
    assert not [server.log.read_text() for server in servers if "WARNING handshake" in server.log.read_text()]


def test_json_logs_contain_only_objects(tmp_path: Path) -> None:
    """This includes a failed start."""
    config = tmp_path / "zoo.cfg"
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        good = f"dataDir={tmp_path}/data\nclientPortAddress=127.0.0.1\nclientPort={taken}\n"
        for text, status, event in ((good, 1, "failed"), (f"{good}tickTime=fast\nother=1\n", 2, "configuration")):
            config.write_text(text)
            with serve(config, "--log-format", "json") as server:
                assert server.process.wait(timeout=120) == status
            said = [json.loads(line) for line in server.log.read_text().splitlines()]
            assert (said[-1]["event"], said[-1]["level"]) == (event, "error")
            config.with_suffix(".log").unlink()
    assert "tickTime=fast: expected" in said[-1]["what"]
