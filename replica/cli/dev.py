"""Run a cluster of brokers on loopback, in this process, with the servers of the store that they need.

Brokers and servers have sockets and disks of their own, as if they were machines; any Kafka client can talk to each
broker, any ZooKeeper client to each server. What to try is printed when they are ready. Ctrl-C ends it; the data stays.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

import trio

from kraft_controller.cli.common import DONE, Misuse
from kraft_controller.core.names import BrokerId
from replica.cli.running import run
from replica.core.groups.desk import Settings as GroupSettings
from replica.core.settings import Settings as ReplicationSettings
from replica.runtime.broker import Broker
from replica.runtime.config import BrokerConfig, Listener, OffsetsTopicSettings
from replica.storage.config import LogConfig
from zab.cli.dev import HOST, PORT_BASE_MAX, PORT_BASE_MIN, SERVERS_MAX, Layout, layout_of, start_servers
from zab.cli.logs import log_to_stderr
from zab.cli.running import Misused, stop_on_signal
from zab.core.ready import Settings

BROKERS_MAX: Final = 9
PORT_BASE: Final = 9092
_LEVELS: Final = ("debug", "info", "warning", "error")


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--brokers", type=int, default=3, help="how many brokers (default 3)")
    parser.add_argument("--servers", type=int, help="how many servers of the store (default 3, or what the data has)")
    parser.add_argument("--data", type=Path, default=Path("data"), help="where all of them keep theirs (default data)")
    parser.add_argument("--port-base", type=int, default=PORT_BASE, help="of broker 1, others follow (default 9092)")
    parser.add_argument("--store-port-base", type=int, help="of server 1 (default 2181, or what the data has)")
    parser.add_argument("--log-level", choices=_LEVELS, default="warning", help="on stderr (default warning)")


def act(arguments: argparse.Namespace) -> int:
    _within("--brokers", arguments.brokers, 1, BROKERS_MAX)
    _within("--servers", arguments.servers, 1, SERVERS_MAX)
    _within("--port-base", arguments.port_base, PORT_BASE_MIN, PORT_BASE_MAX)
    _within("--store-port-base", arguments.store_port_base, PORT_BASE_MIN, PORT_BASE_MAX)
    try:
        layout = layout_of(arguments.data, arguments.servers, arguments.store_port_base)
    except Misused as error:
        raise Misuse(error.message) from None
    log_to_stderr(arguments.log_level, "text")
    run(_run, arguments.data, layout, configs(arguments.data, layout, arguments.brokers, arguments.port_base))
    return DONE


def _within(option: str, number: int | None, least: int, most: int) -> None:
    if number is not None and not least <= number <= most:
        raise Misuse(f"{option} {number}: it is from {least} to {most}")


def configs(data: Path, layout: Layout, brokers: int, port_base: int) -> list[BrokerConfig]:
    """Every topic on three brokers, if there are so many, and what is acknowledged on two of them."""
    copies = min(brokers, 3)
    insync = 2 if copies > 2 else 1
    return [
        BrokerConfig(
            BrokerId(number),
            (data / "brokers" / str(number),),
            store=layout.hosts,
            listeners=(Listener("PLAINTEXT", HOST, port_base + number - 1),),
            partitions=3,
            replication_factor=copies,
            log=LogConfig(min_insync_replicas=insync),
            replication=ReplicationSettings(min_insync=insync),
            offsets=OffsetsTopicSettings(factor=copies),
            groups=GroupSettings(group_initial_rebalance_delay_ms=0),
            session_timeout_ms=6_000,
        )
        for number in range(1, brokers + 1)
    ]


async def _run(data: Path, layout: Layout, wanted: list[BrokerConfig]) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(stop_on_signal, nursery.cancel_scope)
        async with trio.open_nursery() as inner:
            await start_servers(inner, data, layout, Settings())
            brokers = [Broker(config) for config in wanted]
            async with trio.open_nursery() as starting:
                for broker in brokers:
                    starting.start_soon(inner.start, broker.run)
            print(introduction(data, layout, brokers), flush=True)


def introduction(data: Path, layout: Layout, brokers: list[Broker]) -> str:
    hosts = ",".join(f"{HOST}:{broker.ports['PLAINTEXT']}" for broker in brokers)
    counted = f"{len(brokers)} broker{'s' * (len(brokers) > 1)} and {layout.servers} servers of the store"
    return f"""\
{counted} run in this process; the controller is broker {brokers[0].who_controls()}.

  Kafka clients:      {hosts}
  ZooKeeper clients:  {layout.hosts}

Try, in another terminal:

  kcat -b {hosts} -L
  zab-broker topics --help
  zab-broker brokers list --store {layout.hosts}
  zab status --server {layout.hosts}

Ctrl-C ends it; the data stays in {data}, and the next start finds it again."""
