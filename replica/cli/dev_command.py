"""`zab-broker dev`: a cluster of brokers with the servers of their store, in one process on loopback."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

import click
import trio
from attrs import evolve

from replica.cli.properties.plan import plan_of
from replica.cli.properties.small_cluster import small_cluster
from replica.cli.running import run
from replica.console.broker_part import CLIENT, BrokerPart, related
from replica.runtime.admin.broker_operator_port import BrokerOperatorPort
from replica.runtime.broker import Broker
from replica.runtime.configuration.broker_config import BrokerConfig
from replica.runtime.network.broker_client import Client
from zab.admin.admin_settings import AdminSettings
from zab.cli.dev import (
    HOST,
    PORT_BASE_MAX,
    PORT_BASE_MIN,
    SERVERS_MAX,
    Layout,
    dev_console,
    dev_store_part,
    free_or_any,
    layout_of,
    start_servers,
)
from zab.cli.kit.failures import DONE
from zab.cli.kit.log_options import format_option, level_option, log_to_stderr
from zab.cli.kit.signals import stop_on_signal
from zab.cli.kit.standard_streams import announce
from zab.console.console_site import run_console
from zab.core.addresses import with_port
from zab.core.ready import Settings
from zab.host.process_tuning import raise_open_files, tune_collector
from zab.host.watchdog import LoopMonitor

BROKERS_MAX: Final = 9
PORT_BASE: Final = 9092
OPERATORS_OFFSET: Final = 216
"""The difference between 9092 and 9308, the customary port of Kafka metrics exporters."""


@click.command()
@click.option(
    "--brokers", type=click.IntRange(1, BROKERS_MAX), default=3, show_default=True, help="The number of brokers."
)
@click.option(
    "--servers",
    type=click.IntRange(1, SERVERS_MAX),
    help="The number of servers of the store.  [default: 3, or as in the data]",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("data"),
    show_default=True,
    help="The directory of all logs and snapshots.",
)
@click.option(
    "--port-base",
    type=click.IntRange(PORT_BASE_MIN, PORT_BASE_MAX),
    default=PORT_BASE,
    show_default=True,
    help="The port of broker 1. Further brokers use the next ports.",
)
@click.option(
    "--store-port-base",
    type=click.IntRange(PORT_BASE_MIN, PORT_BASE_MAX),
    help="The client port of server 1. Further servers use the next ports.  [default: 2181, or as in the data]",
)
@click.option(
    "--tick-ms",
    type=click.IntRange(10, 60_000),
    default=Settings().tick_ms,
    show_default=True,
    help="The tick of the store, its unit of timeouts, in ms.",
)
@level_option("warning")
@format_option
def dev(
    brokers: int,
    servers: int | None,
    data: Path,
    port_base: int,
    store_port_base: int | None,
    tick_ms: int,
    log_level: str,
    log_format: str,
) -> int:
    """Run a cluster of brokers on loopback, in this process, with the servers of the store that they need.

    Each broker and server has its own sockets and directories, as if it were a machine of its own. Kafka's clients
    connect to the brokers, and ZooKeeper's clients to the servers. When all are ready, the command prints examples to
    try. Ctrl-C stops the brokers and the servers; the data stays.
    """
    layout = layout_of(data, servers, store_port_base)
    log_to_stderr(log_level, log_format)
    raise_open_files()
    tune_collector()
    run(_run, data, layout, configs(data, layout, brokers, port_base), Settings(tick_ms=tick_ms))
    return DONE


def configs(data: Path, layout: Layout, brokers: int, port_base: int) -> list[BrokerConfig]:
    """Return the brokers' configurations."""
    return [_config(number, data, layout, brokers, port_base) for number in range(1, brokers + 1)]


def _config(number: int, data: Path, layout: Layout, brokers: int, port_base: int) -> BrokerConfig:
    log_dir = data / "brokers" / str(number)
    properties = {
        "broker.id": number,
        "log.dirs": log_dir,
        "zookeeper.connect": layout.hosts,
        "zookeeper.session.timeout.ms": 6_000,
        "listeners": f"PLAINTEXT://{HOST}:{port_base + number - 1}",
        "num.partitions": 3,
        **small_cluster(brokers),
    }
    plan = plan_of("zab-broker dev", "", {key: str(value) for key, value in properties.items()})
    return evolve(plan.config, log_dirs=(log_dir,))  # log.dirs would split a path at its commas


async def _run(data: Path, layout: Layout, wanted: list[BrokerConfig], settings: Settings) -> None:
    """Run servers and brokers. At the end stop the brokers first, so that they can close their sessions in the store,
    which removes their registrations.
    """
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
                    pages.append(await inner.start(BrokerOperatorPort(broker, AdminSettings(HOST, port)).run))
                bootstrap = [(HOST, broker.ports["PLAINTEXT"]) for broker in brokers]
                named = ",".join(with_port(host, port) for host, port in bootstrap)
                store = dev_store_part(layout, servers, [related])
                parts = [store, BrokerPart(Client(bootstrap, CLIENT), named)]
                console = await inner.start(run_console, parts, *dev_console(layout))
                announce(introduction(data, layout, brokers, pages, console))
        nursery.cancel_scope.cancel()


def introduction(data: Path, layout: Layout, brokers: list[Broker], pages: list[int], console: int) -> str:
    hosts = ",".join(f"{HOST}:{broker.ports['PLAINTEXT']}" for broker in brokers)
    counted = f"{len(brokers)} broker{'s' * (len(brokers) > 1)} and {layout.servers} server{'s' * (layout.servers > 1)}"
    broker, store = own_command("zab-broker", "replica.cli"), own_command("zab", "zab")
    return f"""\
{counted} of the store run in this process; the controller is broker {brokers[0].parts.membership.acting_controller()}.

  Kafka clients       {hosts}
  ZooKeeper clients   {layout.hosts}
  in a browser        http://{HOST}:{console}/
  for Prometheus      {", ".join(f"http://{HOST}:{page}/metrics" for page in pages)}

Try, in another terminal:

  echo hello | {broker} produce greetings --bootstrap {hosts}
  {broker} consume greetings --from-beginning --until-end --bootstrap {hosts}
  {broker} topics describe greetings --store {layout.hosts}
  python -c 'from kafka import KafkaConsumer as C; print(C(bootstrap_servers="{hosts}").topics())'
  python -c 'from kazoo.client import KazooClient as K; k = K("{layout.hosts}"); k.start(); print(k.get_children("/"))'
  curl http://{HOST}:{pages[0]}/health
  {store} status --server {layout.hosts}

Topics are created on demand: with {brokers[0].config.partitions} partitions, {copies_of(brokers[0])}.
No login is required: a client that reaches these ports of {HOST} can change every node and every topic.
Ctrl-C stops it. The data remains in {data}, and the next start uses it."""


def copies_of(broker: Broker) -> str:
    factor, insync = broker.config.replication_factor, broker.config.log.min_insync_replicas
    return (
        "on one broker" if factor == 1 else f"each on {factor} brokers, and acks=all requires {insync} of them in sync"
    )


def own_command(name: str, module: str) -> str:
    """Return the command as a user would type it: its name if the PATH leads to it, else its full path. If it is not
    installed beside this program, or this program was run with `python -m`, return `python -m` with the module."""
    beside = Path(sys.argv[0]).with_name(name)
    if not beside.exists() or Path(sys.argv[0]).suffix == ".py":
        return f"{sys.executable} -m {module}"
    return name if shutil.which(name) == str(beside) else str(beside)
