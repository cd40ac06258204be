"""Topics of one request have the results of separate requests, within one time limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest
import trio
import trio.testing

from kraft_controller.core.names import BrokerId, TopicId
from replica.core.errors import ErrorCode, KafkaError
from replica.core.metadata_cache import MetadataCache
from replica.runtime.configuration.config_layers import Layers
from replica.runtime.handlers.topic_requests import TOGETHER_MAX, WRITE_S, handlers
from replica.runtime.requests import ApiKey, Request
from replica.runtime.store.topic_manager import CreatedTopic, TopicManager
from replica.wire.schemas import APIS
from tests.kafka_bodies import on_values

LIKE_RAW = "would be equal in metrics, which write both '.' and '_' as '_'"


class Store:
    """Creates all topics except `bad`, slowly. The controller elects leaders of those that do not begin with `x`."""

    def __init__(self, seconds: float = 0) -> None:
        self.seconds = seconds
        self.made: list[str] = []
        self.at_once = self.together = 0

    async def create(
        self, name: str, count: int, factor: int, configs: Mapping[str, str], manual: Any, *, check_only: bool
    ) -> CreatedTopic:
        self.at_once += 1
        self.together = max(self.together, self.at_once)
        await trio.sleep(self.seconds)
        self.at_once -= 1
        if configs.get("segment.bytes") == "bad":
            raise KafkaError(ErrorCode.INVALID_CONFIG, "segment.bytes=bad")
        if not check_only:
            self.made.append(name)
        return CreatedTopic(None if check_only else TopicId(name), {0: (BrokerId(1),)})

    async def grow(self, name: str, count: int, manual: Any, *, check_only: bool) -> None:
        await self.create(name, count, 1, {}, None, check_only=check_only)

    async def delete(self, name: str) -> None:
        await self.create(name, 1, 1, {}, None, check_only=False)

    async def led(self, name: str, partitions: int, timeout_ms: int) -> None:
        if name.startswith("x"):
            await trio.sleep(timeout_ms / 1000)
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no leader yet")

    async def unknown(self, name: str, ident: Any, timeout_ms: int) -> None:
        await self.led(name, 1, timeout_ms)

    async def until_deleted(self, names: Iterable[str], timeout_ms: int) -> None:
        pass


async def create(store: Store, *names: str, check_only: bool = False, bad: tuple[str, ...] = ()) -> list[Any]:
    topics = [
        {
            "name": name,
            "num_partitions": 1,
            "replication_factor": 1,
            "assignments": [],
            "configs": [{"name": "segment.bytes", "value": "bad"}] if name in bad else [],
        }
        for name in names
    ]
    body = {"topics": topics, "timeout_ms": 1_000, "validate_only": check_only}
    act = on_values(handlers(cast(TopicManager, store), MetadataCache(), lambda: Layers({}, {}, {})))[
        ApiKey.CREATE_TOPICS
    ]
    reply = await act(Request(ApiKey.CREATE_TOPICS, 7, 1, None, body))
    assert reply is not None
    assert [topic["name"] for topic in reply["topics"]] == list(names)
    return [(topic["error_code"], topic["error_message"] or "") for topic in reply["topics"]]


async def test_first_of_topics_with_same_metric_name_is_created() -> None:
    for check_only in (False, True):
        store = Store()
        first, other, second, third = await create(
            store, "raw.col", "other", "raw_col", "raw.col_", check_only=check_only
        )
        assert [first[0], other[0], third[0]] == [ErrorCode.NONE] * 3
        assert second == (ErrorCode.INVALID_TOPIC_EXCEPTION, f"raw_col and raw.col {LIKE_RAW}")
        assert sorted(store.made) == ([] if check_only else ["other", "raw.col", "raw.col_"])


async def test_second_topic_with_same_metric_name_is_created_if_first_is_refused() -> None:
    store = Store()
    first, second, third = await create(store, "a.b.c", "a_b.c", "a.b_c", bad=("a.b.c",))
    assert first[0] == ErrorCode.INVALID_CONFIG
    assert second[0] == ErrorCode.NONE
    assert third == (ErrorCode.INVALID_TOPIC_EXCEPTION, f"a.b_c and a_b.c {LIKE_RAW}")
    assert store.made == ["a_b.c"]


async def test_topics_with_different_metric_names_are_created_concurrently() -> None:
    store = Store()
    answers = await create(store, *(f"t{number}" for number in range(20)))
    assert answers == [(ErrorCode.NONE, "")] * 20
    assert store.together == 20


async def test_repeated_topic_is_refused() -> None:
    store = Store()
    answers = await create(store, "t", "t.u", "t")
    assert [code for code, _ in answers] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert store.made == ["t.u"]


REQUESTS = {
    ApiKey.CREATE_TOPICS: ("topics", "topics", {"num_partitions": 1, "replication_factor": 1}),
    ApiKey.CREATE_PARTITIONS: ("topics", "results", {"count": 2}),
    ApiKey.DELETE_TOPICS: ("topics", "responses", {}),
}


@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: key.name)
@pytest.mark.parametrize("timeout_ms", [0, 3_000])
def test_timeout_limits_the_whole_request(key: ApiKey, timeout_ms: int) -> None:
    """It once limited only the wait for each topic: a request for 5,000 topics had no answer for minutes."""
    store = Store(seconds=0.8)
    named, answers, fields = REQUESTS[key]
    names = [f"{'x' if number % 2 else 't'}{number}" for number in range(1_000)]

    async def main() -> dict[str, Any]:
        act = on_values(handlers(cast(TopicManager, store), MetadataCache(), lambda: Layers({}, {}, {})))[key]
        body = {named: [{"name": name, **fields} for name in names], "timeout_ms": timeout_ms}
        began = trio.current_time()
        reply = await act(Request(key, APIS[key].last, 1, None, body))
        taken = trio.current_time() - began
        assert taken == pytest.approx(max(WRITE_S, timeout_ms / 1000), abs=0.2)
        found = {each["name"]: each["error_code"] for each in reply[answers]}
        assert list(found) == names
        return found

    found = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    rounds = int(max(WRITE_S, timeout_ms / 1000) // store.seconds)
    assert len(store.made) == rounds * TOGETHER_MAX
    assert {name for name, code in found.items() if code == ErrorCode.NONE} == {
        name for name in store.made if name.startswith("t")
    }
    assert set(found.values()) == {ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT}


def test_all_topics_are_written_although_the_first_ones_have_no_leaders() -> None:
    store = Store()

    async def main() -> list[Any]:
        return await create(store, *(f"x{number}" for number in range(2 * TOGETHER_MAX)), "t")

    answers = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert len(store.made) == len(answers)
    assert answers[0] == (ErrorCode.REQUEST_TIMED_OUT, "no leader yet")
    assert answers[-1] == (ErrorCode.NONE, "")
