"""When all is healed: something is written to every partition, and somebody reads all of them from beginning to end.

Then nobody can say that what was not seen by now is yet to come.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

import trio

from harness.worlds.brokers.consumer import PAUSE_S, WRONG, Consumer, offset_of
from harness.worlds.brokers.tape import Tape
from kraft_controller.core.names import TopicPartition
from replica.runtime.network.broker_client import Client

LATEST: Final = -1
"""The end of what is committed."""
BYTES_MAX: Final = 1 << 20
T = TypeVar("T")


async def read_all(
    tape: Tape, client: Client, partitions: Iterable[TopicPartition], first: int, waits_for: list[str]
) -> dict[TopicPartition, int]:
    """With numbers of clients from `first` on, one for each partition. Returns how far each goes."""
    ends = {}
    for number, where in enumerate(sorted(partitions), start=first):
        waits_for[0] = f"a reader of {where} to come to its end"
        consumer = Consumer(tape, client, number, where)
        end = await insist(lambda where=where: offset_of(client, where, LATEST))  # type: ignore[misc]
        while consumer.position < end:
            if not await consumer.poll(BYTES_MAX):
                await trio.sleep(PAUSE_S)
        ends[where] = end
    tape.complete = True
    return ends


async def look_at_all(consumers: Iterable[Consumer], waits_for: list[str]) -> None:
    for consumer in consumers:
        waits_for[0] = f"the position of {consumer.group}"
        while not await consumer.look():  # noqa: ASYNC110 - it asks a broker, who calls nobody
            await trio.sleep(PAUSE_S)


async def insist(act: Callable[[], Awaitable[T]]) -> T:
    while True:
        try:
            return await act()
        except WRONG:
            await trio.sleep(PAUSE_S)
