"""`zab-broker elect`: have the controller elect partition leaders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click
import trio

import zab
from kraft_controller.cli.store_connection import StoreVerbs, report_damage
from kraft_controller.core.names import TopicPartition
from kraft_controller.runtime.admin.cluster_description import ClusterDescription, describe_cluster
from kraft_controller.runtime.admin.election_requests import ElectionUnderWay, ask_for_elections, until_held
from zab.cli.kit.failures import DONE, FAILED, Failed, Misused
from zab.cli.kit.output import progress, show
from zab.cli.kit.verb_group import Arguments


@click.group(cls=StoreVerbs)
def elect() -> None:
    """Have the controller elect leaders of partitions.

    \b
    zab-broker elect preferred                     the first replica of each partition
    zab-broker elect preferred orders payments:3   all partitions of one topic, and one of another
    zab-broker elect unclean orders:0 --yes        any live replica, if no ISR member is alive: may lose records

    Exits with 1 if one of these partitions lacks the requested leader afterwards: with `preferred` its first replica,
    with `unclean` any leader.
    """


_partitions: Final = click.argument("partitions", nargs=-1, metavar="[TOPIC[:PARTITION]]...")
_wait_s: Final = click.option(
    "--wait-s",
    type=float,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait until the controller has processed the request.",
)


@elect.verb(
    "preferred",
    "Elect the first replica of each partition as leader, if that replica is alive and in the ISR. Default: for all "
    "partitions.",
)
@_partitions
@_wait_s
async def _preferred(session: zab.Session, arguments: Arguments) -> int:
    return await _elect(session, arguments, unclean=False)


@elect.verb(
    "unclean",
    "Elect a leader for each partition without one: an ISR member if one is alive, else any live replica. Records that "
    "the elected replica lacks are lost. Default: for all partitions.",
)
@_partitions
@_wait_s
@click.option("--yes", is_flag=True, help="Confirm that records may be lost.")
async def _unclean(session: zab.Session, arguments: Arguments) -> int:
    if not arguments.yes:
        raise Misused("records that the elected replicas lack would be lost; confirm with --yes")
    return await _elect(session, arguments, unclean=True)


async def _elect(session: zab.Session, arguments: Arguments, *, unclean: bool) -> int:
    cluster = await describe_cluster(session)
    report_damage(cluster)
    named = selected(cluster, arguments.partitions)
    wanted = [where for where in named if not _fine(cluster, where, unclean) and where.topic not in cluster.deleting]
    if wanted:
        try:
            await ask_for_elections(session, wanted, unclean=unclean)
        except ElectionUnderWay as error:
            raise Failed(str(error)) from None
        with trio.move_on_after(arguments.wait_s) as patience:
            await until_held(session)
        if patience.cancelled_caught:
            raise Failed(
                f"no controller processed the request within {arguments.wait_s:g} s; the request stays in the store"
            )
    after = await describe_cluster(session, {where.topic for where in named})
    rows = [_row(cluster, after, where, unclean) for where in (named if arguments.partitions else wanted)]
    show(arguments.json, rows, ["partition", "before", "leader", "outcome"])
    if not rows and not arguments.json:
        progress("no partition needs an election")
    return DONE if all(row["done"] for row in rows) else FAILED


def selected(cluster: ClusterDescription, names: Sequence[str]) -> list[TopicPartition]:
    """Return the named partitions: `t` means all of topic t, `t:0` one partition. Without names, return all
    partitions. Raise `Failed` if a named topic or partition does not exist."""
    found: dict[TopicPartition, None] = {}
    for name in names:
        topic, colon, number = name.partition(":")
        if topic not in cluster.topics:
            raise Failed(f"there is no topic {topic}")
        some = cluster.partitions([topic])
        if colon:
            some = [where for where in some if str(where.partition) == number]
            if not some:
                raise Failed(f"topic {topic} has no partition {number}")
        found.update(dict.fromkeys(some))
    return list(found) if names else cluster.partitions()


def _fine(cluster: ClusterDescription, where: TopicPartition, unclean: bool) -> bool:
    leader = cluster.leader(where)
    return leader is not None and (unclean or leader == cluster.assignment(where).replicas[0])


def _row(
    before: ClusterDescription, after: ClusterDescription, where: TopicPartition, unclean: bool
) -> dict[str, object]:
    gone = where.topic not in after.topics
    done = not gone and _fine(after, where, unclean)
    first = None if gone else after.assignment(where).replicas[0]
    if done:
        outcome = "not needed" if _fine(before, where, unclean) else "elected"
    elif gone:
        outcome = "the topic was deleted"
    elif where.topic in after.deleting:
        outcome = "the topic is being deleted"
    elif unclean:
        outcome = "none of its replicas is available, or its state cannot be read"
    elif first not in after.brokers:
        outcome = f"the preferred leader, broker {first}, is not alive"
    else:
        outcome = (
            f"the preferred leader, broker {first}, is not in the ISR, is shutting down, or cannot use its replica"
        )
    leader = None if gone else after.leader(where)
    return {
        "partition": str(where),
        "before": before.leader(where),
        "leader": leader,
        "outcome": outcome,
        "done": done,
    }
