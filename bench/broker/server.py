"""One of our brokers in a process of its own, as `zab-broker serve` runs it, commanded through stdin."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

import trio

from bench.commanded import Answer, Profiled, answer_commands, log_to_stderr
from replica.cli.properties.plan import read_plan
from replica.runtime.broker import Broker


class Bench(Profiled):
    async def status(self) -> Answer:
        return {}


async def serve(properties: Path) -> None:
    broker = Broker(read_plan(properties, {}).config)
    async with trio.open_nursery() as nursery:
        await nursery.start(broker.run)
        await answer_commands(Bench())
        await broker.leave()
        nursery.cancel_scope.cancel()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("properties", type=Path)
    arguments = parser.parse_args()
    log_to_stderr()
    logging.getLogger().setLevel(logging.WARNING)
    trio.run(serve, arguments.properties)


if __name__ == "__main__":
    main()
