"""`zab-broker transactions`: show and abort producers' transactions, and find hanging ones."""

from __future__ import annotations

import time
from typing import Final

import click

from replica.cli.bootstrap import BrokerVerbs
from replica.cli.groups_command import chosen
from replica.core.errors import ErrorCode, KafkaError
from replica.core.transactions.transaction_states import WRITTEN
from replica.runtime.admin_client import transaction_admin
from replica.runtime.admin_client.transaction_admin import PartitionTransaction, TransactionDescription
from replica.runtime.network.broker_client import Client
from zab.cli.kit.failures import DONE, FAILED
from zab.cli.kit.options import SECONDS_OR_ZERO
from zab.cli.kit.output import progress, say, show
from zab.cli.kit.verb_group import Arguments

STATES: Final = [state.value for state in WRITTEN]
OLDER_THAN_S: Final = 900.0
"""The default of `transaction.max.timeout.ms`, in seconds."""


@click.group(cls=BrokerVerbs)
def transactions() -> None:
    """Show producers' transactions, abort one whose producer is gone, and find hanging ones.

    \b
    zab-broker transactions list --state Ongoing
    zab-broker transactions list --open-for 60
    zab-broker transactions describe payments
    zab-broker transactions abort payments
    zab-broker transactions hanging
    zab-broker transactions hanging --topic orders:0 --abort

    `abort` fences the current producer of the id and aborts its open transaction. A hanging transaction is open in a
    partition although no coordinator knows it; read_committed consumers cannot read beyond it. `hanging` exits with 1
    if there are any; with --abort it aborts them and exits with 0.
    """


# -- list and describe -------------------------------------------------------------------------------------


@transactions.verb("list", "Print one line for each transactional id.")
@click.option("--state", multiple=True, type=click.Choice(STATES), help="Only ids in this state. May be repeated.")
@click.option(
    "--open-for",
    type=SECONDS_OR_ZERO,
    metavar="SECONDS",
    help="Only ids whose transaction has been open for longer than this.",
)
async def _list(client: Client, arguments: Arguments) -> int:
    longer_ms = -1 if arguments.open_for is None else int(arguments.open_for * 1000)
    states = arguments.state
    if arguments.open_for is not None:
        # completed transactions have a duration, too, so filter by state
        states = [state for state in transaction_admin.OPEN if not states or state in states]
        if not states:
            show(arguments.json, [], ["id", "state", "producer", "coordinator"])
            return DONE
    rows = [
        {"id": each.id, "state": each.state, "producer": each.producer, "coordinator": each.coordinator}
        for each in await transaction_admin.list_transactions(client, states, longer_ms)
    ]
    show(arguments.json, rows, ["id", "state", "producer", "coordinator"])
    return DONE


@transactions.verb("describe", "Show producer, age and partitions of the transactions of these ids (default: all).")
@click.argument("ids", nargs=-1, metavar="[ID]...")
async def _describe(client: Client, arguments: Arguments) -> int:
    names = arguments.ids or [each.id for each in await transaction_admin.list_transactions(client)]
    code = DONE
    rows = []
    for name in names:
        try:
            rows.append(_row(await transaction_admin.describe(client, name)))
        except KafkaError as error:
            if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
            progress(f"there is no transactional id {name}")
            code = FAILED
    show(arguments.json, rows, ["id", "state", "producer", "epoch", "timeout_s", "open_s", "coordinator", "partitions"])
    return code


def _row(each: TransactionDescription) -> dict[str, object]:
    return {
        "id": each.id,
        "state": each.state,
        "producer": each.producer,
        "epoch": each.epoch,
        "timeout_s": each.timeout_ms / 1000,
        "open_s": None if each.started_ms is None else _ago(each.started_ms),
        "coordinator": each.coordinator,
        "partitions": [str(where) for where in each.partitions],
    }


def _ago(ms: int) -> float:
    return round(max(time.time() - ms / 1000, 0.0), 1)


# -- abort -------------------------------------------------------------------------------------------------


@transactions.verb("abort", "Fence the producers of these ids, and abort their open transactions.")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
async def _abort(client: Client, arguments: Arguments) -> int:
    code = DONE
    for name in arguments.ids:
        try:
            await transaction_admin.abort(client, name)
        except KafkaError as error:
            gone = error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            progress(f"there is no transactional id {name}" if gone else f"not aborted: {error}")
            code = FAILED
        else:
            say(arguments.json, f"{name}: the producer is fenced, and no transaction is open any more", aborted=name)
    return code


@transactions.verb("hanging", "Find transactions that are open in a partition although no coordinator knows them.")
@click.option(
    "--topic",
    multiple=True,
    metavar="TOPIC[:P,P...]",
    help="Only in these partitions. May be repeated.  [default: all]",
)
@click.option(
    "--older-than",
    type=SECONDS_OR_ZERO,
    default=OLDER_THAN_S,
    show_default=True,
    metavar="SECONDS",
    help="Only transactions without a write for at least this time. Choose at least transaction.max.timeout.ms.",
)
@click.option("--abort", is_flag=True, help="Abort the transactions found.")
async def _hanging(client: Client, arguments: Arguments) -> int:
    topics = arguments.topic or [each.name or "" for each in (await client.metadata(None)).topics]
    wheres = await chosen(client, topics)
    before_ms = int((time.time() - arguments.older_than) * 1000)
    found = await transaction_admin.hanging(client, wheres, before_ms)
    if arguments.abort:
        for each in found:
            await transaction_admin.end(client, each)
            progress(
                f"aborted in {each.where}: the transaction of producer {each.producer} "
                f"that begins at offset {each.start}"
            )
    rows = [_hangs(each) for each in found]
    show(arguments.json, rows, ["topic", "partition", "producer", "epoch", "start", "silent_s"])
    if found and not arguments.abort:
        progress("nothing was changed: add --abort")
    return FAILED if found and not arguments.abort else DONE


def _hangs(each: PartitionTransaction) -> dict[str, object]:
    return {
        "topic": each.where.topic,
        "partition": each.where.partition,
        "producer": each.producer,
        "epoch": each.epoch,
        "start": each.start,
        "silent_s": _ago(each.last_ms),
    }
