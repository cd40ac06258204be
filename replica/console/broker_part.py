"""The part of the console about brokers: its section of the overview, and the table of all its pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Final

import trio

from replica.console.cluster_view import EXPECTED, ClusterView
from replica.console.group_pages import GroupPages
from replica.console.record_pages import RecordPages
from replica.console.topic_pages import TopicPages
from replica.console.transaction_pages import TransactionPages
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.network.broker_client import Client
from replica.runtime.network.broker_connection import ClientSettings, Unreachable
from zab.admin.markup import NONE, number
from zab.console.charts import chart
from zab.console.layout import facts, link, problems
from zab.console.page import Handler, Refusal

CLIENT: Final = ClientSettings("zab-console", request_s=3.0, patience_s=2.0, reply_bytes_max=32 << 20)
OVERVIEW_S: Final = 7.0

_MISSING: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    }
)
_PREFIXES: Final = (("/brokers/ids/", "/broker", "id"), ("/brokers/topics/", "/topic", "name"))
_CONFIGS: Final = (("/config/topics/", "/topic", "name"), ("/config/brokers/", "/broker", "id"))


class BrokerPart:
    """Shows one cluster. `bootstrap` names it in messages."""

    menu: Sequence[tuple[str, str]] = (
        ("Brokers", "/brokers"),
        ("Topics", "/topics"),
        ("Groups", "/groups"),
        ("Transactions", "/transactions"),
    )

    def __init__(self, client: Client, bootstrap: str) -> None:
        self._client = client
        self._bootstrap = bootstrap
        self._view = view = ClusterView(client)
        topics, records, groups = TopicPages(view), RecordPages(view), GroupPages(view)
        transactions = TransactionPages(view)
        self.pages: Mapping[str, Handler] = {
            "/brokers": topics.brokers,
            "/broker": topics.broker,
            "/topics": topics.topics,
            "/topic": topics.topic,
            "/records": records.records,
            "/record": records.record,
            "/groups": groups.groups,
            "/group": groups.group,
            "/transactions": transactions.transactions,
            "/transaction": transactions.transaction,
        }
        self.forms: Mapping[str, Handler] = {}

    async def run(self) -> None:
        try:
            await self._view.run()
        finally:
            await self._client.aclose()

    def explain(self, error: Exception, *, changing: bool = False) -> Refusal | None:
        if isinstance(error, trio.TooSlowError):
            return Refusal(HTTPStatus.GATEWAY_TIMEOUT, "the brokers did not answer in time")
        if isinstance(error, Unreachable):
            return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"no broker can be reached: {error}")
        if isinstance(error, KafkaError) and error.code in _MISSING:
            return Refusal(HTTPStatus.NOT_FOUND, str(error))
        if isinstance(error, KafkaError) and error.code.name.endswith("AUTHORIZATION_FAILED"):
            return Refusal(HTTPStatus.FORBIDDEN, f"{error}: the ACLs do not permit this to the user of the console")
        return Refusal(HTTPStatus.BAD_GATEWAY, f"the brokers: {error}") if isinstance(error, EXPECTED) else None

    async def overview(self) -> str:
        self._view.seen()
        try:
            with trio.fail_after(OVERVIEW_S):
                metadata, sums = await self._view.metadata.get(), await self._view.sums.get()
                groups, lags, more = await self._groups()
        except trio.TooSlowError:
            return facts("Brokers", (), problems([f"the brokers have not answered in {OVERVIEW_S:g} s"]))
        except EXPECTED as error:
            return facts("Brokers", (), problems([f"the brokers at {self._bootstrap}: {error}"]))
        gone = [each for each in metadata.brokers if each not in metadata.live]
        warned = [*sums.problems, *more]
        warned += [f"broker {each} is gone and holds replicas" for each in gone]
        offline = sum(map(metadata.offline, metadata.topics.values()))
        under_replicated = sum(map(metadata.under_replicated, metadata.topics.values()))
        warned += [f"partitions without a leader: {offline}"] if offline else []
        warned += [f"under-replicated partitions: {under_replicated}"] if under_replicated else []
        controller = metadata.controller
        internal = sum(topic.is_internal for topic in metadata.topics.values())
        pairs = [
            ("brokers alive", f"{len(metadata.live)} of {len(metadata.brokers)}"),
            ("controller", link(str(controller), "/broker", id=controller) if controller >= 0 else NONE),
            ("topics", number(len(metadata.topics) - internal)),
            ("internal topics", number(internal)),
            ("partitions of all topics", number(metadata.partitions)),
            ("without a leader", number(offline)),
            ("under-replicated", number(under_replicated)),
            ("records", NONE if sums.records is None else number(sums.records)),
            ("groups", number(groups)),
            ("lag of all groups", NONE if lags is None else number(lags)),
        ]
        links = ", ".join(link(name.lower(), path) for name, path in self.menu)
        rates = chart("Records written", "records/s, whole cluster", list(self._view.rates), number)
        section = facts("Brokers", pairs, f"{problems(warned)}<p>{links}</p>")
        return f'{section}<section><h2>Since the first visit</h2><div class="cards">{rates}</div></section>'

    async def _groups(self) -> tuple[int, int | None, tuple[str, ...]]:
        """Return the number of groups, the sum of their lags if all are known, and problems."""
        listed = await self._view.groups.get()
        total = await self._view.lag_of_all.get()
        return len(listed.groups), total, listed.problems


def related(path: str) -> Iterator[str]:
    """Yield links from a node of the store to pages about the broker, topic or controller that it describes."""
    for prefix, page, parameter in (*_PREFIXES, *_CONFIGS):
        name, _, _ = path.removeprefix(prefix).partition("/")
        if path.startswith(prefix) and name and (page != "/broker" or name.isdecimal()):
            yield link(f"{page.removeprefix('/')} {name}", page, **{parameter: name})
    if path in ("/controller", "/controller_epoch") or (path.startswith("/brokers") and path.count("/") < 3):
        yield link("the brokers", "/brokers")
