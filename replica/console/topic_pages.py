"""The pages about brokers, topics and partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from kraft_controller.core.names import INTERNAL, TopicPartition
from replica.console.cluster_view import EXPECTED, ClusterView, Metadata, checked_topic
from replica.runtime.network.broker_connection import raise_for
from replica.wire.schemas.cluster_schemas import MetadataResponsePartition, MetadataResponseTopic
from replica.wire.schemas.topic_schemas import DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResource
from zab.admin.markup import NONE, member, members, mode, number, pairs, table
from zab.console.layout import link, page_of, problems, search, section, shown
from zab.console.page import Page, Refusal, Visit
from zab.core.addresses import with_port

TOPIC_RESOURCE: Final = 2
DEFAULT_SOURCE: Final = 5
"""Kafka's number for a setting with its default value."""


class TopicPages:
    def __init__(self, view: ClusterView) -> None:
        self._view = view

    # -- brokers -----------------------------------------------------------------------------------

    async def brokers(self, visit: Visit) -> Page:
        metadata = await self._view.metadata.get()
        leads, holds, in_sync = _counts(metadata)
        rows = []
        for each in metadata.brokers:
            live = metadata.live.get(each)
            sign, word, kind = ("●", "alive", "follower") if live else ("✕", "gone", "lost")
            if each == metadata.controller:
                sign, word, kind = "★", "controller", "leader"
            cells = (
                f"<b>{link(str(each), '/broker', id=each)}</b>",
                mode(kind, sign, word),
                number(leads[each]),
                number(holds[each]),
                number(in_sync[each]) if in_sync[each] == holds[each] else f"<b>{number(in_sync[each])}</b>",
                shown((live.rack if live else None) or NONE),
                shown(with_port(live.host, live.port)) if live else NONE,
            )
            rows.append(member("broker", each, live is not None, cells))
        head = ("Broker", "State", "Leads", "Replicas", "In sync", "Rack", "Address")
        more = f"<p>Cluster <code>{shown(metadata.cluster)}</code></p>"
        return Page("Brokers", more + members("Brokers", head, rows), refreshes=True)

    async def broker(self, visit: Visit) -> Page:
        visit.parameter("id")
        broker = visit.number("id", 0)
        metadata = await self._view.metadata.get()
        live = metadata.live.get(broker)
        if broker not in metadata.brokers:
            raise Refusal(HTTPStatus.NOT_FOUND, f"broker {broker} is not registered and holds no replica")
        leads, holds, in_sync = _counts(metadata)
        role = "gone" if live is None else "controller" if broker == metadata.controller else "alive"
        rows = (
            ("state", role),
            ("address", NONE if live is None else shown(with_port(live.host, live.port))),
            ("rack", shown((live.rack if live else None) or NONE)),
            ("leads", number(leads[broker])),
            ("replicas", number(holds[broker])),
            ("in sync", number(in_sync[broker])),
        )
        path = f"/brokers/ids/{broker}"
        links = f"<p>{link('All brokers', '/brokers')}, {link('its node in the store', '/node', path=path)}</p>"
        held = [
            (topic, partition)
            for topic in metadata.topics.values()
            for partition in topic.partitions
            if broker in partition.replica_nodes
        ]
        part, pages = page_of(visit, len(held))
        listed = [
            (
                link(topic.name or "", "/topic", name=topic.name),
                str(partition.partition_index),
                "leader" if partition.leader_id == broker else "follower",
                "yes" if broker in partition.isr_nodes else "<b>no</b>",
            )
            for topic, partition in held[part]
        ]
        body = links + pairs("Broker", rows) + pages
        body += table("Replicas", ("Topic", "Partition", "Role", "In sync"), listed, "none")
        return Page(f"Broker {broker}", body, refreshes=True)

    # -- topics ------------------------------------------------------------------------------------

    async def topics(self, visit: Visit) -> Page:
        metadata = await self._view.metadata.get()
        wanted, unhealthy = visit.parameters.get("filter", ""), visit.parameters.get("unhealthy") == "1"
        names = [
            name
            for name, topic in metadata.topics.items()
            if wanted in name and (not unhealthy or metadata.offline(topic) or metadata.under_replicated(topic))
        ]
        part, pages = page_of(visit, len(names))
        leaders = metadata.leaders(names[part])
        offsets = await self._view.offsets(leaders)
        rows = []
        for name in names[part]:
            topic = metadata.topics[name]
            records = offsets.records(TopicPartition(name, each.partition_index) for each in topic.partitions)
            rows.append(
                (
                    link(name, "/topic", name=name) + (" <small>internal</small>" if name in INTERNAL else ""),
                    number(len(topic.partitions)),
                    number(max((len(each.replica_nodes) for each in topic.partitions), default=0)),
                    _trouble(metadata.offline(topic)),
                    _trouble(metadata.under_replicated(topic)),
                    NONE if records is None else number(records),
                )
            )
        head = ("Topic", "Partitions", "Replicas", "Without a leader", "Under-replicated", "Records")
        other = link("all", "/topics") if unhealthy else link("unhealthy", "/topics", unhealthy=1)
        body = problems(offsets.problems) + search(visit, "Name contains", "filter") + f"<p>Show {other} topics</p>"
        body += pages + table(f"Topics, {number(len(names))}", head, rows, "no topics")
        return Page("Topics", body, refreshes=True)

    async def topic(self, visit: Visit) -> Page:
        name = visit.parameter("name")
        metadata, topic = await checked_topic(self._view, name)
        partitions = sorted(topic.partitions, key=lambda each: each.partition_index)
        offsets = await self._view.offsets(metadata.leaders([name]))
        records = offsets.records(TopicPartition(name, each.partition_index) for each in partitions)
        part, pages = page_of(visit, len(partitions))
        rows = [_partition(metadata, name, each, offsets.found) for each in partitions[part]]
        head = ("Partition", "Leader", "Epoch", "Replicas", "In sync", "First offset", "End", "Records")
        nodes = link("its node in the store", "/node", path=f"/brokers/topics/{name}")
        body = f"<p>{link('All topics', '/topics')}, {nodes}</p>{problems(offsets.problems)}"
        counted = "unknown" if records is None else number(records)
        facts = (("partitions", number(len(partitions))), ("records", counted), *_health(metadata, topic))
        body += pairs("Topic", facts)
        body += pages + table("Partitions", head, rows, "none") + await self._settings(name)
        return Page(f"Topic {name}", body, refreshes=True)

    async def _settings(self, name: str) -> str:
        """Return the settings of a topic that differ from the defaults."""
        resource = DescribeConfigsResource(TOPIC_RESOURCE, name, None)
        try:
            reply = await self._view.client.ask(DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=[resource]))
            [result] = reply.results
            raise_for(result.error_code, f"settings of topic {name}", result.error_message)
        except EXPECTED as error:
            return section("Settings", problems([str(error)]))
        rows = [
            (shown(each.name), NONE if each.value is None else shown(each.value))
            for each in result.configs
            if each.config_source != DEFAULT_SOURCE and not each.is_sensitive
        ]
        return table("Settings that differ from the defaults", ("Setting", "Value"), rows, "none")


