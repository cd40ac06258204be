"""A broker's membership in the cluster: its store session, registration, candidacy for controller, and controlled
shutdown."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Final

import trio
from attrs import evolve

import zab
from kraft_controller.core.broker_epoch import NO_EPOCH, UNREGISTERED
from kraft_controller.core.names import BrokerEpoch, BrokerId, TopicPartition
from kraft_controller.core.state import Broker as Described
from kraft_controller.core.state import Endpoint
from kraft_controller.runtime.command_connections import CommandConnections, ConnectionSettings
from kraft_controller.runtime.controller import Controller, ControllerEnvironment
from kraft_controller.runtime.registration import Registration
from kraft_controller.runtime.shutdown_request import request_shutdown
from kraft_controller.wire import znodes
from replica.core.metadata_cache import MetadataCache
from replica.runtime.configuration.broker_config import CONTROLLER, BrokerConfig
from replica.runtime.logs import Log
from replica.runtime.network.inter_broker_clients import InterBrokerClients
from replica.runtime.network.transport import Connect
from zab.host.clocks import wall_ms

STORE_CHECK_S: Final = 0.1
"""The interval of checks of the store connection during a controlled shutdown."""
DOUBT_S: Final = 0.1
"""The pause before asking an unreachable store again whether the session lasts."""

OpenSession = Callable[[], AbstractAsyncContextManager[zab.Session]]


class ClusterMembership:
    """Registers a broker in each session with the store, and runs a candidate for controller in each session."""

    def __init__(
        self, config: BrokerConfig, open_session: OpenSession, cache: MetadataCache, log: Log, connect: Connect
    ) -> None:
        self.registration: Registration | None = None
        """The registration; None until the ports of the listeners are known."""
        self.controller: Controller | None = None
        """The candidate of the newest session; None before the first one."""
        self.connections: CommandConnections | None = None
        """The candidate's command connections to brokers; None before the first session."""
        self._config = config
        self._open = open_session
        self._cache = cache
        self._dial = InterBrokerClients(config.controllers, connect).stream
        self._log = log
        self._live = False
        """True while the session lasts and the broker is registered."""

    def session(self) -> zab.Session | None:
        """Return the current session; None if there is none."""
        return self.registration.session if self.registration is not None and self._live else None

    @property
    def epoch(self) -> BrokerEpoch:
        return NO_EPOCH if self.registration is None else self.registration.epoch

    def accepts_from(self) -> BrokerEpoch:
        """Return the smallest broker epoch with which this process accepts a command."""
        return UNREGISTERED if self.registration is None else self.registration.accepts_from

    def acting_controller(self) -> BrokerId | None:
        """Return the id of the controller; None if this broker does not know it."""
        return self.controller.controller if self.controller is not None and self._live else None

    @property
    def is_controller(self) -> bool:
        return self.controller is not None and self.controller.active

    async def still_registered(self) -> bool:
        """Return whether the store confirms that the current session lasts. Wait while the store is unreachable.

        If the session lasts, the controller has not treated this broker as failed, so it has elected no other leaders
        for that reason.
        """
        session = self.session()
        while session is not None and self.session() is session:
            try:
                await session.exists(znodes.CONTROLLER)
            except zab.ZabError:
                await trio.sleep(DOUBT_S)
            else:
                return self.session() is session
        return False

    # -- joining -----------------------------------------------------------------------------------------------

    async def run(
        self,
        described: Described,
        former: Collection[int],
        remember: Callable[[int], None],
        follow: Callable[[zab.Session], Awaitable[None]],
        *,
        task_status: trio.TaskStatus[BrokerEpoch] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Stay registered until cancelled. `follow` runs while a session lasts. See `Registration` for `former` and
        `remember`."""
        registration = Registration(self._open, described, wall_ms, former=former, remember=remember)
        self.registration = registration
        await registration.run(partial(self._live_session, follow), task_status=task_status)

    async def _live_session(self, follow: Callable[[zab.Session], Awaitable[None]], session: zab.Session) -> None:
        config = self._config
        connections = self.connections = CommandConnections(
            self._replied, ConnectionSettings(listener=CONTROLLER, dial=self._dial)
        )
        environment = ControllerEnvironment(wall_ms, os.urandom)
        controller = Controller(session, config.id, connections, environment, config.control, config.pace)
        self.controller = controller
        self._live = True
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(connections.run)
                nursery.start_soon(controller.run)
                nursery.start_soon(follow, session)
        finally:
            self._live = False

    def _replied(self, event: Any) -> None:
        if self.controller is not None:
            self.controller.note(event)

    # -- leaving -----------------------------------------------------------------------------------------------

    async def leave(self) -> None:
        """Ask the controller to move the leaderships of this broker to others. This may take long, and may fail. Do
        nothing if `controlled.shutdown.enable=false`."""
        if self.epoch == NO_EPOCH:
            return  # the broker was never registered
        leaving = self._config.leaving
        if leaving is not None:
            leaving = evolve(leaving, dial=self._dial)
        left: tuple[TopicPartition, ...] | None = None
        async with trio.open_nursery() as nursery:
            if leaving is not None:
                nursery.start_soon(self._cancel_without_store, leaving.store_s, nursery.cancel_scope)
            left = await request_shutdown(self._config.id, lambda: self.epoch, self._controller_endpoint, leaving)
            nursery.cancel_scope.cancel()
        if left is None or left:
            why = (
                "every attempt at a controlled shutdown failed: no controller replied, or it replied with an error"
                if left is None
                else f"the broker still leads {', '.join(map(str, left))}"
            )
            self._log.say("leaves_anyway", logging.WARNING, why=why)

    def _controller_endpoint(self) -> Endpoint | None:
        acting = self.acting_controller()
        return None if acting is None else self._cache.endpoint(acting, CONTROLLER)

    async def _cancel_without_store(self, patience_s: float, scope: trio.CancelScope) -> None:
        """Cancel the scope after the store has been unreachable for `patience_s` without a break."""
        reached = trio.current_time()
        while trio.current_time() - reached < patience_s:
            await trio.sleep(min(STORE_CHECK_S, patience_s))
            session = self.session()
            if session is not None and session.state is zab.SessionState.CONNECTED:
                reached = trio.current_time()
        self._log.say("leaves_anyway", logging.WARNING, why=f"the store has been unreachable for {patience_s:g} s")
        scope.cancel()
