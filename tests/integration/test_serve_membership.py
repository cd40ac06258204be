"""The servers of a configuration file against those that the data directories remember, with whole processes."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.ports import free_port, free_ports
from tests.integration.apache import ask
from tests.integration.served import Served, serve, three_configs
from zab.cli.root import zab
from zab.store.acl import digest_id

pytest.importorskip("kazoo", reason="kazoo is not installed")

from kazoo.client import KazooClient

pytestmark = pytest.mark.slow

PATIENCE_S = 240
GROWS = "reconfigEnabled=true\nquorum.admitNonMembers=true\n"
SUPER = f"DigestAuthenticationProvider.superDigest={digest_id(b'super:secret')}"
FORCE = "--membership-from-file"


def client_of(port: int) -> KazooClient:
    client = KazooClient(f"127.0.0.1:{port}", timeout=20)
    client.start(PATIENCE_S)
    return client


def write(port: int, path: str) -> None:
    client = client_of(port)
    client.create(path, b"kept")
    client.stop()
    client.close()


def has(port: int, path: str) -> bool:
    client = client_of(port)
    client.sync("/")
    found = client.exists(path) is not None
    client.stop()
    client.close()
    return found


def modes(ports: list[int]) -> list[str]:
    return sorted(line for port in ports for line in ask(port, "srvr").splitlines() if line.startswith("Mode"))


def config(folder: Path, sid: int, port: int, servers: str, more: str = "") -> Path:
    data = folder / f"data{sid}"
    data.mkdir(exist_ok=True)
    (data / "myid").write_text(f"{sid}\n")
    path = folder / f"zoo{sid}.cfg"
    path.write_text(
        f"tickTime=400\ninitLimit=25\nsyncLimit=10\ndataDir={data}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        f"4lw.commands.whitelist=*\n{more}{servers}"
    )
    return path


def line(sid: int, client: int | None = None) -> str:
    return f"server.{sid}=127.0.0.1:{free_port()}:{free_port()}" + ("" if client is None else f";127.0.0.1:{client}")


def started(stack: ExitStack, configs: list[Path], *options: str) -> list[Served]:
    return [stack.enter_context(serve(each, *options)) for each in configs]


def refused(path: Path, *options: str) -> str:
    """Start a server that refuses its file, and return its output."""
    path.with_suffix(".log").unlink(missing_ok=True)
    with serve(path, *options) as server:
        assert server.process.wait(timeout=PATIENCE_S) == 2
    return server.log.read_text()


def test_growing_from_one_to_three_as_documented(tmp_path: Path) -> None:
    ports = free_ports(3)
    lines = [line(sid, port) for sid, port in enumerate(ports, start=1)]
    three = "".join(f"{each}\n" for each in lines)
    one = config(tmp_path, 1, ports[0], "")
    with serve(one) as server:
        server.ready()
        write(ports[0], "/alone")
        assert server.stop() == 0

    for more in ("", "reconfigEnabled=true\n"):
        one = config(tmp_path, 1, ports[0], three, more)
        before = one.read_text()
        told = refused(one)
        assert "served alone until now" in told
        assert "docs/howto/grow-a-server.md" in told
        assert (one.read_text(), sorted(each.name for each in tmp_path.glob("*.dynamic*"))) == (before, [])
    assert "could elect one of themselves" in refused(one, FORCE)

    one = config(tmp_path, 1, ports[0], f"{lines[0]}\n", f"{GROWS}{SUPER}\n")
    one.write_text(
        one.read_text().replace("initLimit=25\nsyncLimit=10\n", "")
    )  # nobody asks for them while it is alone
    new = "\n".join([lines[0], *(each.replace(";", ":observer;") for each in lines[1:])])
    others = [config(tmp_path, sid, ports[sid - 1], new, "reconfigEnabled=true\n") for sid in (2, 3)]
    with ExitStack() as stack:
        (leader,) = started(stack, [one])
        assert "it leads" in leader.ready()
        joining = started(stack, others)
        for each in joining:
            assert "IS NOT A MEMBER" in each.said.get(timeout=PATIENCE_S) + each.said.get(timeout=PATIENCE_S)
        words = [
            "--server",
            f"127.0.0.1:{ports[0]}",
            "--auth",
            "digest:super:secret",
            "reconfig",
            "-add",
            ",".join(lines[1:]),
        ]
        done = CliRunner().invoke(zab, ["shell", *words])
        assert done.exit_code == 0, done.output
        for each in joining:
            assert "it follows server 1" in each.ready()
        assert all(has(port, "/alone") for port in ports)
        write(ports[2], "/together")
        while not all("dynamicConfigFile" in each.read_text() for each in (one, *others)):
            assert leader.process.poll() is None
        assert modes(ports) == ["Mode: follower", "Mode: follower", "Mode: leader"]
        assert [each.stop() for each in (leader, *joining)] == [0, 0, 0]
    assert "keys='initLimit, syncLimit'" in leader.log.read_text()
    assert not any("client_port_not_moved" in each.log.read_text() for each in (leader, *joining))
    with ExitStack() as stack:  # each has a vote: two of them are enough
        servers = started(stack, [one, others[0]], "-D", "tickTime=1000")
        for each in servers:
            each.ready()
        assert has(ports[1], "/together")
        assert "initLimit is missing, and an ensemble needs it" in servers[0].log.read_text()
        assert "warning" not in servers[1].log.read_text()


def test_edited_lines_are_refused_and_the_file_stays(tmp_path: Path) -> None:
    configs, ports = three_configs(tmp_path)
    with ExitStack() as stack:
        servers = started(stack, configs)
        for each in servers:
            each.ready()
        write(ports[0], "/kept")
        assert [each.stop() for each in servers] == [0, 0, 0]
    text = configs[0].read_text()
    (old,) = [each for each in text.splitlines() if each.startswith("server.3=")]
    edited = text.replace(old, line(3)) + f"{line(4)}\n"
    configs[0].write_text(edited)
    told = refused(configs[0])
    assert f"stored: {old}" in told
    assert "only in the file: server.4=" in told
    assert FORCE in told
    assert refused(configs[0], "--check") == told
    assert configs[0].read_text() == edited
    configs[0].write_text(text)
    with ExitStack() as stack:
        servers = started(stack, configs)
        for each in servers:
            each.ready()
        assert has(ports[2], "/kept")


def test_the_file_by_force_moves_one_and_adds_two(tmp_path: Path) -> None:
    ports = free_ports(5)
    lines = [line(sid) for sid in (1, 2, 3)]
    configs = [config(tmp_path, sid, ports[sid - 1], "\n".join(lines)) for sid in (1, 2, 3)]
    with ExitStack() as stack:
        servers = started(stack, configs)
        for each in servers:
            each.ready()
        write(ports[0], "/kept")
        assert [each.stop() for each in servers] == [0, 0, 0]
    lines = [*lines[:2], *(line(sid) for sid in (3, 4, 5))]
    configs = [config(tmp_path, sid, ports[sid - 1], "\n".join(lines)) for sid in range(1, 6)]
    for options in ((FORCE,), ()):
        with ExitStack() as stack:
            servers = started(stack, configs, *options)
            for each in servers:
                each.ready()
            assert all(has(port, "/kept") for port in ports)
            assert modes(ports) == ["Mode: follower"] * 4 + ["Mode: leader"]
            assert [each.stop() for each in servers] == [0] * 5
    assert servers[0].log.read_text().count("FROM NOW ON") == 1
    with ExitStack() as stack:  # the moved and the new ones are a majority
        servers = started(stack, configs[2:])
        for each in servers:
            each.ready()
        assert has(ports[4], "/kept")


def test_removed_server_logs_it_and_keeps_its_file(tmp_path: Path) -> None:
    configs, ports = three_configs(tmp_path)
    for each in configs:
        each.write_text(each.read_text() + "reconfigEnabled=true\nskipACL=yes\n")
    with ExitStack() as stack:
        servers = started(stack, configs)
        for server in servers:
            server.ready()
        text = configs[2].read_text()
        client = client_of(ports[0])
        client.reconfig(joining=None, leaving="3", new_members=None)
        client.stop()
        client.close()
        while "not_a_member" not in servers[2].log.read_text():
            assert servers[2].process.poll() is None
        assert servers[2].stop() == 0
        assert configs[2].read_text() == text
        (again,) = started(stack, configs[2:])
        assert "IS NOT A MEMBER" in again.said.get(timeout=PATIENCE_S) + again.said.get(timeout=PATIENCE_S)
        assert "Server 3 is not a member in the stored membership: it was removed" in again.log.read_text()
        assert again.stop() == 0
    configs[2].write_text("".join(each for each in text.splitlines(True) if not each.startswith("server.3")))
    assert "a reconfiguration has removed it" in refused(configs[2])
