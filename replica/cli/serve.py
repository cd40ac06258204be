"""Run a broker, as its server.properties says.

Kafka's own file will do: every key that has no effect here is named. --check only says what the file means.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import trio
from attrs import evolve

import zab
from kraft_controller.cli.common import DONE, Misuse
from kraft_controller.runtime.operators import OperatorPort, of_candidate
from kraft_controller.runtime.registration import generated_id, prepare
from replica.cli.properties.plan import Misconfigured, Plan, numbered, plan_of
from replica.cli.running import run
from replica.runtime.broker import Broker
from replica.runtime.group_metrics import samples
from zab.runtime.admin.settings import AdminSettings


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("properties", type=Path, metavar="server.properties")
    parser.add_argument(
        "--override", action="append", default=[], metavar="KEY=VALUE", help="stands before what the file says"
    )
    parser.add_argument(
        "--operators", metavar="[HOST:]PORT", help="serve /metrics (for Prometheus) and /health there, over HTTP"
    )
    parser.add_argument("--check", action="store_true", help="say what has no effect, and end")
    parser.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), default="info", help="on stderr (default info)"
    )


def act(arguments: argparse.Namespace) -> int:
    overrides = {}
    for one in arguments.override:
        key, equals, value = one.partition("=")
        if not equals:
            raise Misuse(f"--override {one}: it is KEY=VALUE")
        overrides[key.strip()] = value.strip()
    try:
        text = arguments.properties.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Misuse(f"{arguments.properties}: {error}") from None
    try:
        plan = plan_of(str(arguments.properties), text, overrides)
    except Misconfigured as error:
        raise Misuse(str(error)) from None
    operators = None if arguments.operators is None else _operators(arguments.operators)
    for warning in plan.warnings:
        print(f"{arguments.properties}: {warning}", file=sys.stderr)
    if arguments.check:
        return DONE
    logging.basicConfig(
        level=arguments.log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    run(_serve, plan, operators)
    return DONE


def _operators(text: str) -> AdminSettings:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) < 65_536:
        raise Misuse(f"--operators {text}: it is PORT or HOST:PORT")
    return AdminSettings(host=host.strip("[]") or "127.0.0.1", port=int(port))


async def _again(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    """Whoever says it twice does not want to wait."""
    async for _ in signals:
        scope.cancel()


async def _serve(plan: Plan, operators: AdminSettings | None) -> None:
    ident = numbered(plan)
    if ident is None:
        async with zab.connect(plan.config.store) as session:
            await prepare(session)
            ident = await generated_id(session, plan.reserved_max)
    broker = Broker(evolve(plan.config, id=ident))
    async with trio.open_nursery() as nursery:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            if operators is not None:
                sources, look = of_candidate(lambda: broker.controller)
                await nursery.start(
                    OperatorPort(operators, [*sources, partial(samples, broker.groups)], look, ident).run
                )
            nursery.start_soon(broker.run)
            async for number in signals:
                logging.getLogger("replica").info("ended broker=%d by=%s", ident, signal.Signals(number).name)
                nursery.start_soon(_again, signals, nursery.cancel_scope)
                await broker.leave()
                nursery.cancel_scope.cancel()
                break
