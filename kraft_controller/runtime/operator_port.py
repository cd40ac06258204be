"""The HTTP port for operators: `/metrics` for Prometheus, and `/health` for a supervisor that restarts the process.

A source of metrics is a function that returns the current samples.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import TypedDict

import trio

from kraft_controller.core.cluster_health import health
from kraft_controller.core.names import BrokerId
from kraft_controller.runtime.controller import Controller
from kraft_controller.runtime.controller_metrics import samples
from zab.admin.admin_port import AdminPort
from zab.admin.admin_settings import AdminSettings
from zab.admin.exposition import CONTENT_TYPE, MetricSample, exposition
from zab.admin.http import AdminReply, AdminRequest, HttpError
from zab.core.zxid import Epoch, ServerId
from zab.host.logs import Log
from zab.host.pace import beside_the_loop

Source = Callable[[], Iterable[MetricSample]]


class HealthReport(TypedDict):
    healthy: bool
    """Decides the status code: 200 if true, 503 if false."""
    worries: list[str]


class ControllerHealth(HealthReport):
    active: bool
    controller: int | None
    epoch: int | None


Look = Callable[[], HealthReport]


class OperatorPort:
    """Serves metrics, health and further pages on an `AdminPort`, as the store does, with the same limits."""

    def __init__(
        self,
        settings: AdminSettings,
        sources: Sequence[Source],
        look: Look,
        me: BrokerId,
        pages: Mapping[str, Callable[[], AdminReply]] | None = None,
        names: Callable[[], Iterable[str | None]] = tuple,
    ) -> None:
        self._settings = settings
        self._sources = sources
        self._look = look
        """Returns the health report."""
        self._pages = pages or {}
        """Further pages, by path."""
        self._names = names
        """Returns the host names that the configuration gives this broker; see `AdminPort`."""
        self._log = Log(ServerId(me), lambda: Epoch(0))

    async def run(self, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. Reports the port number at the start."""
        await AdminPort(self._settings, self._answer, self._log, self._names).run(task_status)

    async def _answer(self, request: AdminRequest, _: str) -> AdminReply:
        if request.method == "POST":
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "this port is read-only", (("Allow", "GET, HEAD"),))
        if request.path == self._settings.metrics_path:
            return AdminReply(await self._metrics(), CONTENT_TYPE)
        if request.path == "/health":
            found = self._look()
            status = HTTPStatus.OK if found["healthy"] else HTTPStatus.SERVICE_UNAVAILABLE
            return AdminReply(json.dumps(found, indent=2).encode() + b"\n", "application/json", status)
        if request.path in self._pages:
            return self._pages[request.path]()
        known = ", ".join([*self._pages, self._settings.metrics_path, "/health"])
        raise HttpError(HTTPStatus.NOT_FOUND, f"no such page; the pages are {known}")

    async def _metrics(self) -> bytes:
        """Return the metrics. Let other tasks run between two sources, since each partition may have metrics."""
        found: list[MetricSample] = []
        for source in self._sources:
            found += source()
            await trio.lowlevel.checkpoint()
        with beside_the_loop():
            return await trio.to_thread.run_sync(exposition, found)


def of_candidate(find: Callable[[], Controller | None]) -> tuple[list[Source], Look]:
    """Return the metric sources of a broker's current candidacy, and the function that reports its health. `find`
    returns None if there is no candidacy."""

    def source() -> Iterable[MetricSample]:
        controller = find()
        return () if controller is None else samples(controller)

    return [source], lambda: controller_health(find())


def controller_health(controller: Controller | None) -> ControllerHealth:
    """Report the health of a candidacy. It is healthy if it knows the controller and no loop hangs.

    `worries` begins with hanging and recently stalled loops. The other worries concern the cluster: restarting this
    broker would not help.
    """
    if controller is None:
        return {"healthy": False, "active": False, "controller": None, "epoch": None, "worries": []}
    term = controller.term
    worries = () if term is None else health(term.context).worries
    problems, stalls = controller.watchdogs.problems(), controller.watchdogs.warnings()
    return {
        "healthy": controller.controller is not None and not problems,
        "active": controller.active,
        "controller": controller.controller,
        "epoch": None if term is None else term.context.epoch,
        "worries": [*problems, *stalls, *worries],
    }
