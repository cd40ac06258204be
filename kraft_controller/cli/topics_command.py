"""`zab-broker topics`: create, list, describe, grow and delete topics."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from typing import Final

import click

import zab
from kraft_controller.cli.store_connection import StoreVerbs, report_damage
from kraft_controller.cli.waiting import Waiting, wait_options, waited
from kraft_controller.core.configuration.config_keys import ConfigError
from kraft_controller.core.names import INTERNAL, BrokerId, TopicPartition
from kraft_controller.core.topics.assignment import AssignmentError, Policy
from kraft_controller.runtime.admin.cluster_description import ClusterDescription, describe_cluster
from kraft_controller.runtime.admin.topic_requests import (
    TopicError,
    add_partitions,
    create_topic,
    delete_topic,
    is_being_deleted,
    plan_topic,
)
from kraft_controller.wire.znodes import topic_path
from zab.cli.kit.failures import DONE, FAILED, Failed, Misused
from zab.cli.kit.options import check_exclusive
from zab.cli.kit.output import progress, say, show
from zab.cli.kit.verb_group import Arguments
from zab.core.plurals import counted


@click.group(cls=StoreVerbs)
def topics() -> None:
    """Create, list, describe, grow and delete topics.

    \b
    zab-broker topics create orders --partitions 12 --replication-factor 3 --config min.insync.replicas=2 --wait
    zab-broker topics create small --replica-assignment 1:2,2:3   partition 0 on 1 and 2, partition 1 on 2 and 3
    zab-broker topics list --internal
    zab-broker topics describe orders
    zab-broker topics describe --under-replicated                 exits with 1 if there are any
    zab-broker topics alter orders --partitions 24
    zab-broker topics delete orders --wait

    By default a new topic has one partition, with three replicas, or with one on each broker if there are fewer than
    three.
    """


# -- create, alter, delete --------------------------------------------------------------------------------


@topics.verb("create", "Create a topic.")
@click.argument("topic")
@click.option("--partitions", type=int, metavar="N", help="The number of partitions.  [default: 1]")
@click.option(
    "--replication-factor",
    type=int,
    metavar="N",
    help="Replicas of each partition.  [default: 3, or one on each broker if there are fewer]",
)
@click.option(
    "--replica-assignment",
    metavar="B:B,B:B",
    help="The brokers of each partition, in place of the counts; the first broker is the preferred leader.",
)
@click.option(
    "--policy",
    type=click.Choice([policy.value for policy in Policy]),
    help="spread: start at a random broker, and spread replicas over racks (default); plain: replica j of partition i "
    "is on the broker at index (i + j) mod n of the n sorted broker ids, without regard to racks.",
)
@click.option("--config", multiple=True, metavar="KEY=VALUE", help="A setting of the topic. May be repeated.")
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic already exists.")
@wait_options("every partition has a leader")
async def _create(session: zab.Session, arguments: Arguments) -> int:
    name, factor = arguments.topic, arguments.replication_factor
    others = (arguments.partitions, factor, arguments.policy)
    if arguments.replica_assignment is not None and any(other is not None for other in others):
        raise Misused("--replica-assignment excludes --partitions, --replication-factor and --policy")
    if arguments.if_not_exists and await session.exists(f"/brokers/topics/{name}") is not None:
        say(arguments.json, f"topic {name} exists", topic=name, created=False)
        return DONE
    try:
        if arguments.replica_assignment is not None:
            assignment = dict(enumerate(_assignment(arguments.replica_assignment)))
        else:
            assignment = await plan_topic(
                session,
                name,
                1 if arguments.partitions is None else arguments.partitions,
                factor,
                secrets.randbelow,
                Policy(arguments.policy or Policy.SPREAD),
            )
        configs = dict(pair("--config", text) for text in arguments.config)
        ident = await create_topic(session, name, assignment, configs, secrets.token_bytes)
    except (TopicError, AssignmentError, ConfigError) as error:
        raise Failed(str(error)) from None
    replicas = len(assignment[0])
    if replicas == 1:
        progress(
            f"warning: each partition of {name} has one replica: its records are unavailable while that broker is down"
        )
    if arguments.wait:
        await waited(arguments, _LedWaiting(session, name))
    line = f"topic {name}: {counted(len(assignment), 'partition')}, {counted(replicas, 'replica')} of each"
    say(arguments.json, line, topic=name, topic_id=ident, partitions=len(assignment), replicas=replicas, created=True)
    return DONE


@topics.verb("alter", "Add partitions. They cannot be removed again.")
@click.argument("topic")
@click.option("--partitions", type=int, required=True, metavar="N", help="New total number of partitions.")
@click.option("--replica-assignment", metavar="B:B,B:B", help="The brokers of the new partitions.")
@wait_options("every partition has a leader")
async def _alter(session: zab.Session, arguments: Arguments) -> int:
    name = arguments.topic
    manual = None if arguments.replica_assignment is None else _assignment(arguments.replica_assignment)
    try:
        made = await add_partitions(session, name, arguments.partitions, manual)
    except (TopicError, AssignmentError) as error:
        raise Failed(str(error)) from None
    progress("warning: records with the same key may now go to another partition than before")
    if arguments.wait:
        await waited(arguments, _LedWaiting(session, name))
    say(
        arguments.json,
        f"topic {name}: {counted(len(made), 'more partition')}",
        topic=name,
        partitions=arguments.partitions,
    )
    return DONE


@topics.verb("delete", "Delete topics with all their records.")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@click.option("--if-exists", is_flag=True, help="Succeed if a topic does not exist.")
@wait_options("they are gone")
async def _delete(session: zab.Session, arguments: Arguments) -> int:
    asked = {}
    for name in dict.fromkeys(arguments.topics):
        try:
            stat = await session.exists(topic_path(name))
            await delete_topic(session, name)
            asked[name] = 0 if stat is None else stat.czxid
        except TopicError as error:
            if not arguments.if_exists:
                raise Failed(str(error)) from None
    if arguments.wait:
        await waited(arguments, _GoneWaiting(session, asked))
    what = "deleted" if arguments.wait else "to be deleted"
    say(
        arguments.json, "\n".join(f"topic {name}: {what}" for name in asked), topics=list(asked), deleted=arguments.wait
    )
    return DONE


class _LedWaiting(Waiting):
    def __init__(self, session: zab.Session, name: str) -> None:
        super().__init__(session)
        self._name = name

    async def left(self) -> str | None:
        cluster = await describe_cluster(self._session, [self._name])
        if self._name not in cluster.topics:
            raise Failed(f"topic {self._name} was deleted meanwhile")
        waiting = [where for where in cluster.partitions() if cluster.leader(where) is None]
        return f"no leader yet: {counted(len(waiting), 'partition')}, including {waiting[0]}" if waiting else None


class _GoneWaiting(Waiting):
    def __init__(self, session: zab.Session, made: dict[str, int]) -> None:
        """`made`: the zxid at which each topic was created. A topic of another zxid has the name of a deleted one."""
        super().__init__(session)
        self._made = made

    async def left(self) -> str | None:
        asked = []
        for name, made in self._made.items():
            requested = await is_being_deleted(self._session, name)
            stat = await self._session.exists(topic_path(name))
            if stat is not None and stat.czxid != made:
                continue
            if requested:
                asked.append(name)
            elif stat is not None:  # a completed deletion removes the topic's node before that of the request
                raise Failed(f"topic {name} exists: the controller refused the deletion (see its log)")
        if not asked:
            return None
        cluster = await describe_cluster(self._session, asked)
        return "not gone yet: " + "; ".join(
            f"{name}, {waits}" if name in cluster.topics and (waits := cluster.deletion_waits(name)) else name
            for name in asked
        )


def _assignment(text: str) -> list[tuple[BrokerId, ...]]:
    if not re.fullmatch(r"\d+(:\d+)*(,\d+(:\d+)*)*", text):
        raise Misused(
            f"--replica-assignment {text!r}: expected the form 1:2,2:3 (partition 0 on brokers 1 and 2, 1 on 2 and 3)"
        )
    return [tuple(BrokerId(int(broker)) for broker in one.split(":")) for one in text.split(",")]


def pair(option: str, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        # Repeat only what looks like the name of a key: other texts may contain a password.
        shown = f" {text}" if re.fullmatch(r"[a-z.]+", text) else ""
        raise Misused(f"{option}{shown}: expected KEY=VALUE")
    return key.strip(), value


# -- reading ---------------------------------------------------------------------------------------------


@topics.verb("list", "List topics.")
@click.option("--internal", is_flag=True, help="Also list internal topics, such as __consumer_offsets.")
async def _list(session: zab.Session, arguments: Arguments) -> int:
    cluster = await describe_cluster(session)
    rows = [
        {
            "topic": name,
            "partitions": len(topic.partitions),
            "replicas": max(len(held.target) for held in topic.partitions.values()) if topic.partitions else 0,
            "state": _deleting(cluster, name),
        }
        for name, topic in cluster.topics.items()
        if arguments.internal or name not in INTERNAL
    ]
    show(arguments.json, rows, ["topic", "partitions", "replicas", "state"])
    return report_damage(cluster)


def _deleting(cluster: ClusterDescription, name: str) -> str:
    """Return the state of a topic's deletion, with the reason if it waits; empty if the topic is not being deleted."""
    if name not in cluster.deleting:
        return ""
    waits = cluster.deletion_waits(name)
    return "deleting" if waits is None else f"deleting, {waits}"


