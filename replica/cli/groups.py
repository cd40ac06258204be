"""Consumer groups: who is in them, how far they have read and how much is left; set them back, or delete them.

examples:
  zab-broker groups list --state Stable
  zab-broker groups describe my-group
  zab-broker groups describe my-group --members
  zab-broker groups reset-offsets my-group --topic orders --to-earliest
  zab-broker groups reset-offsets my-group --topic orders:0,3 --shift-by -100 --execute
  zab-broker groups delete my-group

Offsets are set, and groups are deleted, while nobody is in them: a member would go on from where it is.
`reset-offsets` shows what it would do, and does it with --execute.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kraft_controller.cli.common import DONE, FAILED, Failed, Misuse, progress, say, show, show_json
from kraft_controller.core.names import TopicPartition
from replica.cli.bootstrap import asked, verbs
from replica.core.errors import ErrorCode, KafkaError
from replica.core.groups.states import GroupState
from replica.runtime import group_admin
from replica.runtime.client import Client
from replica.runtime.group_admin import Described, Member

act = asked

STATES = [state.value for state in GroupState]


def add(parser: argparse.ArgumentParser) -> None:
    verb = verbs(parser)
    listing = verb("list", _list, "one line for each group")
    listing.add_argument(
        "--state",
        action="append",
        default=[],
        choices=STATES,
        help="only those that are in this state; may be repeated",
    )
    describing = verb("describe", _describe, "one line for each partition: what was committed, and what is left")
    describing.add_argument("groups", nargs="*", metavar="GROUP", help="of these (default: all)")
    describing.add_argument("--members", action="store_true", help="one line for each member instead")
    resetting = verb("reset-offsets", _reset, "go on from elsewhere; shows what would be done")
    resetting.add_argument("group", metavar="GROUP")
    what = resetting.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--topic", action="append", default=[], metavar="TOPIC[:P,P...]", help="of these; may be repeated"
    )
    what.add_argument("--all-topics", action="store_true", help="of all in which the group has committed something")
    to = resetting.add_mutually_exclusive_group(required=True)
    to.add_argument("--to-earliest", action="store_true", help="to the first record that is there")
    to.add_argument("--to-latest", action="store_true", help="behind the last record")
    to.add_argument("--to-offset", type=int, metavar="N")
    to.add_argument("--to-datetime", type=_time, metavar="TIME", help="2026-01-31T12:00:00, with or without +01:00")
    to.add_argument("--shift-by", type=int, metavar="N", help="from where it is; back, if N is negative")
    resetting.add_argument("--execute", action="store_true", help="do it")
    deleting = verb("delete", _delete, "groups in which nobody is, with all that they have committed")
    deleting.add_argument("groups", nargs="+", metavar="GROUP")
    deleting.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="TOPIC[:P,P...]",
        help="only what was committed for these topics",
    )


# -- looking -----------------------------------------------------------------------------------------------


async def _list(client: Client, arguments: argparse.Namespace) -> int:
    rows = [
        {"group": each.group, "state": each.state, "type": each.protocol_type, "coordinator": each.coordinator}
        for each in await group_admin.list_groups(client, arguments.state)
    ]
    show(arguments, rows, ["group", "state", "type", "coordinator"])
    return DONE


async def _describe(client: Client, arguments: argparse.Namespace) -> int:
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
        show(arguments, rows, ["group", "member", "instance", "client", "host", "partitions", "assigned"])
    else:
        for each in found:
            if not each.members:
                progress(f"group {each.group} is {each.state}: nobody is in it")
        rows = [row for each in found for row in _progress(each)]
        show(arguments, rows, ["group", "topic", "partition", "committed", "end", "lag", "member", "host"])
    return code


def _whole(each: Described) -> dict[str, object]:
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


def _member(each: Described, member: Member) -> dict[str, object]:
    return {
        "group": each.group,
        "member": member.id,
        "instance": member.instance,
        "client": member.client,
        "host": member.host.removeprefix("/"),
        "partitions": len(member.assigned),
        "assigned": [str(where) for where in member.assigned],
    }


def _progress(each: Described) -> list[dict[str, object]]:
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


# -- setting -----------------------------------------------------------------------------------------------


async def _reset(client: Client, arguments: argparse.Namespace) -> int:
    group = arguments.group
    described = await group_admin.describe(client, group)
    if described.members or described.state not in (GroupState.EMPTY.value, GroupState.DEAD.value):
        who = ", ".join(member.id for member in described.members) or "members that are joining"
        raise Failed(f"group {group} is {described.state}, and nobody may be in it for this; there are: {who}")
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
    show(arguments, rows, ["group", "topic", "partition", "before", "after"])
    if not arguments.execute:
        progress("nothing was done: --execute does it")
    return DONE


async def _targets(
    client: Client, arguments: argparse.Namespace, wheres: list[TopicPartition], before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Never outside of what is there: a consumer that begins outside begins wherever its own setting says."""
    first = await group_admin.offsets_at(client, dict.fromkeys(wheres, group_admin.EARLIEST))
    last = await group_admin.offsets_at(client, dict.fromkeys(wheres, group_admin.LATEST))
    unled = [str(where) for where in wheres if where not in first or where not in last]
    if unled:
        raise Failed(f"nobody leads {', '.join(unled)}, so nobody knows where it begins and ends")
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
            raise Misuse(f"--shift-by: nothing was committed for {', '.join(missing)}, so there is nothing to shift")
        wanted = {where: before[where] + arguments.shift_by for where in wheres}
    return {where: min(max(wanted[where], first[where]), last[where]) for where in wheres}


async def chosen(client: Client, topics: list[str]) -> list[TopicPartition]:
    """`orders` is all of its partitions, `orders:0,3` these two."""
    wanted: dict[str, set[int] | None] = {}
    for each in topics:
        name, colon, numbers = each.partition(":")
        if not colon:
            wanted[name] = None
            continue
        try:
            named = {int(number) for number in numbers.split(",")}
        except ValueError:
            raise Misuse(f"--topic {each}: behind the colon stand numbers of partitions, as in orders:0,3") from None
        known = wanted.get(name, set())
        wanted[name] = None if known is None else known | named
    there = await group_admin.partitions_of(client, wanted)
    for name, partitions in wanted.items():
        strange = sorted((partitions or set()) - {where.partition for where in there if where.topic == name})
        if strange:
            raise Misuse(f"topic {name} has no partition {', '.join(map(str, strange))}")
    return [where for where in there if (picked := wanted[where.topic]) is None or where.partition in picked]


async def _delete(client: Client, arguments: argparse.Namespace) -> int:
    code = DONE
    for group in arguments.groups:
        try:
            if arguments.topic:
                wheres = await chosen(client, arguments.topic)
                await group_admin.delete_offsets(client, group, wheres)
                what = f"what group {group} had committed for {', '.join(map(str, wheres))}"
            else:
                await group_admin.delete(client, group)
                what = f"group {group}"
        except KafkaError as error:
            gone = error.code is ErrorCode.GROUP_ID_NOT_FOUND
            progress(f"there is no group {group}" if gone else f"not deleted: {error}")
            code = FAILED
        else:
            say(arguments, f"deleted: {what}", deleted=group, topics=arguments.topic)
    return code


def _time(text: str) -> int:
    """In the zone of this machine, when it does not say which."""
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
