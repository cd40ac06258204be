"""Lookups of topics that a command names: a missing topic fails at once, a partition without a leader is retried."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from kraft_controller.core.names import TopicPartition, wrong_with_name
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import raise_for
from zab.cli.kit.failures import Failed


async def leaders_of(client: Client, topic: str, wanted: Collection[int]) -> dict[TopicPartition, int]:
    """Return the leaders of these partitions; of all if `wanted` is empty. Call it with `Client.patiently`, which waits
    for elections.
    """
    [found] = (await client.metadata([topic])).topics
    if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise Failed(await no_such_topic(client, topic))
    raise_for_topic(found.error_code, topic)
    leaders = {each.partition_index: each.leader_id for each in found.partitions}
    check_partitions(topic, leaders, wanted)
    missing = [number for number in sorted(wanted or leaders) if leaders[number] < 0]
    if missing or not leaders:
        named = f"partition{'s' * (len(missing) > 1)} {', '.join(map(str, missing))} of "
        which = f"{named if missing else 'topic '}{topic}"
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"no leader of {which}")
    return {TopicPartition(topic, number): leaders[number] for number in sorted(wanted or leaders)}


def raise_for_topic(code: int, topic: str) -> None:
    """Raise `KafkaError` unless `code` is 0. If the name is illegal, the error gives the rule."""
    why = wrong_with_name(topic) if code == ErrorCode.INVALID_TOPIC_EXCEPTION else None
    raise_for(code, f"topic {topic}", why)


def check_partitions(topic: str, there: Collection[int], wanted: Collection[int]) -> None:
    strange = sorted(set(wanted) - set(there))
    if strange and there:
        last = max(there)
        has = "partition 0 only" if last == 0 else f"partitions 0 to {last}"
        raise Failed(f"topic {topic} has {has}, but no partition {', '.join(map(str, strange))}")


async def no_such_topic(client: Client, topic: str) -> str:
    every = await client.metadata(None)
    near = get_close_matches(topic, [each.name or "" for each in every.topics], n=1)
    return f"there is no topic {topic}{f'; did you mean {near[0]}?' if near else ''}"