@topics.verb(
    "describe",
    "Show leader, replicas and in-sync replicas of each partition. With a filter, exit with 1 if it finds any.",
)
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option(
    "--under-replicated",
    is_flag=True,
    help="Only partitions with fewer live in-sync replicas than their replication factor (in a reassignment: the new "
    "one).",
)
@click.option(
    "--unavailable",
    is_flag=True,
    help="Only partitions without a live leader, except those of topics that are being deleted.",
)
@click.option(
    "--under-min-isr", is_flag=True, help="Only partitions that refuse acks=all, since their ISR is too small."
)
@click.option(
    "--at-min-isr", is_flag=True, help="Only partitions that refuse acks=all if one more replica leaves the ISR."
)
@click.option(
    "--min-isr",
    type=int,
    default=1,
    show_default=True,
    metavar="N",
    help="The value of min.insync.replicas to assume for topics that do not set it.",
)
async def _describe(session: zab.Session, arguments: Arguments) -> int:
    check_exclusive(arguments, *(f"--{each.replace('_', '-')}" for each in _FILTERS))
    cluster = await describe_cluster(session, arguments.topics or None)
    code = report_damage(cluster)
    unread = [name for name in arguments.topics if name not in cluster.topics]
    missing = [name for name in unread if await session.exists(f"/brokers/topics/{name}") is None]
    if missing:
        raise Failed(f"there is no topic {', '.join(missing)}")
    filtered = next((each for each in _FILTERS if getattr(arguments, each)), None)
    found = [
        where
        for where in cluster.partitions()
        if filtered is None or _FILTERS[filtered](cluster, where, arguments.min_isr)
    ]
    rows = [_row(cluster, where) for where in found]
    columns = ["partition", "leader", "replicas", "isr", "epoch", "moves"]
    if arguments.json:
        show(arguments.json, rows, columns)
    else:
        for name in dict.fromkeys(where.topic for where in found):
            topic = cluster.topics[name]
            state = f", {_deleting(cluster, name)}" if name in cluster.deleting else ""
            configs = " ".join(f"{key}={value}" for key, value in cluster.configs[name].items())
            partitions = counted(len(topic.partitions), "partition")
            print(f"{name}  id {topic.id or '-'}, {partitions}{state}  {configs}".rstrip())
            # Without a leader, show the last known ISR: one of its members must return, unless an unclean election is
            # made.
            shown = [row if row["leader"] is not None else row | {"isr": row["last_known_isr"]} for row in rows]
            show(arguments.json, [row for row in shown if row["topic"] == name], columns)
            print()
    return FAILED if filtered and rows else code


