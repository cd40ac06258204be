"""One server of the store in a process of its own, commanded through stdin."""

from __future__ import annotations

import argparse
from pathlib import Path

import trio
from attrs import asdict

import zab
from bench.commanded import Answer, Profiled, answer_commands, log_to_stderr
from bench.counting import Counting
from zab.host.process_tuning import PAUSE_US, tune_collector
from zab.net.loop_wait import claim_this_loop
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.runtime.store_server.open_store import open_store
from zab.runtime.store_server.server_runtime import ServerRuntime


class Bench(Profiled):
    def __init__(self, server: ServerRuntime) -> None:
        super().__init__()
        self._server = server
        self._counting = Counting()

    async def count(self, calls: bool = False) -> Answer:
        """Begin to."""
        self._before = self._server.member.status().counters
        self._counting.begin(calls)
        return {}

    async def counted(self) -> Answer:
        counted, before, now = self._counting.end(), self._before, self._server.member.status().counters
        turns, syncs = now.turns - before.turns, now.fsyncs - before.fsyncs
        return {**counted, "turns of the member": turns, "syncs of the disk": syncs}

    async def status(self, serving_within_s: float = 0.0) -> Answer:
        with trio.move_on_after(serving_within_s):
            while not self._server.clients.ready:
                await trio.sleep(0.005)
        status = self._server.member.status()
        return {
            "serving": self._server.clients.ready,
            "leader": status.role.leader,
            "port": self._server.ports.client,
            "counters": asdict(status.counters),
        }


async def serve(arguments: argparse.Namespace) -> None:
    if not arguments.embedded:
        claim_this_loop()
    ensemble = zab.Ensemble.parse(Path(arguments.ensemble).read_text())
    server_id = zab.ServerId(arguments.id)
    limits = zab.Limits(pause_us_max=PAUSE_US)  # as `zab serve` has them
    async with open_store(
        arguments.data,
        client_port=arguments.client_port,
        server_id=server_id,
        ensemble=ensemble,
        limits=limits,
        settings=zab.Settings(tick_ms=arguments.tick_ms),
        client_ports=ClientPortSettings(connections_per_host_max=0),  # all clients of a bench come from one address
    ) as server:
        tune_collector()
        await answer_commands(Bench(server._server))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--id", type=int, required=True)
    parser.add_argument("--ensemble", required=True, help="a file of server.N lines")
    parser.add_argument("--data", required=True)
    parser.add_argument("--client-port", type=int, default=0)
    parser.add_argument("--tick-ms", type=int, default=zab.Settings().tick_ms)
    parser.add_argument("--embedded", action="store_true", help="wait as a store in another application does")
    arguments = parser.parse_args()
    log_to_stderr()
    trio.run(serve, arguments)


if __name__ == "__main__":
    main()