def _counts(metadata: Metadata) -> tuple[Counter[int], Counter[int], Counter[int]]:
    """Return for each broker how many partitions it leads, how many replicas it has, and how many are in sync."""
    leads, holds, in_sync = Counter[int](), Counter[int](), Counter[int]()
    for topic in metadata.topics.values():
        for each in topic.partitions:
            leads[each.leader_id] += 1
            holds.update(each.replica_nodes)
            in_sync.update(each.isr_nodes)
    return leads, holds, in_sync


def _partition(
    metadata: Metadata,
    name: str,
    each: MetadataResponsePartition,
    offsets: Mapping[TopicPartition, tuple[int, int]],
) -> Sequence[str]:
    pair = offsets.get(TopicPartition(name, each.partition_index))
    values = (NONE, NONE, NONE) if pair is None else map(number, (*pair, pair[1] - pair[0]))
    in_sync = _brokers(metadata, each.isr_nodes)
    return (
        f"<b>{each.partition_index}</b> " + link("records", "/records", topic=name, partition=each.partition_index),
        link(str(each.leader_id), "/broker", id=each.leader_id) if each.leader_id in metadata.live else "<b>✕ none</b>",
        str(each.leader_epoch),
        _brokers(metadata, each.replica_nodes),
        f"<b>{in_sync}</b>" if metadata.lacks_replicas(each) else in_sync,
        *values,
    )


def _brokers(metadata: Metadata, brokers: Sequence[int]) -> str:
    links = (link(str(each), "/broker", id=each) + " ✕" * (each not in metadata.live) for each in brokers)
    return ", ".join(links) or NONE


def _health(metadata: Metadata, topic: MetadataResponseTopic) -> Sequence[tuple[str, str]]:
    return (
        ("without a leader", _trouble(metadata.offline(topic))),
        ("under-replicated", _trouble(metadata.under_replicated(topic))),
    )


def _trouble(count: int) -> str:
    return f"<b>{number(count)}</b>" if count else "0"
