"""One broker as a whole: the order in which its parts start and stop.

At the start it locks and loads the log directories, binds the ports, registers in the store, waits for the controller's
first UpdateMetadata and for the users and ACLs, and only then serves clients. Parts that depend on a session with the
store are created again with each session. Replicas and connections outlive sessions.
"""

from __future__ import annotations

import logging
import os
import socket
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import trio
from attrs import evolve

import zab
from kraft_controller.core.command_handler import ControllerCommandHandler
from kraft_controller.core.names import BrokerEpoch, BrokerId
from kraft_controller.core.state import Broker as Described
from kraft_controller.core.state import Endpoint
from kraft_controller.runtime.command_server import CommandServer, report_misaddressed
from kraft_controller.runtime.registration import cluster_id, prepare
from kraft_controller.runtime.shutdown_request import grant_shutdown
from replica.runtime.broker_parts import build_parts
from replica.runtime.cluster_membership import OpenSession
from replica.runtime.configuration.broker_config import CONTROLLER, EVERYWHERE, BrokerConfig, Listener
from replica.runtime.environment import REAL_ENVIRONMENT, Environment
from replica.runtime.logs import Log
from replica.runtime.network.client_listener import ClientListener
from replica.runtime.network.control_plane_listener import ControlPlaneListener
from replica.runtime.network.descriptor_share import share_descriptors
from replica.runtime.replication.log_dir_failures import LogDirFailureHandler
from replica.runtime.request_table import request_handlers
from zab.host.process_tuning import open_files_limit
from zab.host.watchdog import Stall, Watchdogs


