"""Topics, made and set up as a script says, by whoever of the brokers can."""

from __future__ import annotations

from typing import Final

import trio

from harness.faults import AllowUnclean, CreateTopic
from harness.worlds.brokers.consumer import WRONG
from harness.worlds.controller.people import in_turn, name_of
from replica.runtime.network.broker_client import Client
from replica.wire.schemas.topic_schemas import (
    CREATE_TOPICS,
    INCREMENTAL_ALTER_CONFIGS,
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)

PAUSE_S: Final = 0.1
TOPIC: Final = 2
SET: Final = 0
"""Of a resource with configurations, and what is done with one of these."""


async def create(client: Client, op: CreateTopic, brokers: int) -> None:
    """Again and again, until it is there."""
    places = [
        CreatableReplicaAssignment(
            partition_index=number, broker_ids=list(in_turn(brokers, op.topic + number, op.factor))
        )
        for number in range(op.partitions)
    ]
    name = name_of(op.topic)
    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=places, configs=[])
    while True:
        try:
            reply = await client.metadata([name])
            if reply.topics[0].partitions:
                return
            await client.ask(CREATE_TOPICS, CreateTopicsRequest(topics=[topic], timeout_ms=1_000))
        except WRONG:
            pass
        await trio.sleep(PAUSE_S)


async def allow_unclean(client: Client, op: AllowUnclean) -> None:
    """Again and again, until it is set."""
    config = IncrementalAlterableConfig(
        name="unclean.leader.election.enable",
        config_operation=SET,
        value=str(op.unclean == "allowed").lower(),
    )
    resource = IncrementalAlterConfigsResource(resource_type=TOPIC, resource_name=name_of(op.topic), configs=[config])
    while True:
        try:
            reply = await client.ask(
                INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
            )
            if not reply.responses[0].error_code:
                return
        except WRONG:
            pass
        await trio.sleep(PAUSE_S)
