"""The HTTP port for a broker's operators: `/` (page), `/status.html` (the page's content, for updates), `/status.json`
(the page's data without the charts), `/metrics` and `/health`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import trio

from kraft_controller.runtime.operator_port import OperatorPort, Source, of_candidate
from replica.runtime.admin import broker_metrics, broker_page, group_metrics, transaction_metrics
from replica.runtime.admin.broker_sampler import BrokerSampler
from replica.runtime.admin.overview import health, overview
from replica.runtime.broker import Broker
from zab.admin.admin_settings import AdminSettings
from zab.admin.http import JSON, AdminReply
from zab.admin.markup import html


class BrokerOperatorPort:
    """Serves the pages and metrics of one broker."""

    def __init__(self, broker: Broker, settings: AdminSettings) -> None:
        self._broker = broker
        self._metrics_path = settings.metrics_path
        self._sampler = BrokerSampler(broker)
        sources, _ = of_candidate(lambda: broker.parts.membership.controller)
        every: list[Source] = [
            *sources,
            partial(broker_metrics.samples, broker),
            partial(group_metrics.samples, broker.parts.group_coordinator),
            partial(transaction_metrics.samples, broker.parts.transaction_coordinator),
        ]
        pages = {"/": self._page, "/status.html": self._main, "/status.json": self._json}
        self._port = OperatorPort(settings, every, partial(health, broker), broker.config.id, pages, self._names)

    async def run(self, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until cancelled. Reports the port number at the start."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._sampler.run)
            task_status.started(await nursery.start(self._port.run))

    def _names(self) -> Iterator[str | None]:
        for listener in (*self._broker.config.listeners, self._broker.config.controller):
            if listener is not None:
                yield from (listener.host, listener.advertised_host)

    def _page(self) -> AdminReply:
        return html(broker_page.whole(overview(self._broker), self._sampler.samples, self._metrics_path))

    def _main(self) -> AdminReply:
        return html(broker_page.main(overview(self._broker), self._sampler.samples, self._metrics_path).encode())

    def _json(self) -> AdminReply:
        return AdminReply(json.dumps(overview(self._broker)).encode() + b"\n", JSON)
