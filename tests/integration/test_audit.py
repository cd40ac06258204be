"""The audit log: the lines for the changes of clients."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
import trio
from attrs import evolve

from tests.integration import apache
from tests.integration.stores import PORTS, stores
from tests.integration.test_client_port import Client, raw
from zab.core.errors import ConfigError
from zab.runtime.store_server.audit import Audit, AuditSettings
from zab.store.acl import OPEN
from zab.store.error_codes import ErrorCode
from zab.store.operations import CreateFlag, Op
from zab.wire.client.requests import AUTH_XID, encode_request

MINE = ((31, "digest", "bob:+owfoSBn/am19roBPzR1/MfCblE="), (1, "world", "anyone"))


async def doings(client: Client) -> None:
    """Writes of every kind, some of which are refused."""
    requests = [
        encode_request(Op.AUTH, AUTH_XID, (0, "digest", b"bob:secret")),
        encode_request(Op.CREATE, 1, ("/a", b"x", OPEN, CreateFlag.PERSISTENT)),
        encode_request(Op.CREATE2, 2, ("/a/s-", b"", OPEN, CreateFlag.EPHEMERAL_SEQUENTIAL)),
        encode_request(Op.CREATE_CONTAINER, 3, ("/c", b"", OPEN, CreateFlag.CONTAINER)),
        encode_request(Op.CREATE, 4, ("/a", b"x", OPEN, CreateFlag.PERSISTENT)),
        encode_request(Op.SET_DATA, 5, ("/a", b"y", -1)),
        encode_request(Op.SET_DATA, 6, ("/a", b"y", 7)),
        encode_request(Op.SET_ACL, 7, ("/c", MINE, -1)),
        encode_request(Op.GET_DATA, 8, ("/a", False)),
        encode_request(
            Op.MULTI,
            9,
            ((Op.CHECK, ("/a", -1)), (Op.CREATE, ("/m", b"", OPEN, 0)), (Op.SET_DATA, ("/m", b"", -1))),
        ),
        encode_request(Op.MULTI, 10, ((Op.DELETE, ("/m", -1)), (Op.CHECK, ("/none", -1)))),
        encode_request(Op.DELETE, 11, ("/m", -1)),
        encode_request(Op.DELETE, 12, ("/none", -1)),
    ]
    for request in requests:  # one after the other: where they are answered together, their order is not promised
        await client.ask(request)
    await client.ask(encode_request(Op.CLOSE_SESSION, 13))


def fields(line: str) -> dict[str, str]:
    return dict(part.partition("=")[::2] for part in line[line.index("session=") :].rstrip("\n").split("\t"))


ASKED = [
    "create znode=/a type=persistent success",
    "create znode=/a/s-0000000000 type=ephemeral_sequential success",
    "create znode=/c type=container success",
    "create znode=/a type=persistent failure",
    "setData znode=/a success",
    "setData znode=/a failure",
    "setAcl znode=/c acl=digest:bob:+owfoSBn/am19roBPzR1/MfCblE=:cdrwaworld:anyone:r success",
    "create znode=/m type=persistent success",
    "setData znode=/m success",
    "multiOperation failure",
    "delete znode=/m success",
    "delete znode=/none failure",
    "ephemeralZNodeDeletionOnSessionCloseOrExpire znode=/a/s-0000000000 success",
]


def short(told: dict[str, str]) -> str:
    parts = [told["operation"]]
    parts += [f"{key.replace('znode_', '')}={told[key]}" for key in ("znode", "znode_type", "acl") if key in told]
    return " ".join((*parts, told["result"]))


async def test_audit_lines_of_each_operation(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with (
        stores(tmp_path, client_ports=evolve(PORTS, audit=AuditSettings())) as running,
        raw(running) as client,
    ):
        await client.connect()
        await doings(client)
        session = f"{client.session:#x}"
    records = [record for record in caplog.records if record.name == "zab.audit"]
    lines = [record.getMessage() for record in records]
    assert (lines[0].partition("\t")[2], lines[-1].partition("\t")[2]) == (
        "operation=serverStart\tresult=success",
        "operation=serverStop\tresult=invoked",
    )
    told = [fields(line) for line in lines[1:-1]]
    assert [short(each) for each in told] == ["authenticate success", *ASKED]
    assert {each["session"] for each in told} == {session}
    assert {(each["user"], each["ip"]) for each in told if "ip" in each} == {("127.0.0.1,bob", "127.0.0.1")}
    assert list(told[1]) == ["session", "user", "ip", "operation", "znode", "znode_type", "result"]
    failed = {record.levelno for record in records if "result=failure" in record.getMessage()}
    assert failed == {logging.ERROR}


async def test_into_a_file_that_is_rotated(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    client_ports = evolve(PORTS, audit=AuditSettings(str(path)))

    def rotate() -> str:
        path.rename(tmp_path / "old")
        return (tmp_path / "old").read_text()

    async with stores(tmp_path / "data", client_ports=client_ports) as running, raw(running) as client:
        await client.connect()
        await client.ask(encode_request(Op.CREATE, 1, ("/a", b"", OPEN, 0)))
        first = rotate()
        assert "operation=create\tznode=/a" in first
        assert re.match(r"[0-9-]{10}T[0-9:.]{12}[+-][0-9]{2}:[0-9]{2} INFO audit: ", first)
        await client.ask(encode_request(Op.CREATE, 2, ("/b", b"", OPEN, 0)))
    written = path.read_text()
    assert "znode=/b" in written
    assert "znode=/a" not in written


async def test_clients_cannot_forge_an_audit_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with (
        stores(tmp_path, client_ports=evolve(PORTS, audit=AuditSettings())) as running,
        raw(running) as client,
    ):
        await client.connect()
        evil = b"x\nsession=0x1\tuser=root\toperation=delete"
        await client.ask(encode_request(Op.AUTH, AUTH_XID, (0, "digest", evil + b":p")))
        await client.ask(encode_request(Op.CREATE, 1, ("/a", b"", OPEN, 0)))
    (line,) = [record.getMessage() for record in caplog.records if "znode=/a" in record.getMessage()]
    assert fields(line)["user"] == "127.0.0.1,x\\nsession=0x1\\tuser=root\\toperation=delete"


async def test_audit_that_raises_costs_one_connection_and_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raises(*_: object) -> None:
        raise KeyError("unforeseen")

    audited = evolve(PORTS, audit=AuditSettings())
    async with stores(tmp_path, client_ports=audited) as running, raw(running) as client, raw(running) as other:
        await client.connect()
        await other.connect()
        with monkeypatch.context() as patched:
            patched.setattr(Audit, "_written", raises)
            await client.stream.send_all(encode_request(Op.CREATE, 1, ("/a", b"", OPEN, 0)))
            assert await client.rest() == []
        [reply] = await other.ask(encode_request(Op.GET_DATA, 1, ("/a", False)))
        assert reply[2] == ErrorCode.OK


def test_a_file_that_cannot_be_written() -> None:
    with pytest.raises(ConfigError, match="audit.file=/nowhere/at/all: No such file"):
        Audit(AuditSettings("/nowhere/at/all"))


@apache.needs_apache
@pytest.mark.slow
async def test_apache_writes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the proofs, the types of nodes in a multi, and the order of a client's users."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dlog4j2.level=INFO")
    with apache.running(tmp_path, **{"audit.enable": "true"}) as server:
        async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
            client = Client(stream)
            await client.connect()
            await doings(client)
    log = (tmp_path / "server.log").read_text()
    told = [fields(line) for line in log.splitlines() if "session=" in line and "\toperation=" in line]
    assert [short(each) for each in told] == ASKED
    assert {frozenset(each["user"].split(",")) for each in told if "ip" in each} == {frozenset({"127.0.0.1", "bob"})}
