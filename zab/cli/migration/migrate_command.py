"""`zab migrate plan`: the next step of a migration from ZooKeeper or back, with its checks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import trio

from zab.cli.kit.failures import INTERRUPTED
from zab.cli.kit.output import show, show_json
from zab.cli.migration.ensemble_config import EnsembleConfig, read_config
from zab.cli.migration.migration_plan import Plan, Step, make_plan
from zab.cli.migration.server_answers import ServerState
from zab.cli.migration.server_survey import Address, survey
from zab.cli.status.status_command import addresses
from zab.config.config_source import BadConfig
from zab.core.plurals import noun
from zab.core.zxid import Zxid, epoch_of


@click.group()
def migrate() -> None:
    """Replace the servers of a running ensemble of ZooKeeper by servers of zab, one by one, or back."""


def _servers(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> dict[int, Address]:
    found: dict[int, Address] = {}
    for value in values:
        number, equals, where = value.partition("=")
        if not equals or not number.isdecimal():
            raise click.BadParameter(f"{value!r}: expected N=HOST:PORT, as in 1=10.0.0.1:2181", context, option)
        ((_, host, port),) = addresses([where])
        found[int(number)] = (host, port)
    return found


@migrate.command()
@click.argument("config", type=click.Path(path_type=Path), metavar="ZOO.CFG")
@click.option("--back", is_flag=True, help="Plan the way back: from servers of zab to servers of ZooKeeper.")
@click.option(
    "--server",
    "given",
    multiple=True,
    callback=_servers,
    metavar="N=HOST:PORT",
    help="The client port of server N, if it is not in ZOO.CFG or cannot be reached there. May be repeated.",
)
@click.option(
    "--to",
    "target",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The data directory of zab on each server.  [default: dataDir with `-zab` at its end]",
)
@click.option("--json", "wants_json", is_flag=True, help="Print JSON, for programs.")
@click.option(
    "--timeout-s",
    type=click.FloatRange(0.05, 600),
    default=5.0,
    show_default=True,
    help="How long to wait for a server's reply.",
)
def plan(
    config: Path, back: bool, given: dict[int, Address], target: Path | None, wants_json: bool, timeout_s: float
) -> None:
    """Check the ensemble, and print the next step with its command lines and its way back. Nothing is changed.

    ZOO.CFG is the configuration of the servers of ZooKeeper, also on the way back. The command asks every member for
    its state: at its client port with the four-letter words srvr, mntr and conf, or at its admin port if they are not
    allowed. Run it before the first step and after each step. It has no memory: the state of the servers decides.

    One server is replaced at a time: observers first, then followers, the leader last. A step may be taken if all
    servers serve, none is behind, no digest differs, and the others are a quorum.

    \b
    zab migrate plan zoo.cfg                          the next step forwards
    zab migrate plan --back zoo.cfg                   the next step backwards
    zab migrate plan zoo.cfg --server 1=10.0.0.1:2181 --server 2=10.0.0.2:2181

    \b
    Exit status:
      0  the next step may be taken, or no step is left
      1  a check failed: take no step before it holds
      2  the command line is wrong, or ZOO.CFG cannot be read or has mistakes
    """
    try:
        read = read_config(config)
    except BadConfig as bad:
        for line in bad.problems:
            click.echo(f"error: {line}", err=True)
        sys.exit(2)
    members = () if read.ensemble is None else read.ensemble.by_id
    for sid in given:
        if read.ensemble is not None and sid not in members:
            raise click.UsageError(f"--server {sid}=...: {config} has no line server.{sid}")
    try:
        states = [] if read.ensemble is None else trio.run(survey, read, given, timeout_s)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    found = make_plan(read, states, back=back, target=None if target is None else target.absolute())
    if wants_json:
        show_json(as_json(found))
    else:
        if found.servers:
            show(False, map(_row, found.servers), list(_COLUMNS))
            click.echo()
        click.echo("\n".join(as_lines(found, read)))
    sys.exit(0 if found.may_continue else 1)


_COLUMNS: Final = {
    "server": "server",
    "at": "address",
    "is": "software",
    "mode": "mode",
    "epoch": "epoch",
    "zxid": "zxid",
    "behind": "behind",
    "digest mismatches": "digest_mismatches",
    "learners": "learners",
}
"""The fields of a server that the table shows, by their headings."""


def _row(state: ServerState) -> dict[str, object]:
    fields = _fields(state)
    return {heading: fields[name] for heading, name in _COLUMNS.items()}


def _fields(state: ServerState) -> dict[str, object]:
    return {
        "server": state.id,
        "address": state.where,
        "software": None if state.software is None else str(state.software),
        "mode": state.mode,
        "epoch": None if state.zxid is None else epoch_of(Zxid(state.zxid)),
        "zxid": None if state.zxid is None else f"{state.zxid:#x}",
        "behind": state.behind,
        "digest_mismatches": state.digest_mismatches,
        "synced_followers": state.synced_followers,
        "learners": state.learners,
        "problem": state.problem or None,
    }


def as_lines(plan: Plan, config: EnsembleConfig) -> Iterator[str]:
    """Yield the checks, the warnings and the next step for a terminal."""
    for check in plan.checks:
        yield f"{'ok  ' if check.holds else 'FAIL'}  {check.name}: {check.text}"
        if not check.holds:
            yield f"      -> {check.remedy}"
    for warning in plan.warnings:
        yield f"note  {warning}"
    yield ""
    if not plan.may_continue:
        failed = sum(not each.holds for each in plan.checks)
        yield f"Take no step: {failed} {noun(failed, 'check')} failed."
        if plan.begun is not None:
            yield ""
            yield from _step_lines(plan.begun, plan.begun.title[:1].upper() + plan.begun.title[1:])
    elif plan.is_done:
        yield "No step is left."
        yield from plan.closing
    elif plan.step is not None:
        left = sum(each.is_ours is plan.back for each in plan.servers)
        yield from _step_lines(plan.step, f"Next of {left} {noun(left, 'step')}: {plan.step.title}")


def _step_lines(step: Step, title: str) -> Iterator[str]:
    yield title
    yield ""
    for part in step.parts:
        yield f"  # on {step.host}: {part.about}"
        for line in part.lines:
            yield f"  {line}"
    yield ""
    yield f"Done if: {step.expect}."
    yield "Way back:"
    for line in step.way_back:
        yield f"  - {line}"


def as_json(plan: Plan) -> dict[str, Any]:
    """Return the plan as plain values."""
    return {
        "direction": "back" if plan.back else "forwards",
        "may_continue": plan.may_continue,
        "done": plan.is_done and plan.may_continue,
        "servers": [_fields(each) for each in plan.servers],
        "checks": [
            {"name": each.name, "holds": each.holds, "text": each.text, "remedy": each.remedy or None}
            for each in plan.checks
        ],
        "next": _step_json(plan.step) if plan.step is not None and plan.may_continue else None,
        "begun": _step_json(plan.begun) if plan.begun is not None else None,
        "closing": list(plan.closing),
        "warnings": list(plan.warnings),
    }


def _step_json(step: Step) -> dict[str, Any]:
    return {
        "server": step.server,
        "host": step.host,
        "title": step.title,
        "parts": [{"about": part.about, "commands": list(part.lines)} for part in step.parts],
        "expect": step.expect,
        "way_back": list(step.way_back),
    }
