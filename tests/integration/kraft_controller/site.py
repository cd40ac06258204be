"""A cluster without disks: a store with a port, brokers that are registered and obey, controllers, and commands."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import trio
from attrs import frozen

import zab
from kraft_controller.core.names import BrokerEpoch, BrokerId
from kraft_controller.core.state import Broker, Endpoint
from kraft_controller.wire import znodes
from replica.cli import main

SECONDS = 60


@frozen
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Site:
    def __init__(self, store: zab.StoreServer, session: zab.Session) -> None:
        self.store = store
        self.session = session
        self.at = f"127.0.0.1:{store.client_port}"

    async def command(self, *words: str) -> Said:
        """As a person types it."""
        return await trio.to_thread.run_sync(lambda: command(*words, "--store", self.at))

    async def register(self, number: int, rack: str | None = None) -> None:
        ends = (Endpoint("PLAINTEXT", f"h{number}", 9092),)
        known = Broker(BrokerId(number), BrokerEpoch(0), ends, {"PLAINTEXT": "PLAINTEXT"}, rack)
        await self.session.create(znodes.broker_path(BrokerId(number)), znodes.broker(known, 1), ephemeral=True)


def command(*words: str) -> Said:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code: Any = main(words)
        except SystemExit as end:
            code = end.code
    return Said(int(code), out.getvalue(), err.getvalue())


@asynccontextmanager
async def site(path: Path, racks: Mapping[int, str | None] | None = None) -> AsyncIterator[Site]:
    async with zab.open_store(path, client_port=0) as store, store.session() as session:
        for node in znodes.PERSISTENT:
            await session.ensure_path(node)
        made = Site(store, session)
        for number, rack in (racks or {}).items():
            await made.register(number, rack)
        yield made


def run(test: Callable[[], Any]) -> None:
    async def bounded() -> None:
        with trio.fail_after(SECONDS):
            await test()

    trio.run(bounded)
