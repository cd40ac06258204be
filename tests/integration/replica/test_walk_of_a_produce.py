"""docs/walks.md against the code: trace produces with acks=all on three brokers, compare them with the page."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import CodeType, FunctionType

import pytest
import trio
import trio.testing

from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.runtime.admin.topic_requests import create_topic
from replica.runtime.network.broker_connection import BrokerConnection, ClientSettings
from replica.runtime.requests import ApiKey
from replica.wire import records
from tests.integration.brokers import cluster, until
from tests.kafka_bodies import ask
from tests.project.test_docs import resolve
from tests.project.test_walks import PAGE, ROOT, Trace

pytestmark = pytest.mark.slow

PRODUCES = 8
FILES_MAX = 30
WHERE = TopicPartition("t", 0)


async def trace_produces(folder: Path, trace: Trace) -> list[set[CodeType]]:
    """Run three brokers in this process, and return the functions of each of some produces."""
    async with cluster(folder, 3) as made, made.store.session() as session:
        replicas = {WHERE.partition: [BrokerId(1), BrokerId(2), BrokerId(3)]}
        await create_topic(session, WHERE.topic, replicas, {}, lambda size: bytes(range(1, size + 1)))
        await until(lambda: all(WHERE in each.parts.metadata_cache for each in made.brokers.values()))
        leader = made.brokers[1].parts.metadata_cache.leader(WHERE)
        assert leader is not None
        stream = await trio.open_tcp_stream("127.0.0.1", made.ports[leader])
        connection = BrokerConnection(stream, ClientSettings())
        batch = records.batch_of([(None, b"value")], made.brokers[1].parts.replica_manager.now())
        part = {"index": WHERE.partition, "records": batch}
        body = {"acks": -1, "timeout_ms": 60_000, "topic_data": [{"name": WHERE.topic, "partition_data": [part]}]}
        traced = []
        for _ in range(PRODUCES):
            trace.codes, trace.on = set(), True
            reply = await ask(connection, ApiKey.PRODUCE, body)
            await trio.sleep(0.02)  # until the followers have fetched once more
            trace.on = False
            assert reply["responses"][0]["partition_responses"][0]["error_code"] == 0
            traced.append(trace.codes)
        await connection.aclose()
    return traced[1:]  # the first one begins the fetch sessions


def test_walk_of_a_produce_names_functions_that_run_and_counts_their_files(tmp_path: Path) -> None:
    trace = Trace()
    with trace.installed():
        traced = trio.run(trace_produces, tmp_path, trace)
    ran = set.union(*traced)
    # Background work, such as checks of retention, runs beside some of the produces, never beside all.
    always = set.intersection(*traced)
    section = PAGE.partition("\n## A produce with acks=all\n")[2].partition("\n## ")[0]
    named = {name: resolve(name) for name in re.findall(r"`(replica\.[\w.]+\.\w+)`", section)}
    functions = {name: code for name, value in named.items() if (code := getattr(value, "__code__", None))}
    assert len(functions) > 20
    made_at_start = {name for name in functions if name.endswith((".handlers", ".request_handlers"))}
    assert [name for name, code in functions.items() if code not in ran and name not in made_at_start] == []

    walked = {inspect.getsourcefile(value) for value in named.values() if isinstance(value, type | FunctionType)}
    by_path = [ROOT / path for path in re.findall(r"`(replica/[\w/]+\.py)`", section)]
    assert all(path.is_file() for path in by_path)
    walked |= {str(path) for path in by_path}
    files = {code.co_filename for code in always if Path(code.co_filename).is_relative_to(ROOT / "replica")}
    stated = re.search(r"steps name (\d+) files.*?run code of (\d+) files", section, re.DOTALL)
    assert stated is not None
    assert len(walked) == int(stated[1]) <= FILES_MAX
    assert len(files) == pytest.approx(int(stated[2]), rel=0.1)
