"""One position of a group, moved by transactions alone: each commits another one, and somebody looks where it is."""

from __future__ import annotations

from typing import Final, TypeVar

from attrs import frozen

from harness.checkers.transactions import Journal, Look, Transaction
from harness.worlds.brokers.consumer import WRONG
from kraft_controller.core.names import TopicPartition
from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import raise_for
from replica.wire.fields import Api
from replica.wire.schemas.group_schemas import OFFSET_FETCH, OffsetFetchRequest, OffsetFetchRequestTopic
from replica.wire.schemas.transaction_schemas import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

Q = TypeVar("Q")
R = TypeVar("R")

LOOKS_VERSION: Final = 7
"""The first in which one can ask for what no open transaction may change any more."""


@frozen
class Positions:
    """group   has no members, and no position but those of one name"""

    group: str
    where: TopicPartition
    journal: Journal
    client: Client

    @property
    def name(self) -> str:
        return f"{self.group} in {self.where}"

    async def commit(self, made: Transaction, who: tuple[str, int, int], offset: int) -> None:
        """As a part of the transaction, to which the group has to be added before."""
        made.positions[self.name] = offset
        part = TxnOffsetCommitRequestPartition(
            partition_index=self.where.partition, committed_offset=offset, committed_metadata=None
        )
        topics = [TxnOffsetCommitRequestTopic(name=self.where.topic, partitions=[part])]
        name, producer, epoch = who
        body = TxnOffsetCommitRequest(name, self.group, producer, epoch, topics=topics)
        reply = await self._ask(TXN_OFFSET_COMMIT, body)
        raise_for(reply.topics[0].partitions[0].error_code, self.name)

    async def look(self, *, stable: bool) -> None:
        """stable   not while a transaction is open that may change it"""
        asked = self.journal.moment()
        topics = [OffsetFetchRequestTopic(name=self.where.topic, partition_indexes=[self.where.partition])]
        body = OffsetFetchRequest(group_id=self.group, topics=topics, require_stable=stable)
        reply = await self._ask(OFFSET_FETCH, body)
        raise_for(reply.error_code, self.name)
        part = reply.topics[0].partitions[0]
        raise_for(part.error_code, self.name)
        self.journal.looks.append(Look(self.name, part.committed_offset, stable, asked, self.journal.moment()))

    async def glance(self, *, stable: bool) -> None:
        """If it can be seen at once."""
        try:
            await self.look(stable=stable)
        except WRONG:
            return

    async def _ask(self, api: Api[Q, R], body: Q) -> R:
        version = LOOKS_VERSION if api is OFFSET_FETCH else None
        return await self.client.ask_broker(await self.client.coordinator(self.group), api, body, version)
