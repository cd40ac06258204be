"""Where an operator looks: `/metrics` for Prometheus, `/health` for whoever restarts what is not well.

Anybody may bring measurements of his own: a source is a function that gives samples when it is asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus

import trio

from kraft_controller.core.health import health
from kraft_controller.core.names import BrokerId
from kraft_controller.runtime.controller import Controller
from kraft_controller.runtime.metrics import samples
from zab.admin.admin_port import AdminPort
from zab.admin.admin_settings import AdminSettings
from zab.admin.exposition import CONTENT_TYPE, MetricSample, exposition
from zab.admin.http import AdminReply, AdminRequest, HttpError
from zab.core.zxid import Epoch, ServerId
from zab.host.logs import Log
from zab.host.pace import beside_the_loop

Source = Callable[[], Iterable[MetricSample]]
Look = Callable[[], dict[str, object]]


class OperatorPort:
    """Bounded as the store's own port for operators is."""

    def __init__(
        self,
        settings: AdminSettings,
        sources: Sequence[Source],
        look: Look,
        me: BrokerId,
        pages: Mapping[str, Callable[[], AdminReply]] | None = None,
        names: Callable[[], Iterable[str | None]] = tuple,
    ) -> None:
        """`pages`: what else there is to look at, by path. `names`: see `AdminPort`."""
        self._names = names
        self._pages = pages or {}
        self._settings = settings
        self._sources = sources
        self._look = look
        self._log = Log(ServerId(me), lambda: Epoch(0))

    async def run(self, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Started with the number of the port."""
        await AdminPort(self._settings, self._answer, self._log, self._names).run(task_status)

    async def _answer(self, request: AdminRequest, _: str) -> AdminReply:
        if request.method == "POST":
            raise HttpError(
                HTTPStatus.METHOD_NOT_ALLOWED, "there is nothing to be changed here", (("Allow", "GET, HEAD"),)
            )
        if request.path == self._settings.metrics_path:
            return AdminReply(await self._metrics(), CONTENT_TYPE)
        if request.path == "/health":
            found = self._look()
            status = HTTPStatus.OK if found["healthy"] else HTTPStatus.SERVICE_UNAVAILABLE
            return AdminReply(json.dumps(found, indent=2).encode() + b"\n", "application/json", status)
        if request.path in self._pages:
            return self._pages[request.path]()
        there = ", ".join([*self._pages, self._settings.metrics_path])
        raise HttpError(HTTPStatus.NOT_FOUND, f"there is {there}, and there is /health")

    async def _metrics(self) -> bytes:
        """Return the measurements. A broker has some for each partition, so clients are served in between."""
        found: list[MetricSample] = []
        for source in self._sources:
            found += source()
            await trio.lowlevel.checkpoint()
        with beside_the_loop():
            return await trio.to_thread.run_sync(exposition, found)


def of_candidate(find: Callable[[], Controller | None]) -> tuple[list[Source], Look]:
    """What a port needs of a broker that is a new candidate with each session; None: it has no session."""

    def source() -> Iterable[MetricSample]:
        controller = find()
        return () if controller is None else samples(controller)

    return [source], lambda: controller_health(find())


def controller_health(controller: Controller | None) -> dict[str, object]:
    """`healthy`: it knows who is the controller, or is it. `worries` are of the cluster, for which no broker is to be
    restarted."""
    if controller is None:
        return {"healthy": False, "active": False, "controller": None, "epoch": None, "worries": []}
    desk = controller.desk
    worries = health(desk).worries if controller.active and desk is not None else ()
    problems, stalls = controller.watchdogs.problems(), controller.watchdogs.warnings()
    return {
        "healthy": controller.controller is not None and not problems,
        "active": controller.active,
        "controller": controller.controller,
        "epoch": desk.epoch if controller.active and desk is not None else None,
        "worries": [*problems, *stalls, *worries],
    }