def _row(cluster: ClusterDescription, where: TopicPartition) -> dict[str, object]:
    held, state = cluster.assignment(where), cluster.states.get(where)
    moves = [f"+{broker}" for broker in held.adding] + [f"-{broker}" for broker in held.removing]
    return {
        "topic": where.topic,
        "partition": where.partition,
        "leader": cluster.leader(where),
        "replicas": list(held.replicas),
        "isr": list(cluster.isr(where)),
        "epoch": None if state is None else state.leader_epoch,
        "moves": moves,
        "last_known_leader": None if state is None else state.leader,
        "last_known_isr": [] if state is None else list(state.isr),
        "recovering": state is not None and bool(state.recovery),
    }


def _min_isr(cluster: ClusterDescription, where: TopicPartition, default: int) -> int:
    return min(cluster.min_isr(where, default), len(cluster.assignment(where).replicas))


_FILTERS: Final[Mapping[str, Callable[[ClusterDescription, TopicPartition, int], bool]]] = {
    "under_replicated": lambda cluster, where, _: len(cluster.isr(where)) < len(cluster.assignment(where).target),
    "unavailable": lambda cluster, where, _: cluster.leader(where) is None and where.topic not in cluster.deleting,
    "under_min_isr": lambda cluster, where, least: len(cluster.isr(where)) < _min_isr(cluster, where, least),
    "at_min_isr": lambda cluster, where, least: len(cluster.isr(where)) == _min_isr(cluster, where, least),
}
