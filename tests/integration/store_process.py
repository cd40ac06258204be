"""A server of the store in a process of its own: `python -m tests.integration.store_process ID ENSEMBLE PATH PORT`."""

from __future__ import annotations

import sys

import trio

from tests.integration.cluster import FAST
from tests.integration.stores import PORTS
from zab.core.ensemble import Ensemble
from zab.runtime.store_server.open_store import open_store


async def main(sid: int, ensemble: Ensemble, path: str, port: int) -> None:
    async with open_store(path, server_id=sid, ensemble=ensemble, client_port=port, settings=FAST, client_ports=PORTS):
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]), Ensemble.parse(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
