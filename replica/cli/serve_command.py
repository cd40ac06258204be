"""`zab-broker serve`: run a broker with Kafka's own configuration file."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path

import click
import trio
from attrs import evolve

from kraft_controller.runtime.registration import generated_id, prepare
from replica.cli.properties.plan import Plan, numbered, read_plan
from replica.cli.running import run
from replica.runtime.admin.broker_operator_port import BrokerOperatorPort
from replica.runtime.broker import Broker
from zab.admin.admin_settings import AdminSettings
from zab.cli.kit.failures import DONE, Misused
from zab.cli.kit.log_options import LEVELS, log_to_stderr
from zab.cli.kit.verb_group import Arguments
from zab.config.config_source import BadConfig
from zab.core.addresses import is_loopback
from zab.host.process_tuning import open_files_limit, raise_open_files, tune_collector
from zab.host.watchdog import LoopMonitor

OPEN_OPERATORS = (
    "that port has neither authentication nor TLS: any client can read the names of topics and groups, addresses "
    "and lags. Protect it by a firewall, or listen on 127.0.0.1"
)


@click.command()
@click.argument("properties", type=click.Path(path_type=Path), metavar="server.properties")
@click.option(
    "--override",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting that overrides the file. May be repeated; the last one for a key counts, as in Kafka.",
)
@click.option(
    "--operators", metavar="[HOST:]PORT", help="Serve a status page, /metrics for Prometheus and /health at this port."
)
@click.option(
    "--check", is_flag=True, help="Report all mistakes, or print the settings that have an effect; start no broker."
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="info",
    show_default=True,
    help="The minimum level of log lines on stderr.",
)
def serve(**values: object) -> int:
    """Run a broker until SIGINT or SIGTERM. A second signal stops it without a controlled shutdown.

    The file is the server.properties of a Kafka broker with ZooKeeper. A warning names each setting that this broker
    does not follow, and all mistakes are reported together.
    """
    arguments = Arguments(**values)
    overrides = {}
    for one in arguments.override:
        key, equals, value = one.partition("=")
        if not equals or not key.strip():
            raise Misused("--override: expected KEY=VALUE")
        overrides[key.strip()] = value.strip()
    operators = None if arguments.operators is None else _operators(arguments.operators)
    try:
        plan = read_plan(arguments.properties, overrides)
    except BadConfig as error:
        _warn(error.warnings)
        raise Misused("\n  ".join(["invalid configuration:", *error.problems])) from None
    _warn(plan.warnings)
    if operators is not None:
        operators = evolve(operators, hosts=plan.operators_hosts)
        if not is_loopback(operators.host):
            _warn([f"--operators {arguments.operators}: {OPEN_OPERATORS}"])
    if arguments.check:
        for key, value in plan.effective.items():
            print(f"{key}={value}")
        return DONE
    log_to_stderr(arguments.log_level)
    raise_open_files()
    tune_collector()
    run(_serve, plan, operators)
    return DONE


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)


def _operators(text: str) -> AdminSettings:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) < 65_536:
        raise Misused(f"--operators {text}: expected PORT or HOST:PORT")
    return AdminSettings(host=host.strip("[]") or "127.0.0.1", port=int(port))


async def until_left(leave: Callable[[], Awaitable[None]], signals: AsyncIterator[int]) -> None:
    """Shut down cleanly; stop at once on a second signal."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_again, signals, nursery.cancel_scope)
        await leave()
        nursery.cancel_scope.cancel()


async def _again(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    async for _ in signals:
        scope.cancel()


async def _serve(plan: Plan, operators: AdminSettings | None) -> None:
    ident = numbered(plan)
    if ident is None:
        async with plan.config.store_login.session(plan.config.store) as session:
            await prepare(session)
            ident = await generated_id(session, plan.reserved_max)
    broker = Broker(evolve(plan.config, id=ident))
    connections, wanted = broker.share.connections, plan.config.port.connections_max
    if connections < wanted:
        limit, logs = open_files_limit(), broker.share.logs
        broker.log.say(
            "few_descriptors", logging.WARNING, limit=limit, connections=connections, max_connections=wanted,
            open_files_of_logs=logs, todo="raise the broker's hard limit of open files (ulimit -Hn)",
        )  # fmt: skip
    async with trio.open_nursery() as nursery:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            if operators is not None:
                await nursery.start(BrokerOperatorPort(broker, operators).run)
            nursery.start_soon(broker.run)
            nursery.start_soon(LoopMonitor(broker.watchdogs.add("event loop")).run)
            async for number in signals:
                logging.getLogger("replica").info("ended broker=%d by=%s", ident, signal.Signals(number).name)
                await until_left(broker.leave, signals)
                nursery.cancel_scope.cancel()
                break
