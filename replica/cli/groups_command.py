"""`zab-broker groups`: list, describe, reset and delete consumer groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import click

from kraft_controller.core.names import TopicPartition
from replica.cli.bootstrap import BrokerVerbs
from replica.core.errors import ErrorCode, KafkaError
from replica.core.groups.group_states import GroupState
from replica.runtime.admin_client import group_admin
from replica.runtime.admin_client.group_admin import GroupDescription, Member
from replica.runtime.network.broker_client import Client
from zab.cli.kit.failures import DONE, FAILED, Failed, Misused
from zab.cli.kit.options import check_exclusive
from zab.cli.kit.output import progress, say, show, show_json
from zab.cli.kit.verb_group import Arguments

STATES = [state.value for state in GroupState]


def _time(text: str) -> int:
    """Convert an ISO time to Unix milliseconds. A time without a time zone is local."""
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.group(cls=BrokerVerbs)
def groups() -> None:
    """Show consumer groups, their members and their progress; reset their offsets, or delete them.

    \b
    zab-broker groups list --state Stable
    zab-broker groups describe my-group
    zab-broker groups describe my-group --members
    zab-broker groups reset-offsets my-group --topic orders --to-earliest
    zab-broker groups reset-offsets my-group --topic orders:0,3 --shift-by -100 --execute
    zab-broker groups delete my-group

    Stop the members of a group before you reset its offsets or delete it; otherwise the command fails. `reset-offsets`
    only shows the result, unless --execute is given.
    """


_TOPICS: Final = "TOPIC[:P,P...]"


# -- list and describe ------------------------------------------------------------------------------------------


@groups.verb("list", "Print one line for each group.")
@click.option("--state", multiple=True, type=click.Choice(STATES), help="Only groups in this state. May be repeated.")
async def _list(client: Client, arguments: Arguments) -> int:
    rows = [
        {"group": each.group, "state": each.state, "type": each.protocol_type, "coordinator": each.coordinator}
        for each in await group_admin.list_groups(client, arguments.state)
    ]
    show(arguments.json, rows, ["group", "state", "type", "coordinator"])
    return DONE


@groups.verb(
    "describe", "Show committed offset, high watermark and lag of each partition. Without GROUP: for all groups."
)
@click.argument("groups", nargs=-1, metavar="[GROUP]...")
@click.option("--members", is_flag=True, help="Print one line for each member instead.")
async def _describe(client: Client, arguments: Arguments) -> int:
    names = arguments.groups or [each.group for each in await group_admin.list_groups(client)]
    code = DONE
    found = []
    for name in names:
        described = await group_admin.describe(client, name)
        if described.state == GroupState.DEAD.value and not described.progress:
            progress(f"there is no group {name}")
            code = FAILED
        else:
            found.append(described)
    if arguments.json:
        show_json([_whole(each) for each in found])
    elif arguments.members:
        rows = [_member(each, member) for each in found for member in each.members]
        show(arguments.json, rows, ["group", "member", "instance", "client", "host", "partitions", "assigned"])
    else:
        for each in found:
            if not each.members:
                progress(f"group {each.group} is {each.state} and has no members")
        rows = [row for each in found for row in _progress(each)]
        show(arguments.json, rows, ["group", "topic", "partition", "committed", "end", "lag", "member", "host"])
    return code


def _whole(each: GroupDescription) -> dict[str, object]:
    return {
        "group": each.group,
        "state": each.state,
        "type": each.protocol_type,
        "protocol": each.protocol,
        "coordinator": each.coordinator,
        "lag": sum(part.lag or 0 for part in each.progress),
        "members": [_member(each, member) for member in each.members],
        "partitions": _progress(each),
    }


def _member(each: GroupDescription, member: Member) -> dict[str, object]:
    return {
        "group": each.group,
        "member": member.id,
        "instance": member.instance,
        "client": member.client,
        "host": member.host.removeprefix("/"),
        "partitions": len(member.assigned),
        "assigned": [str(where) for where in member.assigned],
    }


def _progress(each: GroupDescription) -> list[dict[str, object]]:
    return [
        {
            "group": each.group,
            "topic": part.where.topic,
            "partition": part.where.partition,
            "committed": part.committed,
            "end": part.end,
            "lag": part.lag,
            "metadata": part.metadata,
            "member": part.member.id if part.member is not None else None,
            "host": part.member.host.removeprefix("/") if part.member is not None else None,
        }
        for part in each.progress
    ]


# -- reset and delete ------------------------------------------------------------------------------------------


@groups.verb(
    "reset-offsets", "Set the committed offsets of a group, within the log. Without --execute, only show the result."
)
@click.argument("group")
@click.option("--topic", multiple=True, metavar=_TOPICS, help="Partitions to reset. May be repeated.")
@click.option("--all-topics", is_flag=True, help="All partitions for which the group has committed an offset.")
@click.option("--to-earliest", is_flag=True, help="Reset to the log start offset.")
@click.option("--to-latest", is_flag=True, help="Reset to the high watermark.")
@click.option("--to-offset", type=int, metavar="N", help="Reset to this offset; outside the log, to the nearer limit.")
@click.option(
    "--to-datetime",
    type=_time,
    metavar="TIME",
    help="Reset to the first record at or after this time, such as 2026-01-31T12:00:00 (local) or "
    "2026-01-31T12:00:00+01:00; to the high watermark if there is none.",
)
@click.option("--shift-by", type=int, metavar="N", help="Add N, which may be negative, to the committed offsets.")
@click.option("--execute", is_flag=True, help="Commit the new offsets.")
async def _reset(client: Client, arguments: Arguments) -> int:
    check_exclusive(arguments, "--topic", "--all-topics", required=True)
    check_exclusive(
        arguments, "--to-earliest", "--to-latest", "--to-offset", "--to-datetime", "--shift-by", required=True
    )
    group = arguments.group
    described = await group_admin.describe(client, group)
    if described.members or described.state not in (GroupState.EMPTY.value, GroupState.DEAD.value):
        members = ", ".join(member.id for member in described.members) or "members that are joining"
        raise Failed(f"group {group} is {described.state}; stop its members first: {members}")
    before = {part.where: part.committed for part in described.progress if part.committed is not None}
    if arguments.all_topics:
        wheres = sorted(before)
    else:
        wheres = await chosen(client, arguments.topic)
    after = await _targets(client, arguments, wheres, before)
    rows: list[Mapping[str, Any]] = [
        {
            "group": group,
            "topic": where.topic,
            "partition": where.partition,
            "before": before.get(where),
            "after": after[where],
        }
        for where in wheres
    ]
    if arguments.execute and after:
        await group_admin.commit(client, group, after)
    show(arguments.json, rows, ["group", "topic", "partition", "before", "after"])
    if not arguments.execute:
        progress("nothing was changed: add --execute")
    return DONE


async def _targets(
    client: Client, arguments: Arguments, wheres: list[TopicPartition], before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the new offsets, limited to the log: outside of it, consumers would apply their own reset policy."""
    first = await group_admin.offsets_at(client, dict.fromkeys(wheres, group_admin.EARLIEST))
    last = await group_admin.offsets_at(client, dict.fromkeys(wheres, group_admin.LATEST))
    unled = [str(where) for where in wheres if where not in first or where not in last]
    if unled:
        raise Failed(f"no leader of {', '.join(unled)}, so the first and last offsets are unknown")
    if arguments.to_earliest:
        wanted = first
    elif arguments.to_latest:
        wanted = last
    elif arguments.to_offset is not None:
        wanted = dict.fromkeys(wheres, arguments.to_offset)
    elif arguments.to_datetime is not None:
        wanted = await group_admin.offsets_at(client, dict.fromkeys(wheres, arguments.to_datetime))
    else:
        missing = [str(where) for where in wheres if where not in before]
        if missing:
            raise Misused(f"--shift-by: no offset is committed for {', '.join(missing)}")
        wanted = {where: before[where] + arguments.shift_by for where in wheres}
    return {where: min(max(wanted[where], first[where]), last[where]) for where in wheres}


