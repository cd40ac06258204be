"""The console's pages about brokers, at a cluster in memory: sums of the whole cluster, records, groups, outages."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import confluent_kafka
import pytest
import trio
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from replica.console.broker_part import CLIENT, BrokerPart, related
from replica.runtime.network.broker_client import Client, parse_bootstrap
from replica.testing import AsyncMemoryCluster, open_memory_cluster
from tests.integration.browser import needs_browser, open_browser
from tests.integration.http_client import Answer, get
from tests.integration.test_console import console
from zab.admin.markup import number
from zab.console.page import ConsolePart
from zab.console.store_part import StorePart
from zab.testing import open_memory_store

HOSTILE: Final = "<img src=x onerror=alert(1)>"
LARGE: Final = 900_000
PATIENCE_S: Final = 60.0


def part_of(cluster: AsyncMemoryCluster) -> BrokerPart:
    return BrokerPart(Client(parse_bootstrap(cluster.bootstrap_servers), CLIENT), cluster.bootstrap_servers)


@asynccontextmanager
async def opened(brokers: int = 3, **config: Any) -> AsyncIterator[tuple[AsyncMemoryCluster, int]]:
    """Open a cluster and its console. Return both, the console as its port."""
    async with open_memory_cluster(brokers, config=config) as cluster, console([part_of(cluster)]) as port:
        yield cluster, port


def page(path: str, /, **parameters: object) -> str:
    return f"{path}?{urlencode(parameters)}"


def facts(answer: Answer) -> dict[str, str]:
    """Return the values of the overview by their names."""
    pairs = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", answer.text)
    return {name: re.sub("<.*?>", "", value) for name, value in pairs}


def rows(answer: Answer) -> list[list[str]]:
    """Return the text of the cells of all tables."""
    lines = re.findall(r"<tr[^>]*>(.*?)</tr>", answer.text)
    return [[unescape(re.sub("<.*?>", "", cell)) for cell in re.findall(r"<td>(.*?)</td>", line)] for line in lines]


def write(bootstrap: str, count: int) -> None:
    """Write to three partitions, and one large and two odd records."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 2 * LARGE})
    for index in range(count):
        headers: Any = [("trace", b"1")]
        producer.produce("orders", f'{{"order": {index}}}', f"key-{index}", partition=index % 3, headers=headers)
    producer.produce("odd", b"y" * LARGE, "large", partition=0)
    producer.produce("odd", HOSTILE, HOSTILE, partition=0, headers=[(HOSTILE, HOSTILE)])
    producer.produce("odd", b"\xff\x00\x01", None, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def commit_at(bootstrap: str, group: str, offset: int) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    at = [confluent_kafka.TopicPartition("orders", number, offset) for number in range(3)]
    consumer.commit(offsets=at, asynchronous=False)
    consumer.close()


def begin_transaction(bootstrap: str, ident: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": ident})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("odd", "unfinished", partition=0)
    assert producer.flush(PATIENCE_S) == 0


async def test_sums_records_groups_and_transactions_of_the_whole_cluster() -> None:
    async with opened() as (cluster, port):
        bootstrap = cluster.bootstrap_servers
        await cluster.create_topic("orders", partitions=3)
        await cluster.create_topic("odd")
        await trio.to_thread.run_sync(write, bootstrap, 300)
        await trio.to_thread.run_sync(commit_at, bootstrap, HOSTILE, 90)
        await trio.to_thread.run_sync(commit_at, bootstrap, "billing", 100)
        await trio.to_thread.run_sync(begin_transaction, bootstrap, HOSTILE)

        overview = facts(await get(port, "/"))
        assert overview["brokers alive"] == "3 of 3"
        assert (overview["topics"], overview["internal topics"]) == ("2", "2")
        assert overview["groups"] == "2"
        assert overview["lag of all groups"] == "30"
        assert overview["without a leader"] == "0"
        assert int(overview["records"].replace("\u202f", "")) >= 303

        topics = {row[0]: row[1:] for row in rows(await get(port, "/topics")) if row}
        assert topics["orders"] == ["3", "3", "0", "0", "300"]
        topic = await get(port, page("/topic", name="orders"))
        leaders = {await cluster.leader("orders", number) for number in range(3)}
        assert {row[1] for row in rows(topic) if len(row) == 8} == set(map(str, leaders))
        assert [row[5:] for row in rows(topic) if len(row) == 8] == [["0", "100", "100"]] * 3
        assert f'href="{page("/node", path="/brokers/topics/orders")}"' in topic.text
        assert (await get(port, page("/topic", name="missing"))).status == 404

        brokers = [row for row in rows(await get(port, "/brokers")) if row]
        assert sum(int(row[2]) for row in brokers) == int(overview["partitions of all topics"].replace("\u202f", ""))
        assert "orders" in (await get(port, page("/broker", id=1))).text
        assert (await get(port, page("/broker", id=9))).status == 404

        groups = await get(port, "/groups")
        assert HOSTILE not in groups.text
        assert {row[0]: row[5] for row in rows(groups) if row} == {"billing": "0", HOSTILE: "30"}
        group = await get(port, page("/group", id=HOSTILE))
        assert HOSTILE not in group.text
        assert [row[2:5] for row in rows(group) if len(row) == 6] == [["90", "100", "10"]] * 3
        assert (await get(port, page("/group", id="missing"))).status == 404

        transactions = await get(port, "/transactions")
        assert HOSTILE not in transactions.text
        assert rows(transactions)[1][:2] == [HOSTILE, "Ongoing"]
        transaction = await get(port, page("/transaction", id=HOSTILE))
        assert ["odd", "0"] in rows(transaction)
        assert (await get(port, page("/transaction", id="missing"))).status == 404
        await records(port)


async def records(port: int) -> None:
    """Check the viewer of records."""
    newest = await get(port, page("/records", topic="orders", partition=1, count=10))
    assert [row[0] for row in rows(newest) if row] == [str(offset) for offset in range(90, 100)]
    earlier = re.search(r'href="([^"]*)">earlier', newest.text)
    assert earlier is not None
    assert next(row[0] for row in rows(await get(port, unescape(earlier[1]))) if row) == "80"
    found = await get(port, page("/records", topic="orders", partition=1, offset=0, key="key-28", value='"order": 28'))
    assert [row[1:3] for row in rows(found) if row] == [["key-28", '{"order": 28}'], ["key-280", '{"order": 280}'],
        ["key-283", '{"order": 283}'], ["key-286", '{"order": 286}'], ["key-289", '{"order": 289}']]  # fmt: skip
    assert "Read: 0 to 99, 100 records. Shown: 5." in found.text
    since = await get(port, page("/records", topic="orders", partition=1, since="2001-01-01T00:00"))
    assert next(row[0] for row in rows(since) if row) == "0"
    for wrong in ({"since": "yesterday"}, {"offset": "-1"}, {"count": 201}, {"partition": "x"}):
        assert (await get(port, page("/records", **{"topic": "orders", **wrong}))).status == 400
    assert (await get(port, page("/records", topic="orders", partition=3))).status == 404
    odd = await get(port, page("/records", topic="odd", offset=0))
    assert HOSTILE not in odd.text
    assert len(odd.body) < 6_000
    assert rows(odd)[1][2].endswith(f"{number(LARGE)} bytes")
    assert rows(odd)[3][1:3] == ["null", "ff 00 01"]
    committed = await get(port, page("/records", topic="odd", offset=0, committed=1))
    assert "unfinished" in odd.text
    assert "unfinished" not in committed.text
    large = await get(port, page("/record", topic="odd", offset=0))
    assert f"This has {number(LARGE)} bytes" in large.text
    assert len(large.body) < 4_000
    hostile = await get(port, page("/record", topic="odd", offset=1))
    assert HOSTILE not in hostile.text
    assert HOSTILE in unescape(hostile.text)
    assert (await get(port, page("/record", topic="odd", offset=99))).status == 404


async def test_dead_brokers_cost_only_their_part_of_the_pages() -> None:
    async with opened(2) as (cluster, port):
        await cluster.create_topic("orders", partitions=2, replication_factor=2)
        await cluster.create_topic("single", replication_factor=1, partitions=4)
        assert facts(await get(port, "/"))["brokers alive"] == "2 of 2"
        gone = await cluster.leader("single", 0)
        await cluster.kill(gone)
        await trio.sleep(2.1)  # visitors share the metadata for that long
        overview = await get(port, "/")
        assert facts(overview)["brokers alive"] == "1 of 2"
        assert f"broker {gone} is gone and holds replicas" in overview.text
        assert "partitions without a leader: 2" in overview.text
        topic = await get(port, page("/topic", name="single"))
        assert topic.status == 200
        assert "✕ none" in topic.text
        single = await get(port, page("/records", topic="single", partition=0))
        assert single.status == 503
        assert "single-0 has no leader" in single.text
        assert "✕ gone" in re.sub("<.*?>", "", (await get(port, "/brokers")).text)
        assert {row[0] for row in rows(await get(port, "/topics?unhealthy=1")) if row} >= {"orders", "single"}
        await cluster.kill(3 - gone)
        await trio.sleep(3.1)
        overview = await get(port, "/")
        assert overview.status == 200
        assert "the brokers at 127.0.0.1" in overview.text
        for path in ("/topics", "/groups", "/transactions", "/brokers"):
            assert (await get(port, path)).status == 503, path


def deny(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    binding = AclBinding(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", AclOperation.ALL,
        AclPermissionType.DENY,
    )  # fmt: skip
    for future in admin.create_acls([binding]).values():
        future.result(PATIENCE_S)


async def test_acl_hides_a_topic_from_the_console_and_its_visitors() -> None:
    authorizer = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": True,
    }
    async with opened(1, **authorizer) as (cluster, port):
        for topic in ("public", "secret"):
            await cluster.create_topic(topic)
        await trio.to_thread.run_sync(deny, cluster.bootstrap_servers, "secret")
        while "secret" in (topics := (await get(port, "/topics")).text):
            await trio.sleep(0.2)
        assert "public" in topics
        for path in ("/topic?name=secret", "/records?topic=secret"):
            answer = await get(port, path)
            assert answer.status == 403, answer.text
            assert "do not permit this to the user of the console" in answer.text


@needs_browser
@pytest.mark.slow
async def test_pages_fit_a_phone_and_refresh_themselves(tmp_path: Path) -> None:
    async with open_memory_store() as store, open_memory_cluster(1) as cluster:
        parts: list[ConsolePart] = [StorePart("memory:2181", store.session, related=[related]), part_of(cluster)]
        async with store.session() as session, console(parts) as port:
            await session.ensure_path("/brokers/topics/odd")
            await cluster.create_topic("orders", partitions=3)
            await cluster.create_topic("odd")
            await trio.to_thread.run_sync(write, cluster.bootstrap_servers, 60)
            errors = await trio.to_thread.run_sync(visit, f"http://127.0.0.1:{port}/", tmp_path / "browser")
    assert not errors


def visit(url: str, folder: Path) -> list[str]:
    with open_browser(folder) as browser:
        browser.resize(390, 844)
        topic, records = "topic?name=odd", "records?topic=odd&offset=0"
        for path in ("topics", topic, records, f"record?topic=odd&offset=1&as={quote('text')}", "groups", "brokers"):
            browser.open(url + path)
            assert browser.evaluate("[document.documentElement.scrollWidth, innerWidth]") == [390, 390], path
            assert browser.evaluate("document.querySelectorAll('main img, main script').length") == 0, path
        browser.open(f"{url}node?path=/brokers/topics/odd")
        browser.evaluate("document.querySelector('a[href=\"/topic?name=odd\"]').click()")
        browser.wait("document.title.startsWith('Topic odd')")
        browser.open(url)
        browser.wait("document.querySelectorAll('.hit').length >= 1")  # drawn by a refresh, from the second sample on
        tip = browser.evaluate("document.querySelector('.hit title').textContent")
        assert re.fullmatch(r"\d\d:\d\d:\d\d UTC: \d+ records/s, whole cluster", tip), tip
        browser.evaluate("document.getElementById('pause').click()")
        assert browser.evaluate("document.getElementById('pause').textContent") == "Refresh again"
        return browser.errors
