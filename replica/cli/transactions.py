"""Transactions of producers: who has one open, since when and where; end one whose producer is gone, or what hangs.

examples:
  zab-broker transactions list --state Ongoing
  zab-broker transactions list --open-for 60
  zab-broker transactions describe payments
  zab-broker transactions abort payments
  zab-broker transactions hanging
  zab-broker transactions hanging --topic orders:0 --abort

`abort` takes the name from whoever bears it now: he is fenced, and what he has open is aborted. A transaction hangs
when it is open in a partition and no coordinator knows of it; who reads what is committed waits there for ever.
`hanging` looks for such, exits 1 if there are any, and ends them with --abort.
"""

from __future__ import annotations

import argparse
import time
from typing import Final

from kraft_controller.cli.common import DONE, FAILED, progress, say, show
from replica.cli.bootstrap import asked, verbs
from replica.cli.groups import chosen
from replica.core.errors import ErrorCode, KafkaError
from replica.core.transactions.states import WRITTEN
from replica.runtime import transaction_admin
from replica.runtime.client import Client
from replica.runtime.transaction_admin import Described, Left

act = asked

STATES: Final = [state.value for state in WRITTEN]
OLDER_THAN_S: Final = 900.0
"""The longest that a producer may keep one open, where `transaction.max.timeout.ms` says nothing else."""


def add(parser: argparse.ArgumentParser) -> None:
    verb = verbs(parser)
    listing = verb("list", _list, "one line for each transactional id")
    listing.add_argument(
        "--state",
        action="append",
        default=[],
        choices=STATES,
        help="only those that are in this state; may be repeated",
    )
    listing.add_argument(
        "--open-for", type=_seconds, metavar="SECONDS", help="only those with a transaction that is open for longer"
    )
    describing = verb("describe", _describe, "one line for each: its producer, since when it is open, and where")
    describing.add_argument("ids", nargs="*", metavar="ID", help="of these (default: all)")
    aborting = verb("abort", _abort, "fence the producers of these, and abort what they have open")
    aborting.add_argument("ids", nargs="+", metavar="ID")
    hanging = verb(
        "hanging", _hanging, "what is open in a partition, and no coordinator knows of; exit 1 if there is any"
    )
    hanging.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="TOPIC[:P,P...]",
        help="only in these; may be repeated (default: everywhere)",
    )
    hanging.add_argument(
        "--older-than",
        type=_seconds,
        default=OLDER_THAN_S,
        metavar="SECONDS",
        help="only what nothing was written to for so long; not less than transaction.max.timeout.ms (default 900)",
    )
    hanging.add_argument("--abort", action="store_true", help="end them")


# -- looking -----------------------------------------------------------------------------------------------


async def _list(client: Client, arguments: argparse.Namespace) -> int:
    longer_ms = -1 if arguments.open_for is None else int(arguments.open_for * 1000)
    states = arguments.state
    if arguments.open_for is not None:
        # How long a transaction is or was open is kept of those that are over, too.
        states = [state for state in transaction_admin.OPEN if not states or state in states]
        if not states:
            show(arguments, [], ["id", "state", "producer", "coordinator"])
            return DONE
    rows = [
        {"id": each.id, "state": each.state, "producer": each.producer, "coordinator": each.coordinator}
        for each in await transaction_admin.list_transactions(client, states, longer_ms)
    ]
    show(arguments, rows, ["id", "state", "producer", "coordinator"])
    return DONE


async def _describe(client: Client, arguments: argparse.Namespace) -> int:
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
    show(arguments, rows, ["id", "state", "producer", "epoch", "timeout_s", "open_s", "coordinator", "partitions"])
    return code


def _row(each: Described) -> dict[str, object]:
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


# -- ending ------------------------------------------------------------------------------------------------


async def _abort(client: Client, arguments: argparse.Namespace) -> int:
    code = DONE
    for name in arguments.ids:
        try:
            await transaction_admin.abort(client, name)
        except KafkaError as error:
            gone = error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            progress(f"there is no transactional id {name}" if gone else f"not aborted: {error}")
            code = FAILED
        else:
            say(arguments, f"fenced, and nothing of it is open: {name}", aborted=name)
    return code


async def _hanging(client: Client, arguments: argparse.Namespace) -> int:
    topics = arguments.topic or [each["name"] for each in (await client.metadata(None))["topics"]]
    wheres = await chosen(client, topics)
    before_ms = int((time.time() - arguments.older_than) * 1000)
    found = await transaction_admin.hanging(client, wheres, before_ms)
    if arguments.abort:
        for each in found:
            await transaction_admin.end(client, each)
            progress(f"aborted in {each.where}: what producer {each.producer} began at {each.start}")
    rows = [_hangs(each) for each in found]
    show(arguments, rows, ["topic", "partition", "producer", "epoch", "start", "silent_s"])
    if found and not arguments.abort:
        progress("nothing was done: --abort ends them")
    return FAILED if found and not arguments.abort else DONE


def _hangs(each: Left) -> dict[str, object]:
    return {
        "topic": each.where.topic,
        "partition": each.where.partition,
        "producer": each.producer,
        "epoch": each.epoch,
        "start": each.start,
        "silent_s": _ago(each.last_ms),
    }


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < 1e9:
        raise ValueError(text)
    return seconds
