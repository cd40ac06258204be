"""Fetch sessions of consumers: which client gets or loses one, and that sessions lose no data."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_controller.core.names import TopicPartition
from replica.core.errors import ErrorCode, KafkaError
from replica.core.fetching.fetch_session_cache import EPOCH_MAX, FetchSessionCache, FetchSessionLimits, RequestFields
from replica.runtime.handlers.consumer_fetch_sessions import in_sessions
from replica.runtime.requests import ApiKey, Handler, Request
from tests.kafka_bodies import Body, on_values, typed

KEEP_MS = 120_000
ME = "User:me"


def sessions(slots: int = 2, **limits: int) -> FetchSessionCache:
    return FetchSessionCache(count(1).__next__, FetchSessionLimits(slots, **limits))


def requests(number: int) -> dict[TopicPartition, RequestFields]:
    return {TopicPartition("t", each): (0,) for each in range(number)}


def test_session_continues_with_each_request() -> None:
    made = sessions()
    begun = made.begin(ME, requests(2), 0)
    assert begun is not None
    gone, new = TopicPartition("t", 0), TopicPartition("u", 0)
    session = made.go_on(begun.id, 1, ME, {new: (7,)}, [gone], 0)
    assert session.requests == {TopicPartition("t", 1): (0,), new: (7,)}
    for epoch, owner, code in (
        (1, ME, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (3, ME, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (2, "User:other", ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    ):
        with pytest.raises(KafkaError) as refused:
            made.go_on(begun.id, epoch, owner, {}, [], 0)
        assert refused.value.code is code
    session.epoch = EPOCH_MAX
    assert made.go_on(begun.id, EPOCH_MAX, ME, {}, [], 0).epoch == 1
    made.go_on(begun.id, 1, ME, {}, list(session.requests), 0)
    assert len(made) == 0  # it has no partitions left


def test_only_owner_closes_session() -> None:
    made = sessions()
    begun = made.begin(ME, requests(1), 0)
    assert begun is not None
    made.close(begun.id, "User:other")
    assert made.holds(begun)
    made.close(begun.id, ME)
    assert not made.holds(begun)


def test_full_cache_keeps_new_or_larger_sessions() -> None:
    made = sessions(2)
    small, large = made.begin(ME, requests(2), 0), made.begin(ME, requests(4), 0)
    assert small is not None
    assert large is not None
    assert made.begin(ME, requests(9), KEEP_MS) is None  # the sessions are too young
    late = KEEP_MS + 1
    for session in (small, large):
        made.go_on(session.id, 1, ME, {}, [], late)
    assert made.begin(ME, requests(2), late) is None  # not larger than the smallest
    third = made.begin(ME, requests(3), late)
    assert third is not None
    assert (made.holds(small), made.holds(large)) == (False, True)
    fifth = made.begin(ME, requests(5), late)
    assert fifth is not None
    assert (made.holds(large), made.holds(third)) == (False, True)  # the only old one
    assert made.begin(ME, requests(1), late + KEEP_MS + 1) is not None
    assert (made.holds(third), made.holds(fifth)) == (False, True)  # it was unused


def test_sessions_and_partitions_are_bounded() -> None:
    assert sessions(0).begin(ME, requests(1), 0) is None
    made = sessions(9, partitions_max=3)
    begun = made.begin(ME, requests(2), 0)
    assert begun is not None
    assert made.begin(ME, requests(2), 0) is None
    with pytest.raises(KafkaError, match="too many partitions"):
        made.go_on(begun.id, 1, ME, requests(4), [], 0)
    assert len(made) == 0


# -- at work -------------------------------------------------------------------------------------------------

PARTS = [("t", 0), ("t", 1), ("u", 0)]


class Broker:
    """Returns the end of each requested partition, and one record at a time."""

    def __init__(self) -> None:
        self.ends = dict.fromkeys(PARTS, 0)
        self.missing: set[tuple[str, int]] = set()
        self.asked: list[tuple[str, int]] = []

    async def fetch(self, request: Request[Any]) -> Body:
        self.asked = []
        topics = []
        for topic in request.body["topics"]:
            parts = []
            for part in topic["partitions"]:
                where = (topic["topic"], part["partition"])
                self.asked.append(where)
                offset, end = part["fetch_offset"], self.ends[where]
                gone = where in self.missing
                parts.append({
                    "partition_index": where[1], "error_code": 3 if gone else 0, "high_watermark": -1 if gone else end,
                    "last_stable_offset": -1 if gone else end, "log_start_offset": 0,
                    "records": b"r" if offset < end and not gone else b"",
                })  # fmt: skip
            topics.append({"topic": topic["topic"], "partitions": parts})
        return {"error_code": 0, "session_id": 0, "responses": topics}


def fetching(broker: Broker, made: FetchSessionCache) -> Handler[Any, Any]:
    fetch = typed({ApiKey.FETCH: broker.fetch})[ApiKey.FETCH]
    return on_values({ApiKey.FETCH: in_sessions(fetch, made, lambda: 0, "PLAINTEXT")})[ApiKey.FETCH]


class Client:
    """Sends changes only, as clients do, and takes omitted partitions for unchanged."""

    def __init__(self, fetch: Callable[[Request[Any]], Any]) -> None:
        self._fetch = fetch
        self.offsets: dict[tuple[str, int], int] = {}
        self.known: dict[tuple[str, int], int] = {}
        self._said: dict[tuple[str, int], int] = {}
        self.id, self.epoch = 0, 0

    async def poll(self) -> list[tuple[str, int]]:
        """Return the partitions in the response."""
        changed = {where: at for where, at in self.offsets.items() if self._said.get(where) != at}
        gone = [where for where in self._said if where not in self.offsets]
        listed = self.offsets if self.epoch == 0 else changed
        body = {
            "session_id": self.id, "session_epoch": self.epoch, "replica_id": -1,
            "topics": [{"topic": name, "partitions": [{
                "partition": number, "fetch_offset": at, "partition_max_bytes": 1, "current_leader_epoch": -1,
                "last_fetched_epoch": -1, "log_start_offset": -1}]} for (name, number), at in listed.items()],
            "forgotten_topics_data": [{"topic": name, "partitions": [number]} for name, number in gone],
        }  # fmt: skip
        reply = await self._fetch(Request(ApiKey.FETCH, 12, 1, "c", body))
        if reply.get("error_code"):
            self.id, self.epoch, self._said = 0, 0, {}
            return []
        self.id = reply["session_id"]
        self.epoch = self.epoch + 1 if self.id else 0
        self._said = dict(self.offsets)
        told = []
        for topic in reply["responses"]:
            for part in topic["partitions"]:
                where = (topic["topic"], part["partition_index"])
                told.append(where)
                if not part["error_code"]:
                    self.known[where] = part["high_watermark"]
                    self.offsets[where] += len(part["records"])
        return told


ACTS = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(PARTS)),
    st.tuples(st.just("toggle"), st.sampled_from(PARTS)),
    st.tuples(st.just("vanish"), st.sampled_from(PARTS)),
    st.tuples(st.just("poll"), st.none()),
    st.tuples(st.just("lose"), st.none()),
)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.lists(ACTS, max_size=30))
def test_session_delivers_same_state_as_complete_fetches(acts: list[Any]) -> None:
    async def main() -> None:
        broker, made = Broker(), sessions()
        client = Client(fetching(broker, made))
        for act, where in acts:
            match act:
                case "write":
                    broker.ends[where] += 1
                case "toggle":
                    if client.offsets.pop(where, None) is None:
                        client.offsets[where] = 0
                case "vanish":
                    broker.missing ^= {where}
                case "poll":
                    await client.poll()
                case _:
                    made.close(client.id, "User:ANONYMOUS")
        broker.missing.clear()
        for _ in range(2 * len(acts) + 2):
            await client.poll()
        ends = {where: broker.ends[where] for where in client.offsets}
        assert client.offsets == ends
        assert {where: client.known[where] for where in client.offsets} == ends

    trio.run(main)


def test_request_of_unknown_session_is_refused() -> None:
    async def main() -> None:
        fetch = fetching(Broker(), sessions())
        body = {"session_id": 7, "session_epoch": 3, "replica_id": -1, "topics": [], "forgotten_topics_data": []}
        told = await fetch(Request(ApiKey.FETCH, 12, 1, "c", body))
        assert told is not None
        assert (told["error_code"], told["session_id"]) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)

    trio.run(main)


def test_unchanged_partitions_are_omitted_and_served_ones_come_last() -> None:
    async def main() -> None:
        broker = Broker()
        client = Client(fetching(broker, sessions()))
        client.offsets = dict.fromkeys(PARTS, 0)
        assert await client.poll() == PARTS
        assert await client.poll() == []
        broker.ends["t", 0] = 1
        assert await client.poll() == [("t", 0)]
        assert await client.poll() == []
        assert broker.asked == [("t", 1), ("u", 0), ("t", 0)]
        broker.missing.add(("u", 0))
        assert await client.poll() == [("u", 0)]
        assert await client.poll() == [("u", 0)]  # an error is in each response
        broker.missing.clear()
        assert await client.poll() == [("u", 0)]
        assert await client.poll() == []

    trio.run(main)
