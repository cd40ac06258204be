"""A client's request that holds up the server is named in the log and turns the server's health."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from attrs import evolve

import zab
from tests.integration.http_client import get
from tests.integration.stores import PORTS, stores
from zab.admin.admin_settings import AdminSettings
from zab.host.watchdog import STALL_S
from zab.runtime.store_server.security_settings import SecuritySettings
from zab.store.acl import Identity


class SlowScheme:
    """An authentication scheme with a rule that blocks the event loop."""

    scheme = "slow"
    proves = True

    def authenticate(self, credentials: bytes, host: str) -> Iterable[Identity] | None:
        return [("slow", credentials.decode())]

    def id_is_valid(self, name: str) -> bool:
        return True

    def matches(self, name: str, identity: str) -> bool:
        time.sleep(STALL_S + 0.1)
        return name == identity


async def test_slow_read_and_slow_write_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    client_ports = evolve(PORTS, security=SecuritySettings(providers={"slow": SlowScheme()}))
    admin = (AdminSettings("127.0.0.1", 0),)
    with caplog.at_level(logging.WARNING, "zab"):
        async with stores(tmp_path, 1, client_ports=client_ports, admin=admin) as made:
            await made.leader()
            async with zab.connect(made.hosts(), timeout_ms=20_000) as session:
                await session.add_auth("slow", b"joe")
                await session.create("/slow", b"", acl=((31, "slow", "joe"),))
                assert (await get(made.servers[1].ports.admin, "/status.json")).json["health"] == "healthy"
                await session.get("/slow")
                await session.set("/slow", b"new")
                stalls = [record.getMessage() for record in caplog.records if "loop_stalled" in record.getMessage()]
                assert any("'client requests'" in line and "1 get_data of session 0x" in line for line in stalls)
                assert any("preparing set_data of session 0x" in line for line in stalls)
                status = (await get(made.servers[1].ports.admin, "/status.json")).json
                assert status["health"] == "degraded"
                assert any("was held up for" in warning["text"] for warning in status["warnings"])
                body = (await get(made.servers[1].ports.admin, "/metrics")).body.decode()
                (line,) = [line for line in body.splitlines() if line.startswith("zab_loop_stalls ")]
                assert float(line.split()[1]) >= 2


async def test_slow_transaction_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "zab"):
        async with stores(tmp_path, 1) as made:
            await made.leader()
            async with zab.connect(made.hosts(), timeout_ms=20_000) as session:
                await session.create("/slow", b"")
                machine = made.servers[1].machine
                apply = machine.apply

                def slowly(zxid: int, txn: bytes) -> object:
                    if b"/slow" in txn:
                        time.sleep(STALL_S + 0.1)
                    return apply(zxid, txn)

                machine.apply = slowly  # type: ignore[method-assign, assignment]
                await session.set("/slow", b"new")
        stalls = [record.getMessage() for record in caplog.records if "loop_stalled" in record.getMessage()]
        assert any("applying set_data of session 0x" in line for line in stalls), stalls
