"""One broker, whole: its session with the store, its registration, its candidacy for controller, its listener for
controllers, its listeners, and its replicas.

In the order of a start: the ports are taken (so that they are known), then the store, whose are the log directories,
registration, the first word of a controller; only then is a client answered. What dies with a session is made anew with
the next one; replicas and connections live on.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final

import trio
from attrs import evolve

import zab
from kraft_controller.core.broker_epoch import NO_EPOCH, UNREGISTERED
from kraft_controller.core.command_handler import ControllerCommandHandler
from kraft_controller.core.commands import Command, UpdateMetadata
from kraft_controller.core.names import (
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    BrokerEpoch,
    BrokerId,
    TopicId,
    TopicPartition,
)
from kraft_controller.core.state import Broker as Described
from kraft_controller.core.state import Endpoint
from kraft_controller.runtime import meta_properties
from kraft_controller.runtime.command_connections import CommandConnections, ConnectionSettings
from kraft_controller.runtime.command_server import CommandServer, report_misaddressed
from kraft_controller.runtime.controller import Chance, Controller
from kraft_controller.runtime.registration import Registration, cluster_id, prepare
from kraft_controller.runtime.shutdown_request import grant_shutdown, request_shutdown
from kraft_controller.wire import znodes
from replica.core.fetch_session_cache import EPOCH_MAX, FetchSessionCache
from replica.core.fetch_session_cache import FetchSessionLimits as SessionLimits
from replica.core.log_config import LogConfig
from replica.core.metadata_cache import MetadataCache
from replica.runtime.authentication.listener_security import NO_SASL, ListenerSecurity
from replica.runtime.authentication.sasl_authenticator import SaslSettings, sasl_security
from replica.runtime.authentication.user_credentials import UserCredentials, sasl_secret
from replica.runtime.authorization.authorizer import Authorizer
from replica.runtime.authorization.guard_table import guard_handlers
from replica.runtime.configuration.broker_config import CONTROLLER, EVERYWHERE, BrokerConfig, Listener
from replica.runtime.configuration.config_layers import started_with
from replica.runtime.configuration.dynamic_config_manager import DynamicConfigManager
from replica.runtime.configuration.topic_configs import TopicConfigs
from replica.runtime.coordination.group_coordinator_runtime import GroupCoordinatorRuntime
from replica.runtime.coordination.transaction_coordinator_runtime import TransactionCoordinatorRuntime
from replica.runtime.coordination.transaction_marker_sender import TransactionMarkerSender
from replica.runtime.handlers import acl_requests as acl_handlers
from replica.runtime.handlers import config_requests as config_handlers
from replica.runtime.handlers import coordinator_requests as coordinator_handlers
from replica.runtime.handlers import fetch_requests as fetch_handlers
from replica.runtime.handlers import group_requests as group_handlers
from replica.runtime.handlers import log_dir_requests as log_dir_handlers
from replica.runtime.handlers import marker_requests as marker_handlers
from replica.runtime.handlers import metadata_requests as metadata_handlers
from replica.runtime.handlers import offset_requests as offset_handlers
from replica.runtime.handlers import produce_requests as produce_handlers
from replica.runtime.handlers import producer_id_requests as producer_handlers
from replica.runtime.handlers import quota_requests as quota_handlers
from replica.runtime.handlers import reassignment_requests as move_handlers
from replica.runtime.handlers import scram_requests as user_handlers
from replica.runtime.handlers import topic_requests as topic_handlers
from replica.runtime.handlers import transaction_requests as transaction_handlers
from replica.runtime.handlers.client_throttling import metered
from replica.runtime.handlers.consumer_fetch_sessions import in_sessions
from replica.runtime.logs import Log
from replica.runtime.network.client_listener import ClientListener
from replica.runtime.network.control_plane_listener import ControlPlaneListener
from replica.runtime.network.descriptor_share import share_descriptors
from replica.runtime.network.inter_broker_clients import InterBrokerClients
from replica.runtime.replication.fetcher_tasks import FetcherSettings
from replica.runtime.replication.log_dir_failures import LogDirFailureHandler
from replica.runtime.replication.log_manager_runtime import LogManagerRuntime
from replica.runtime.replication.replica_manager_runtime import ReplicaManagerRuntime, ReplicationPace
from replica.runtime.requests import ApiKey, Handlers, joined
from replica.runtime.store.internal_topic_size import InternalTopicSize
from replica.runtime.store.producer_id_manager import ProducerIdManager
from replica.runtime.store.topic_manager import Defaults, TopicManager
from zab.core.failed_logins import FailedLogins
from zab.host.clocks import wall_ms
from zab.host.process_tuning import open_files_limit
from zab.host.watchdog import Stall, Watchdogs
from zab.net.listener import listen

OFFSETS_CONFIG: Final = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    # A coordinator's clock is not set while it runs; a broker's that is set back would refuse its records.
    "message.timestamp.after.max.ms": str(2**63 - 1),
}
TRANSACTIONS_CONFIG: Final = {
    **OFFSETS_CONFIG,
    "compression.type": "uncompressed",
    "unclean.leader.election.enable": "false",
}
STORE_LOOK_S: Final = 0.1
"""Between two looks whether the store is in reach, while a broker leaves."""
DOUBT_S: Final = 0.1
OpenSession = Callable[[], AbstractAsyncContextManager[zab.Session]]


class Broker:
    """started      when clients are answered
    ports        where it listens, by listener
    """

    def __init__(self, config: BrokerConfig, open_session: OpenSession | None = None) -> None:
        self.config = config
        self.log = Log(config.id)
        self.watchdogs = Watchdogs(self._report_stall)
        self._requests_watchdog = self.watchdogs.add("client requests")
        self._commands_watchdog = self.watchdogs.add("controller's commands")
        self.cache = MetadataCache()
        self.ports: dict[str, int] = {}
        self.started = trio.Event()
        self.cluster = ""
        self._open: OpenSession = open_session or (
            lambda: config.store_login.session(config.store, config.session_timeout_ms)
        )
        self.configs = TopicConfigs(config.log, self.log)
        self.topics = TopicManager(
            self.session,
            self.cache,
            Defaults(config.partitions, config.replication_factor),
            os.urandom,
            deletion=config.deletion,
        )
        self.offsets_topic = InternalTopicSize(self.topics, OFFSETS_TOPIC)
        self.transactions_topic = InternalTopicSize(self.topics, TRANSACTIONS_TOPIC)
        self.producer_ids = ProducerIdManager(config.id, self.session)
        self.share = share_descriptors(open_files_limit(), len(config.log_dirs), config.logs.open_files_max)
        logs = evolve(config.logs, open_files_max=self.share.logs)
        self.disk = LogManagerRuntime(config.log_dirs, self.configs, self.log, wall_ms, config.disk, logs)
        self.disk.cleans = config.cleans
        self.replication = ReplicaManagerRuntime(
            config.id,
            self.disk,
            self.log,
            lambda: self.epoch,
            self.session,
            self._address,
            config.replication,
            ReplicationPace(checkpoint_s=config.watermark_checkpoint_s),
            FetcherSettings(answer_s=config.fetch_answer_ms / 1000),
            between=InterBrokerClients(config.peers),
            examining=config.examining,
        )
        self.replication.watchdog = self.watchdogs.add("replica manager", self.replication.poke)
        self.failed_disks = LogDirFailureHandler(config.id, self.disk, self.replication, self.log)
        self.groups = GroupCoordinatorRuntime(
            self.replication,
            self.offsets_topic.count,
            self.log,
            config.groups,
            config.commit_timeout_ms,
            self._still_registered,
        )
        self.groups.watchdog = self.watchdogs.add("group coordinator", self.groups.poke, lambda: self.groups.excused)
        self.replication.role_taken.append(self.groups.role_taken)
        self.markers = TransactionMarkerSender(
            config.id, self.cache, self.topics.has, self._address, self.log, between=InterBrokerClients(config.peers)
        )
        self.transactions = TransactionCoordinatorRuntime(
            self.replication,
            self.transactions_topic.count,
            self.markers,
            self.producer_ids,
            self.log,
            config.transactions,
            self._still_registered,
        )
        self.transactions.watchdog = self.watchdogs.add(
            "transaction coordinator", self.transactions.poke, lambda: self.transactions.excused
        )
        self.replication.role_taken.append(self.transactions.role_taken)
        bounds = {
            "max.connections": config.port.connections_max,
            "max.connections.per.ip": config.port.connections_per_host_max,
            "log.cleaner.enable": config.cleans,
            "log.cleaner.backoff.ms": round(config.disk.clean_pause_s * 1000),
        }
        file = started_with(config.log, config.log_said, bounds, config.said)
        self.dynamic = DynamicConfigManager(config.id, self.configs, self.replication, self.disk, file, self.log)
        self.replication.role_taken.append(self.dynamic.role_taken)
        self.configs.apply = self._reconfigured
        self.registration: Registration | None = None
        self.controller: Controller | None = None
        self.links: CommandConnections | None = None
        self.fetch_sessions = FetchSessionCache(_draw_id, SessionLimits(config.fetch_sessions))
        self.failed_logins = FailedLogins(config.failed_logins)
        self.users = UserCredentials(self.log, self.session)
        acls = config.acls
        self.authorizer = None if acls is None else Authorizer(acls, self.log, self.session, wall_ms)
        self._secret = b""
        self._live = False
        self._told = trio.Event()
        self._knows_users = trio.Event()
        self._has_room = trio.Event()

    def session(self) -> zab.Session | None:
        """The one that lasts, if one does."""
        return self.registration.session if self.registration is not None and self._live else None

    async def _still_registered(self) -> bool:
        """The store says that the session of now lasts: nobody has been elected in the place of a broker that it took
        for dead. False: the session is over. While the store does not answer, nobody knows."""
        session = self.session()
        while session is not None and self.session() is session:
            try:
                await session.exists(znodes.CONTROLLER)
            except zab.ZabError:
                await trio.sleep(DOUBT_S)
            else:
                return self.session() is session
        return False

    @property
    def epoch(self) -> BrokerEpoch:
        return NO_EPOCH if self.registration is None else self.registration.epoch

    def _obeys_from(self) -> BrokerEpoch:
        return UNREGISTERED if self.registration is None else self.registration.accepts_from

    @property
    def controls(self) -> bool:
        """This broker is the controller."""
        return self.controller is not None and self.controller.active

    def _report_stall(self, stall: Stall) -> None:
        ms = round(stall.seconds * 1000)
        self.log.say("loop_stalled", logging.WARNING, loop=stall.loop, ms=ms, cause=stall.cause)

    def problems(self) -> list[str]:
        """Loops that do not turn any more."""
        controller = self.controller
        return self.watchdogs.problems() + ([] if controller is None else controller.watchdogs.problems())

    def stalls(self) -> list[str]:
        """List what has held up a loop in the last minute."""
        controller = self.controller
        return self.watchdogs.warnings() + ([] if controller is None else controller.watchdogs.warnings())

    # -- from start to end -----------------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Started when clients are answered. Until cancelled."""
        config = self.config
        async with self._open() as session:
            await prepare(session)
            self.cluster = await cluster_id(session, os.urandom, config.log_dirs)
            self._secret = await sasl_secret(session, os.urandom)
        try:
            await self.disk.load(config.id, self.cluster)
            await self._run(task_status)
        finally:
            with trio.CancelScope(shield=True):
                await self.disk.close(self.epoch)

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        config = self.config
        async with AsyncExitStack() as held, trio.open_nursery() as nursery:
            me = BrokerId(config.id)
            commands = CommandServer(
                ControllerCommandHandler(
                    self._obeys_from, self._obey, me=me, report_misaddressed=partial(report_misaddressed, me)
                ),
                lambda request: grant_shutdown(self.controller, request),
            )
            control = config.controller
            control_sockets = await listen(control.host, control.port, f"listener {control.name}")
            for each in control_sockets:
                held.push_async_callback(each.aclose)
            self.ports[CONTROLLER] = control_sockets[0].socket.getsockname()[1]
            handlers = self._handlers()
            bounds = evolve(config.port, descriptors_max=min(config.port.descriptors_max, self.share.connections))
            doors = [
                ClientListener(
                    each.name,
                    each.host,
                    each.port,
                    handlers,
                    self.log,
                    bounds,
                    self._security(each.sasl),
                    each.tls,
                    each.principals,
                    self._requests_watchdog,
                )
                for each in config.listeners
            ]
            for door in doors:
                self.ports[door.name] = await door.bind()
                held.push_async_callback(door.aclose)
                self.dynamic.doors.append(door)
            registration = self.registration = Registration(
                self._open,
                self._described(),
                wall_ms,
                former=[each for where in self._usable() for each in meta_properties.former_sessions(where)],
                remember=self._remember_session,
            )
            control_plane = ControlPlaneListener(
                config.controller,
                self._security(config.controller.sasl),
                config.port,
                commands.serve,
                self._trusts,
                self.log,
                self._may_be_commanded,
            )
            nursery.start_soon(control_plane.run, control_sockets, nursery)
            await nursery.start(self.replication.run)
            nursery.start_soon(self.watchdogs.run)
            nursery.start_soon(self.disk.run, self.replication.core.high_watermarks, self.replication.logs_retired)
            nursery.start_soon(self.failed_disks.run)
            nursery.start_soon(self._make_room)
            await nursery.start(self.groups.run)
            await nursery.start(self.transactions.run)
            await nursery.start(registration.run, self._live_with)
            await self._told.wait()
            await self._knows_users.wait()
            for door in doors:
                nursery.start_soon(door.run)
            self.log.say("serves", ports=",".join(f"{name}:{port}" for name, port in self.ports.items()))
            self.started.set()
            task_status.started()

    def _handlers(self) -> Handlers:
        config = self.config
        inter_broker = self._inter_broker
        of_groups = self._remembering(self.offsets_topic)
        made: Handlers = joined(
            metadata_handlers.handlers(
                self.cache,
                metadata_handlers.MetadataSettings(self.cluster, config.auto_create),
                self.who_controls,
                self.make_topic,
            ),
            topic_handlers.handlers(self.topics, self.cache, lambda: self.dynamic.layers),
            config_handlers.handlers(config.id, self.cache, self.session, self.dynamic.file),
            quota_handlers.handlers(self.session),
            move_handlers.handlers(lambda: self.controller),
            producer_handlers.handlers(self.producer_ids, self.transactions),
            user_handlers.handlers(self.users),
            acl_handlers.handlers(self.authorizer),
            log_dir_handlers.handlers(self.disk, self.replication.core.high_watermarks),
            produce_handlers.handlers(self.replication),
            fetch_handlers.handlers(self.replication, inter_broker),
            marker_handlers.handlers(self.replication, wall_ms, self._transaction_ended),
            offset_handlers.handlers(self.replication, inter_broker, self._may_be_shortened),
            group_handlers.handlers(self.groups, self.cache.__contains__),
            transaction_handlers.handlers(self.transactions, self.cache.__contains__, of_groups.count),
            coordinator_handlers.handlers(
                self.cache,
                {
                    coordinator_handlers.GROUP: of_groups,
                    coordinator_handlers.TRANSACTION: self._remembering(self.transactions_topic),
                },
            ),
        )
        handlers = metered(made, self.dynamic.quotas, self.replication.now, inter_broker)
        if self.authorizer is not None:
            handlers = guard_handlers(handlers, self.authorizer, self.cache, auto_create=config.auto_create)
        fetch = in_sessions(handlers[ApiKey.FETCH], self.fetch_sessions, self.replication.now, inter_broker)
        return {**handlers, ApiKey.FETCH: fetch}

    def _remembering(self, topic: InternalTopicSize) -> coordinator_handlers.CoordinatorTopicLookup:
        make = partial(self.make_topic, topic.name)
        return coordinator_handlers.CoordinatorTopicLookup(topic.name, topic.count, make, self.log)

    def _transaction_ended(self, where: TopicPartition, producer: int, committed: bool, offset: int) -> None:
        """Positions of groups may have hung on it."""
        if where.topic == OFFSETS_TOPIC:
            self.groups.complete_transaction(where.partition, producer, committed, offset)

    def _may_be_shortened(self, topic: str) -> bool:
        """A name that is no topic's gets another error. To ask for its configuration would have it read and watched."""
        return topic not in self.cache.topics or self.configs[topic].delete

    def _security(self, sasl: SaslSettings | None) -> ListenerSecurity:
        return NO_SASL if sasl is None else sasl_security(sasl, self.users.find, self._secret, self.failed_logins)

    def _asks_for(self, listener: Listener) -> bool:
        """Who comes in there has to be known."""
        return listener.sasl is not None or self.authorizer is not None

    def _trusts(self, principal: str, host: str) -> bool:
        return self.authorizer is None or self.authorizer.allows_brokers(principal, host)

    async def _make_room(self) -> None:
        await self.disk.make_room()
        self._has_room.set()

    async def _may_be_commanded(self) -> None:
        """Who comes in can be told from others, and for what roles bring there is room, if any can be made."""
        if self._asks_for(self.config.controller):
            await self._knows_users.wait()
        await self._has_room.wait()

    def _usable(self) -> list[Path]:
        """As the configuration names them: where files are played, those are nowhere."""
        failed = set(map(Path, self.disk.failed))
        return [each for each in self.config.log_dirs if each not in failed]

    def _remember_session(self, session: int) -> None:
        """In the first directory that takes it. Without it the next start is slower, and that is all."""
        for where in self._usable():
            try:
                meta_properties.remember_session(where, session)
            except OSError as error:
                self.log.warn_rate_limited("session-not-remembered", str(where), why=error)
            else:
                return

    def who_controls(self) -> BrokerId | None:
        return self.controller.controller if self.controller is not None and self._live else None

    async def make_topic(self, name: str) -> None:
        """Because somebody asked for one that is not there."""
        if name == OFFSETS_TOPIC:
            offsets = self.config.offsets
            await self.topics.make_if_missing(
                name,
                offsets.partitions,
                offsets.factor,
                {**OFFSETS_CONFIG, "segment.bytes": str(offsets.segment_bytes)},
            )
        elif name == TRANSACTIONS_TOPIC:
            wanted = self.config.transactions_topic
            said = {"segment.bytes": str(wanted.segment_bytes), "min.insync.replicas": str(wanted.min_insync)}
            await self.topics.make_if_missing(name, wanted.partitions, wanted.factor, {**TRANSACTIONS_CONFIG, **said})
        else:
            await self.topics.make_if_missing(name)

    async def _live_with(self, session: zab.Session) -> None:
        """For as long as one session lasts."""
        config = self.config
        links = self.links = CommandConnections(
            self._answered, ConnectionSettings(listener=CONTROLLER, dial=InterBrokerClients(config.controllers).stream)
        )
        chance = Chance(wall_ms, os.urandom)
        controller = self.controller = Controller(session, config.id, links, chance, config.control, config.pace)
        self._live = True
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(links.run)
                nursery.start_soon(controller.run)
                nursery.start_soon(self.failed_disks.tell, session)
                nursery.start_soon(self.dynamic.feed.run, session)
                await nursery.start(self.users.feed.run, session)
                if self.authorizer is not None:
                    await nursery.start(self.authorizer.run, session)
                self._knows_users.set()
        finally:
            self._live = False

    async def leave(self) -> None:
        """Before it is cancelled: what it leads goes to others. That may take a while, and be in vain."""
        if self.epoch == NO_EPOCH:
            return  # it never was one of the brokers

        def controller() -> Endpoint | None:
            acting = self.who_controls()
            return None if acting is None else self.cache.endpoint(acting, CONTROLLER)

        leaving = self.config.leaving
        if leaving is not None:
            leaving = evolve(leaving, dial=InterBrokerClients(self.config.controllers).stream)
        left: tuple[TopicPartition, ...] | None = None
        async with trio.open_nursery() as nursery:
            if leaving is not None:
                nursery.start_soon(self._until_store_is_lost, leaving.store_s, nursery.cancel_scope)
            left = await request_shutdown(self.config.id, lambda: self.epoch, controller, leaving)
            nursery.cancel_scope.cancel()
        if left is None or left:
            why = "no controller has answered" if left is None else f"it still leads {', '.join(map(str, left))}"
            self.log.say("leaves_anyway", logging.WARNING, why=why)

    async def _until_store_is_lost(self, patience_s: float, scope: trio.CancelScope) -> None:
        """Cancel the scope when the store has been out of reach for so long without a break."""
        reached = trio.current_time()
        while trio.current_time() - reached < patience_s:
            await trio.sleep(min(STORE_LOOK_S, patience_s))
            session = self.session()
            if session is not None and session.state is zab.SessionState.CONNECTED:
                reached = trio.current_time()
        self.log.say("leaves_anyway", logging.WARNING, why=f"the store is out of reach for {patience_s:g} s")
        scope.cancel()

    def _answered(self, event: object) -> None:
        if self.controller is not None:
            self.controller.note(event)  # type: ignore[arg-type]

    # -- what it says of itself --------------------------------------------------------------------------------

    def _described(self) -> Described:
        config = self.config
        listeners = (*config.listeners, config.controller)
        return Described(
            config.id,
            BrokerEpoch(-1),
            tuple(Endpoint(each.name, told_host(each), each.told_port or self.ports[each.name]) for each in listeners),
            {each.name: each.protocol for each in listeners},
            config.rack,
        )

    # -- controllers -------------------------------------------------------------------------------------------

    def _obey(self, command: Command) -> Mapping[TopicPartition, int]:
        """An exception here ends the broker: a command may be half carried out, and a start takes up all of it."""
        with self._commands_watchdog.turn(lambda: type(command).__name__):
            return self._carry_out(command)

    def _carry_out(self, command: Command) -> Mapping[TopicPartition, int]:
        """Replicas first: a client that is told of a leader finds one."""
        errors: Mapping[TopicPartition, int] = self.replication.obey(command)
        if isinstance(command, UpdateMetadata):
            named = self.cache.topics.keys() if command.full else {role.where.topic for role in command.roles}
            named = named | {OFFSETS_TOPIC, TRANSACTIONS_TOPIC}
            before = {name: self.cache.topics[name].id for name in named if name in self.cache.topics}
            self.cache.update(command)
            self.topics.on_metadata_changed()
            gone = {name for name, ident in before.items() if self._is_another(name, ident)}
            for topic in gone:
                self.dynamic.topic_gone(topic, another=topic in self.cache.topics)
            if gone:
                self.groups.topics_deleted(gone)
            if before.get(OFFSETS_TOPIC) != self.cache.topic_id(OFFSETS_TOPIC):
                self.offsets_topic.changed()
                self.groups.topic_changed()
            if before.get(TRANSACTIONS_TOPIC) != self.cache.topic_id(TRANSACTIONS_TOPIC):
                self.transactions_topic.changed()
                self.transactions.topic_changed()
            self._told.set()
        return errors

    def _is_another(self, topic: str, ident: TopicId | None) -> bool:
        """Or none. One command may say both that a topic is gone and that there is a new one of its name."""
        now = self.cache.topics.get(topic)
        return now is None or (ident is not None and now.id != ident)

    def _reconfigured(self, topic: str, config: LogConfig) -> None:
        self.disk.reconfigure(topic, config)
        self.replication.require_in_sync(topic, config.min_insync_replicas)

    # -- other brokers -----------------------------------------------------------------------------------------

    @property
    def _inter_broker(self) -> str:
        return self.config.inter_broker or self.config.listeners[0].name

    def _address(self, broker: BrokerId) -> tuple[str, int] | None:
        endpoint = self.cache.endpoint(broker, self._inter_broker)
        return None if endpoint is None else (endpoint.host, endpoint.port)


def told_host(listener: Listener) -> str:
    """Where clients find it: an address that means every interface is none to dial."""
    if listener.told_host is not None:
        return listener.told_host
    return socket.getfqdn() if listener.host in EVERYWHERE else str(listener.host)


def _draw_id() -> int:
    return int.from_bytes(os.urandom(4), "big") % EPOCH_MAX + 1
