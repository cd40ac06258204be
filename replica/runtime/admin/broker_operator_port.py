"""The HTTP port for a broker's operators: `/` (a short page), `/status.json`, `/metrics` and `/health`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from html import escape

import trio

from kraft_controller.runtime.operator_port import OperatorPort, Source, of_candidate
from replica.runtime.admin import broker_metrics, group_metrics, transaction_metrics
from replica.runtime.admin.overview import health, overview
from replica.runtime.broker import Broker
from zab.admin.admin_settings import AdminSettings
from zab.admin.http import JSON, AdminReply
from zab.admin.markup import status_page


class BrokerOperatorPort:
    """Serves the pages and metrics of one broker."""

    def __init__(self, broker: Broker, settings: AdminSettings) -> None:
        self._broker = broker
        self._metrics_path = settings.metrics_path
        sources, _ = of_candidate(lambda: broker.parts.membership.controller)
        every: list[Source] = [
            *sources,
            partial(broker_metrics.samples, broker),
            partial(group_metrics.samples, broker.parts.group_coordinator),
            partial(transaction_metrics.samples, broker.parts.transaction_coordinator),
        ]
        pages = {"/": self._page, "/status.json": self._json}
        self._port = OperatorPort(settings, every, partial(health, broker), broker.config.id, pages, self._names)

    async def run(self, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until cancelled. Reports the port number at the start."""
        await self._port.run(task_status=task_status)

    def _names(self) -> Iterator[str | None]:
        for listener in (*self._broker.config.listeners, self._broker.config.controller):
            if listener is not None:
                yield from (listener.host, listener.advertised_host)

    def _page(self) -> AdminReply:
        found = overview(self._broker)
        controller = found["controller"]
        return status_page(
            f"broker {found['broker']}",
            found["health"],
            f"Broker {found['broker']} of cluster {escape(found['cluster'])}. "
            + ("No controller is known." if controller is None else f"Broker {controller} is the controller."),
            [escape(each) for each in found["warnings"]],
            "<code>zab-broker console</code> shows brokers, topics, records and groups in a browser.",
            {"status": "/status.json", "metrics": self._metrics_path, "health": "/health"},
        )

    def _json(self) -> AdminReply:
        return AdminReply(json.dumps(overview(self._broker)).encode() + b"\n", JSON)