async def chosen(client: Client, topics: Sequence[str]) -> list[TopicPartition]:
    """Return the partitions that the options name: `orders` means all of the topic, `orders:0,3` these two."""
    wanted: dict[str, set[int] | None] = {}
    for each in topics:
        name, colon, numbers = each.partition(":")
        if not colon:
            wanted[name] = None
            continue
        try:
            named = {int(number) for number in numbers.split(",")}
        except ValueError:
            raise Misused(f"--topic {each}: expected partition numbers after the colon, as in orders:0,3") from None
        known = wanted.get(name, set())
        wanted[name] = None if known is None else known | named
    there = await group_admin.partitions_of(client, wanted)
    for name, partitions in wanted.items():
        strange = sorted((partitions or set()) - {where.partition for where in there if where.topic == name})
        if strange:
            raise Misused(f"topic {name} has no partition {', '.join(map(str, strange))}")
    return [where for where in there if (picked := wanted[where.topic]) is None or where.partition in picked]


@groups.verb("delete", "Delete these groups, which must have no members, and their committed offsets.")
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...")
@click.option(
    "--topic",
    multiple=True,
    metavar=_TOPICS,
    help="Delete only the offsets of these partitions; the group may have members if none subscribes to the topic. May "
    "be repeated.",
)
async def _delete(client: Client, arguments: Arguments) -> int:
    code = DONE
    for group in arguments.groups:
        try:
            if arguments.topic:
                wheres = await chosen(client, arguments.topic)
                await group_admin.delete_offsets(client, group, wheres)
                what = f"committed offsets of group {group} for {', '.join(map(str, wheres))}"
            else:
                await group_admin.delete(client, group)
                what = f"group {group}"
        except KafkaError as error:
            gone = error.code is ErrorCode.GROUP_ID_NOT_FOUND
            progress(f"there is no group {group}" if gone else f"not deleted: {error}")
            code = FAILED
        else:
            say(arguments.json, f"deleted: {what}", deleted=group, topics=arguments.topic)
    return code
