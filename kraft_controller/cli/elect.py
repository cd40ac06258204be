"""Elections of leaders, held by the controller.

examples:
  zab-broker elect preferred                          every partition goes back to the first of its replicas
  zab-broker elect preferred orders payments:3        all of one topic, and one partition of another
  zab-broker elect unclean orders:0 --yes             by anybody who is alive, where nobody in sync is: records are lost

It ends with 1 if some partition that was named is not led as it was asked for.
"""

from __future__ import annotations

import argparse

import trio

import zab
from kraft_controller.cli.common import DONE, FAILED, Failed, Misuse, connected, damaged, progress, show, verbs
from kraft_controller.core.names import TopicPartition
from kraft_controller.runtime.admin.elections import ElectionUnderWay, ask_for_elections, until_held
from kraft_controller.runtime.admin.picture import Picture, read_picture

act = connected


def add(parser: argparse.ArgumentParser) -> None:
    verb = verbs(parser)
    preferred = verb("preferred", _preferred, "by the first of the replicas, if it is alive and in sync")
    unclean = verb("unclean", _unclean, "by anybody who is alive, where nobody leads; what only the dead had is lost")
    unclean.add_argument("--yes", action="store_true", help="it is known that records may be lost")
    for one in (preferred, unclean):
        one.add_argument("partitions", nargs="*", metavar="TOPIC[:PARTITION]", help="(default: all that need it)")
        one.add_argument("--wait-s", type=float, default=60.0, metavar="SECONDS", help="at most so long (default 60)")


async def _preferred(session: zab.Session, arguments: argparse.Namespace) -> int:
    return await _elect(session, arguments, unclean=False)


async def _unclean(session: zab.Session, arguments: argparse.Namespace) -> int:
    if not arguments.yes:
        raise Misuse("records that only the dead replicas have will be lost; say --yes if that is known")
    return await _elect(session, arguments, unclean=True)


async def _elect(session: zab.Session, arguments: argparse.Namespace, *, unclean: bool) -> int:
    picture = await read_picture(session)
    damaged(picture)
    named = selected(picture, arguments.partitions)
    wanted = [where for where in named if not _fine(picture, where, unclean) and where.topic not in picture.deleting]
    if wanted:
        try:
            await ask_for_elections(session, wanted, unclean=unclean)
        except ElectionUnderWay as error:
            raise Failed(str(error)) from None
        with trio.move_on_after(arguments.wait_s) as patience:
            await until_held(session)
        if patience.cancelled_caught:
            raise Failed(f"no controller has held it in {arguments.wait_s:g} s; it will, when there is one")
    after = await read_picture(session, {where.topic for where in named})
    rows = [_row(picture, after, where, unclean) for where in (named if arguments.partitions else wanted)]
    show(arguments, rows, ["partition", "before", "leader", "outcome"])
    if not rows and not arguments.json:
        progress("no partition needs it")
    return DONE if all(row["done"] for row in rows) else FAILED


def selected(picture: Picture, names: list[str]) -> list[TopicPartition]:
    """`t` is all of t; `t:0` is one partition of it. None named: all there are."""
    found: dict[TopicPartition, None] = {}
    for name in names:
        topic, colon, number = name.partition(":")
        if topic not in picture.topics:
            raise Failed(f"there is no topic {topic}")
        some = picture.partitions([topic])
        if colon:
            some = [where for where in some if str(where.partition) == number]
            if not some:
                raise Failed(f"topic {topic} has no partition {number}")
        found.update(dict.fromkeys(some))
    return list(found) if names else picture.partitions()


def _fine(picture: Picture, where: TopicPartition, unclean: bool) -> bool:
    leader = picture.leader(where)
    return leader is not None and (unclean or leader == picture.assignment(where).replicas[0])


def _row(before: Picture, after: Picture, where: TopicPartition, unclean: bool) -> dict[str, object]:
    gone = where.topic not in after.topics
    done = not gone and _fine(after, where, unclean)
    first = None if gone else after.assignment(where).replicas[0]
    if done:
        outcome = "not needed" if _fine(before, where, unclean) else "elected"
    elif gone:
        outcome = "its topic is gone"
    elif unclean:
        outcome = "none of its brokers is alive"
    elif first not in after.brokers:
        outcome = f"broker {first}, who is preferred, is not alive"
    else:
        outcome = f"broker {first}, who is preferred, is not in sync"
    leader = None if gone else after.leader(where)
    return {
        "partition": str(where),
        "before": before.leader(where),
        "leader": leader,
        "outcome": outcome,
        "done": done,
    }
