"""The pages about transactional ids and their transactions."""

from __future__ import annotations

from replica.console.cluster_view import ClusterView
from replica.runtime.admin_client import transaction_admin
from zab.admin.markup import NONE, number, pairs, span, table
from zab.console.layout import link, moment, page_of, problems, search, shown
from zab.console.page import Page, Visit


class TransactionPages:
    def __init__(self, view: ClusterView) -> None:
        self._view = view

    async def transactions(self, visit: Visit) -> Page:
        listed = await self._view.transactions.get()
        wanted, state = visit.parameters.get("filter", ""), visit.parameters.get("state", "")
        found = [each for each in listed.transactions if wanted in each.id and state in ("", each.state)]
        part, pages = page_of(visit, len(found))
        rows = [
            (
                link(each.id, "/transaction", id=each.id),
                f"<b>{shown(each.state)}</b>" if each.state in transaction_admin.OPEN else shown(each.state),
                str(each.producer),
                link(str(each.coordinator), "/broker", id=each.coordinator),
            )
            for each in found[part]
        ]
        states = sorted({each.state for each in listed.transactions})
        links = [link(each, "/transactions", state=each) for each in states] + [link("all", "/transactions")]
        body = problems(listed.problems) + search(visit, "Id contains", "filter", ("state",))
        body += f"<p>State: {', '.join(links)}</p>" if len(states) > 1 else ""
        head = ("Transactional id", "State", "Producer", "Coordinator")
        body += pages + table(f"Transactional ids, {number(len(found))}", head, rows, "none")
        return Page("Transactions", body, refreshes=True)

    async def transaction(self, visit: Visit) -> Page:
        name = visit.parameter("id")
        found = await transaction_admin.describe(self._view.client, name)
        facts = (
            ("state", shown(found.state)),
            ("coordinator", link(str(found.coordinator), "/broker", id=found.coordinator)),
            ("producer", str(found.producer)),
            ("epoch of the producer", str(found.epoch)),
            ("timeout", span(found.timeout_ms)),
            ("started", NONE if found.started_ms is None else moment(found.started_ms)),
        )
        part, pages = page_of(visit, len(found.partitions))
        rows = [
            (
                link(where.topic, "/topic", name=where.topic),
                link(str(where.partition), "/records", topic=where.topic, partition=where.partition),
            )
            for where in found.partitions[part]
        ]
        body = f"<p>{link('All transactions', '/transactions')}</p>{pairs('Transactional id', facts)}{pages}"
        body += table(f"Partitions, {number(len(found.partitions))}", ("Topic", "Partition"), rows, "none")
        return Page(f"Transaction {name}", body, refreshes=True)