class Broker:
    """Runs the parts of one broker from its start to its end."""

    def __init__(
        self,
        config: BrokerConfig,
        open_session: OpenSession | None = None,
        environment: Environment = REAL_ENVIRONMENT,
    ) -> None:
        self.config = config
        self.log = Log(config.id)
        self.watchdogs = Watchdogs(self._report_stall)
        self.share = share_descriptors(open_files_limit(), len(config.log_dirs), config.logs.open_files_max)
        """The division of the process's file descriptors between client connections and logs."""
        self.cluster = ""
        """The id of the cluster, from the store."""
        self.ports: dict[str, int] = {}
        """The port of each listener, by name."""
        self.listeners: list[ClientListener] = []
        """The listeners for clients, once their ports are bound."""
        self.started = trio.Event()
        """Set when the broker begins to serve clients."""
        self._open: OpenSession = open_session or (
            lambda: config.store_login.session(config.store, config.session_timeout_ms)
        )
        self._environment = environment
        self._requests_watchdog = self.watchdogs.add("client requests")
        self.parts = build_parts(
            config, self._open, self.share, self.log, self.watchdogs, self._limit_connections, environment
        )
        self._log_dir_failures = LogDirFailureHandler(
            BrokerId(config.id), self.parts.log_manager, self.parts.replica_manager, self.log
        )
        self._has_room = trio.Event()
        """Set when retention was applied to the log directories that are nearly full at the start."""

    def _report_stall(self, stall: Stall) -> None:
        ms = round(stall.seconds * 1000)
        self.log.say("loop_stalled", logging.WARNING, loop=stall.loop, ms=ms, cause=stall.cause)

    def problems(self) -> list[str]:
        """Return a warning for each loop that hangs."""
        controller = self.parts.membership.controller
        return self.watchdogs.problems() + ([] if controller is None else controller.watchdogs.problems())

    def stalls(self) -> list[str]:
        """Return a warning for each loop that stalled in the last minute, about its last stall."""
        controller = self.parts.membership.controller
        return self.watchdogs.warnings() + ([] if controller is None else controller.watchdogs.warnings())

    # -- start and end ---------------------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until cancelled. `task_status` reports the start when clients are served."""
        config, parts = self.config, self.parts
        async with self._open() as session:
            await prepare(session)
            self.cluster = await cluster_id(session, os.urandom, config.log_dirs)
            await parts.access.load(session)
        try:
            await parts.log_manager.load(config.id, self.cluster)
            await self._run(task_status)
        finally:
            with trio.CancelScope(shield=True):
                await parts.log_manager.close(parts.membership.epoch)

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        parts = self.parts
        async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
            await self._listen_to_controllers(stack, nursery)
            await self._bind(stack)
            await nursery.start(parts.replica_manager.run)
            nursery.start_soon(self.watchdogs.run)
            watermarks = parts.replica_manager.core.high_watermarks
            nursery.start_soon(parts.log_manager.run, watermarks, parts.replica_manager.logs_retired)
            nursery.start_soon(self._log_dir_failures.run)
            nursery.start_soon(self._make_room)
            nursery.start_soon(parts.auto_creation.run)
            await nursery.start(parts.group_coordinator.run)
            await nursery.start(parts.transaction_coordinator.run)
            former = [each for where in self._working() for each in self._environment.former_sessions(where)]
            await nursery.start(
                parts.membership.run, self._described(), former, self._remember_session, self._follow_store
            )
            await parts.control_plane.updated.wait()
            await parts.access.known.wait()
            for listener in self.listeners:
                nursery.start_soon(listener.run)
            self.log.say("serves", ports=",".join(f"{name}:{port}" for name, port in self.ports.items()))
            self.started.set()
            task_status.started()

    async def leave(self) -> None:
        """Prepare a clean stop: ask the controller to move leaderships to other brokers. Call it before `run` is
        cancelled."""
        await self.parts.membership.leave()

    # -- listeners -------------------------------------------------------------------------------------------

    async def _listen_to_controllers(self, stack: AsyncExitStack, nursery: trio.Nursery) -> None:
        parts, listener = self.parts, self.config.controller
        where = listener.host, listener.port, f"listener {listener.name}"
        listeners, self.ports[CONTROLLER] = await self._environment.listen(*where)
        for each in listeners:
            stack.push_async_callback(each.aclose)
        me = BrokerId(self.config.id)
        commands = CommandServer(
            ControllerCommandHandler(
                parts.membership.accepts_from,
                parts.control_plane.apply,
                me=me,
                report_misaddressed=partial(report_misaddressed, me),
            ),
            lambda request: grant_shutdown(parts.membership.controller, request),
        )
        control_plane = ControlPlaneListener(
            listener,
            parts.access.security(listener.sasl),
            self.config.port,
            commands.serve,
            parts.access.allows_brokers,
            self.log,
            self._ready_for_commands,
        )
        nursery.start_soon(control_plane.run, listeners, nursery)

    async def _ready_for_commands(self) -> None:
        """Wait until peers can be authenticated and authorized, and until retention was applied to nearly full log
        directories."""
        if self.config.controller.sasl is not None or self.parts.access.authorizer is not None:
            await self.parts.access.known.wait()
        await self._has_room.wait()

    async def _make_room(self) -> None:
        await self.parts.log_manager.make_room()
        self._has_room.set()

    async def _bind(self, stack: AsyncExitStack) -> None:
        config = self.config
        handlers = request_handlers(config, self.parts, self.cluster, self.log)
        limits = evolve(config.port, descriptors_max=min(config.port.descriptors_max, self.share.connections))
        for each in config.listeners:
            security = self.parts.access.security(each.sasl)
            listener = ClientListener(
                each.name, each.host, each.port, handlers, self.log, limits, security, each.tls, each.principals,
                self._requests_watchdog, self.parts.group_coordinator.connection_closed, self._environment.listen,
            )  # fmt: skip
            self.ports[each.name] = await listener.bind()
            stack.push_async_callback(listener.aclose)
            self.listeners.append(listener)

    def _limit_connections(self, total: int | None, per_host: int | None) -> None:
        for listener in self.listeners:
            if total is not None:
                listener.settings = evolve(listener.settings, connections_max=total)
            if per_host is not None:
                listener.settings = evolve(listener.settings, connections_per_host_max=per_host)

    # -- the store -------------------------------------------------------------------------------------------

    async def _follow_store(self, session: zab.Session) -> None:
        """Run the tasks that use the session with the store, while it lasts."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._log_dir_failures.notify_controller, session)
            nursery.start_soon(self.parts.dynamic_configs.feed.run, session)
            nursery.start_soon(self.parts.access.follow, session)

    def _described(self) -> Described:
        """Return the content of this broker's node in the store."""
        config = self.config
        listeners = (*config.listeners, config.controller)
        endpoints = (
            Endpoint(each.name, advertised_host(each), each.advertised_port or self.ports[each.name])
            for each in listeners
        )
        protocols = {each.name: each.protocol for each in listeners}
        return Described(config.id, BrokerEpoch(-1), tuple(endpoints), protocols, config.rack)

    def _working(self) -> list[Path]:
        """Return the working log directories, as the configuration names them."""
        failed = set(map(Path, self.parts.log_manager.failed))
        return [each for each in self.config.log_dirs if each not in failed]

    def _remember_session(self, session: int) -> None:
        """Save the id of a session in the first writable directory. With the id, the next start can replace the
        registration of that session at once."""
        for where in self._working():
            try:
                self._environment.remember_session(where, session)
            except OSError as error:
                self.log.warn_rate_limited("session_id_not_saved", str(where), why=error)
            else:
                return


def advertised_host(listener: Listener) -> str:
    """Return the host that clients connect to: this machine's name instead of an address that means every interface."""
    if listener.advertised_host is not None:
        return listener.advertised_host
    return socket.getfqdn() if listener.host in EVERYWHERE else str(listener.host)
