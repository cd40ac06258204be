"""Run a cluster of brokers on loopback, in this process, with the servers of the store that they need.

Brokers and servers have sockets and disks of their own, as if they were machines; any Kafka client can talk to each
broker, any ZooKeeper client to each server. What to try is printed when they are ready. Ctrl-C ends it; the data stays.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Final

import trio

from kraft_controller.cli.common import DONE, Misuse
from kraft_controller.core.names import BrokerId
from replica.cli.running import run
from replica.core.groups.desk import Settings as GroupSettings
from replica.core.settings import Settings as ReplicationSettings
from replica.runtime.admin.operators import Operators
from replica.runtime.broker import Broker
from replica.runtime.config import BrokerConfig, Listener, OffsetsTopicSettings, TransactionsTopicSettings
from replica.storage.config import LogConfig
from zab.cli.dev import HOST, PORT_BASE_MAX, PORT_BASE_MIN, SERVERS_MAX, Layout, free_or_any, layout_of, start_servers
from zab.cli.logs import FORMATS, LEVELS, log_to_stderr
from zab.cli.running import Misused, stop_on_signal
from zab.core.ready import Settings
from zab.runtime.admin.settings import AdminSettings
from zab.runtime.alone import raise_open_files
from zab.runtime.watchdog import LoopMonitor

BROKERS_MAX: Final = 9
PORT_BASE: Final = 9092
OPERATORS_OFFSET: Final = 216
"""From 9092 to 9308, where exporters of Kafka's measurements are used to be."""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--brokers", type=int, default=3, help="how many brokers (default 3)")
    parser.add_argument("--servers", type=int, help="how many servers of the store (default 3, or what the data has)")
    parser.add_argument("--data", type=Path, default=Path("data"), help="where all of them keep theirs (default data)")
    parser.add_argument("--port-base", type=int, default=PORT_BASE, help="of broker 1, others follow (default 9092)")
    parser.add_argument("--store-port-base", type=int, help="of server 1 (default 2181, or what the data has)")
    parser.add_argument(
        "--tick-ms",
        type=int,
        default=Settings().tick_ms,
        help=f"the store's unit of time (default {Settings().tick_ms})",
    )
    parser.add_argument("--log-level", choices=LEVELS, default="warning", help="on stderr (default warning)")
    parser.add_argument(
        "--log-format", choices=FORMATS, default="text", help="for people or for machines (default text)"
    )


def act(arguments: argparse.Namespace) -> int:
    _within("--brokers", arguments.brokers, 1, BROKERS_MAX)
    _within("--servers", arguments.servers, 1, SERVERS_MAX)
    _within("--port-base", arguments.port_base, PORT_BASE_MIN, PORT_BASE_MAX)
    _within("--store-port-base", arguments.store_port_base, PORT_BASE_MIN, PORT_BASE_MAX)
    _within("--tick-ms", arguments.tick_ms, 10, 60_000)
    try:
        layout = layout_of(arguments.data, arguments.servers, arguments.store_port_base)
    except Misused as error:
        raise Misuse(error.message) from None
    log_to_stderr(arguments.log_level, arguments.log_format)
    wanted = configs(arguments.data, layout, arguments.brokers, arguments.port_base)
    raise_open_files()
    run(_run, arguments.data, layout, wanted, Settings(tick_ms=arguments.tick_ms))
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
            transactions_topic=TransactionsTopicSettings(factor=copies),
            groups=GroupSettings(group_initial_rebalance_delay_ms=0),
            session_timeout_ms=6_000,
        )
        for number in range(1, brokers + 1)
    ]


async def _run(data: Path, layout: Layout, wanted: list[BrokerConfig], settings: Settings) -> None:
    """The servers outlive the brokers: so these can say there that they go, and the next start need not wait for it."""
    stopped = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        await nursery.start(stop_on_signal, stopped)
        with stopped:
            servers = await start_servers(nursery, data, layout, settings)
            async with trio.open_nursery() as inner:
                brokers = [Broker(config) for config in wanted]
                async with trio.open_nursery() as starting:
                    for broker in brokers:
                        starting.start_soon(inner.start, broker.run)
                inner.start_soon(LoopMonitor(brokers[0].watchdogs.add("event loop")).run)
                pages = []
                for broker in brokers:
                    port = free_or_any(broker.ports["PLAINTEXT"] + OPERATORS_OFFSET)
                    pages.append(await inner.start(Operators(broker, AdminSettings(HOST, port)).run))
                print(introduction(data, layout, brokers, pages, servers[0].admin_port), flush=True)
        nursery.cancel_scope.cancel()


def introduction(data: Path, layout: Layout, brokers: list[Broker], pages: list[int], store_page: int | None) -> str:
    hosts = ",".join(f"{HOST}:{broker.ports['PLAINTEXT']}" for broker in brokers)
    counted = f"{len(brokers)} broker{'s' * (len(brokers) > 1)} and {layout.servers} server{'s' * (layout.servers > 1)}"
    broker, store = own_command("zab-broker", "replica.cli"), own_command("zab", "zab")
    return f"""\
{counted} of the store run in this process; the controller is broker {brokers[0].who_controls()}.

  Kafka clients       {hosts}
  ZooKeeper clients   {layout.hosts}
  in a browser        http://{HOST}:{pages[0]}/ for the brokers, http://{HOST}:{store_page}/ for the store
  for Prometheus      {", ".join(f"http://{HOST}:{page}/metrics" for page in pages)}

Try, in another terminal:

  echo hello | {broker} produce greetings --bootstrap {hosts}
  {broker} consume greetings --from-beginning --until-end --bootstrap {hosts}
  {broker} topics describe greetings --store {layout.hosts}
  python -c 'from kafka import KafkaConsumer as C; print(C(bootstrap_servers="{hosts}").topics())'
  python -c 'from kazoo.client import KazooClient as K; k = K("{layout.hosts}"); k.start(); print(k.get_children("/"))'
  curl http://{HOST}:{pages[0]}/health
  {store} status --server {layout.hosts}

A topic that is asked for is made: with {brokers[0].config.partitions} partitions, {copies_of(brokers[0])}.
Nobody has to log in: whoever reaches these ports of {HOST} may change every node and every topic.
Ctrl-C ends it; the data stays in {data}, and the next start finds it again."""


def copies_of(broker: Broker) -> str:
    factor, insync = broker.config.replication_factor, broker.config.log.min_insync_replicas
    return "on one broker" if factor == 1 else f"each on {factor} brokers, and acks=all waits for {insync} of them"


def own_command(name: str, module: str) -> str:
    """As a person would type it: the one beside this program, which need not be on the path."""
    beside = Path(sys.argv[0]).with_name(name)
    if not beside.exists() or Path(sys.argv[0]).suffix == ".py":
        return f"{sys.executable} -m {module}"
    return name if shutil.which(name) == str(beside) else str(beside)
