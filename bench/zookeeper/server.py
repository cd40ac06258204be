"""One server of the store in a process of its own, commanded through stdin."""

from __future__ import annotations

import argparse
import cProfile
import io
import json
import logging
import os
import pstats
from functools import partial
from pathlib import Path
from typing import Any

import trio
from attrs import asdict

import zab
from bench.worker import commands
from zab.runtime.alone import PAUSE_US, tune_collector
from zab.runtime.coordination.opening import open_store
from zab.runtime.coordination.server import StoreServer

Answer = dict[str, Any]


class Bench:
    def __init__(self, server: StoreServer) -> None:
        self._server = server
        self._profile: cProfile.Profile | None = None

    async def status(self, serving_within_s: float = 0.0) -> Answer:
        with trio.move_on_after(serving_within_s):
            while not self._server.ready:
                await trio.sleep(0.005)
        status = self._server.member.status()
        return {
            "serving": self._server.ready,
            "leader": status.role.leader,
            "port": self._server.client_port,
            "counters": asdict(status.counters),
        }

    async def profile(self, path: str | None = None, lines: int = 60) -> Answer:
        """The first call begins; the second ends, and writes what took its time."""
        if self._profile is None:
            self._profile = cProfile.Profile()
            self._profile.enable()
            return {}
        self._profile.disable()
        text = io.StringIO()
        pstats.Stats(self._profile, stream=text).sort_stats("tottime").print_stats(lines)
        self._profile = None
        if path:
            Path(path).write_text(text.getvalue())
        return {}


async def serve(arguments: argparse.Namespace) -> None:
    ensemble = zab.Ensemble.parse(Path(arguments.ensemble).read_text())
    server_id = zab.ServerId(arguments.id)
    limits = zab.Limits(pause_us_max=PAUSE_US)  # as `zab serve` has them
    async with open_store(
        arguments.data, client_port=0, server_id=server_id, ensemble=ensemble, limits=limits
    ) as server:
        tune_collector()
        bench = Bench(server)
        async for command in commands():
            do = getattr(bench, command.pop("do"))
            try:
                answer = await partial(do, **command)()
            except Exception as error:
                answer = {"error": repr(error)}
                logging.exception("command failed")
            print(json.dumps(answer), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--id", type=int, required=True)
    parser.add_argument("--ensemble", required=True, help="a file of server.N lines")
    parser.add_argument("--data", required=True)
    arguments = parser.parse_args()
    form = "%(asctime)s.%(msecs)03d %(message)s"
    logging.basicConfig(level=os.environ.get("ZAB_LOG", "INFO"), format=form, datefmt="%H:%M:%S")
    trio.run(serve, arguments)


if __name__ == "__main__":
    main()
