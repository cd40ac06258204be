"""The pages about consumer groups: members, coordinators, committed offsets and lag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Final

from kraft_controller.core.names import TopicPartition
from replica.console.cluster_view import ClusterView
from replica.runtime.admin_client import group_admin
from zab.admin.markup import NONE, number, pairs, table
from zab.console.layout import link, page_of, problems, search, shown
from zab.console.page import Page, Refusal, Visit

GROUPS_MAX: Final = 100
"""The maximum number of groups on a page: each costs its coordinator a request."""


class GroupPages:
    def __init__(self, view: ClusterView) -> None:
        self._view = view

    async def groups(self, visit: Visit) -> Page:
        listed = await self._view.groups.get()
        wanted, state = visit.parameters.get("filter", ""), visit.parameters.get("state", "")
        groups = [each for each in listed.groups if wanted in each.group and state in ("", each.state)]
        part, pages = page_of(visit, len(groups), GROUPS_MAX)
        lags, more = await self._view.lags(groups[part])
        rows = []
        for each in groups[part]:
            partitions, lag = lags.get(each.group, (None, None))
            rows.append(
                (
                    link(each.group, "/group", id=each.group),
                    shown(each.state or NONE),
                    shown(each.protocol_type or NONE),
                    link(str(each.coordinator), "/broker", id=each.coordinator),
                    NONE if partitions is None else number(partitions),
                    NONE if lag is None else f"<b>{number(lag)}</b>" if lag else "0",
                )
            )
        states = sorted({each.state for each in listed.groups})
        links = [link(each or "unknown", "/groups", state=each) for each in states] + [link("all", "/groups")]
        body = problems([*listed.problems, *more]) + search(visit, "Name contains", "filter", ("state",))
        body += f"<p>State: {', '.join(links)}</p>" if len(states) > 1 else ""
        head = ("Group", "State", "Type", "Coordinator", "Partitions", "Lag")
        body += pages + table(f"Groups, {number(len(groups))}", head, rows, "no groups")
        return Page("Groups", body, refreshes=True)

    async def group(self, visit: Visit) -> Page:
        name = visit.parameter("id")
        listed = await self._view.groups.get()
        if name not in {each.group for each in listed.groups}:  # a lookup of its coordinator might create a topic
            raise Refusal(HTTPStatus.NOT_FOUND, f"no coordinator lists group {name!r}. {'; '.join(listed.problems)}")
        failed: list[str] = []

        async def ends_of(wheres: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
            metadata = await self._view.metadata.get()
            leaders = metadata.leaders({where.topic for where in wheres} & metadata.topics.keys())
            found = await self._view.offsets({where: leaders[where] for where in wheres if where in leaders})
            failed.extend(found.problems)
            return {where: end for where, (_, end) in found.found.items()}

        group = await group_admin.describe(self._view.client, name, ends_of)
        lags = [each.lag for each in group.progress]
        total = sum(lag or 0 for lag in lags)
        facts = (
            ("state", shown(group.state)),
            ("type and protocol", shown(f"{group.protocol_type} {group.protocol}".strip() or NONE)),
            ("coordinator", link(str(group.coordinator), "/broker", id=group.coordinator)),
            ("members", number(len(group.members))),
            ("lag", number(total) + (" and an unknown part" if None in lags else "")),
        )
        part, pages = page_of(visit, len(group.progress))
        progress = [
            (
                link(each.where.topic, "/topic", name=each.where.topic),
                link(
                    str(each.where.partition), "/records", topic=each.where.topic, partition=each.where.partition,
                    offset=each.committed,
                ),
                NONE if each.committed is None else number(each.committed),
                NONE if each.end is None else number(each.end),
                NONE if each.lag is None else f"<b>{number(each.lag)}</b>" if each.lag else "0",
                NONE if each.member is None else shown(each.member.client),
            )
            for each in group.progress[part]
        ]  # fmt: skip
        members = [
            (
                shown(each.id),
                NONE if each.instance is None else shown(each.instance),
                shown(each.client),
                shown(each.host.removeprefix("/")),
                number(len(each.assigned)),
            )
            for each in group.members[:GROUPS_MAX]
        ]
        body = f"<p>{link('All groups', '/groups')}</p>{problems(failed)}{pairs('Group', facts)}{pages}"
        columns = ("Topic", "Partition", "Committed", "End", "Lag", "Client")
        body += table("Progress", columns, progress, "no committed offsets and no assignment")
        of_member = ("Member", "Instance", "Client", "Host", "Partitions")
        body += table("Members", of_member, members, "none", max(len(group.members) - GROUPS_MAX, 0))
        return Page(f"Group {name}", body, refreshes=True)
