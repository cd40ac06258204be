"""The registration of a broker in the store: an ephemeral node that lasts as long as the session.

The zxid that created the node is the broker epoch. Each new registration has a greater epoch. So a broker recognizes
commands for its earlier registration, even if the controller did not notice the interruption.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

import trio
from attrs import evolve, frozen

import zab
from kraft_controller.core.broker_epoch import NO_EPOCH, BrokerEpochFence
from kraft_controller.core.names import BrokerEpoch, BrokerId, decimal
from kraft_controller.core.state import Broker
from kraft_controller.runtime.bounded_requests import leading_error
from kraft_controller.runtime.meta_properties import known_cluster
from kraft_controller.wire import znodes
from kraft_controller.wire.broker_identity import WrongIdentity
from kraft_controller.wire.znodes import DamagedNode
from zab.core.addresses import with_port

__all__ = [
    "NO_EPOCH", "AddressTaken", "BrokerIdTaken", "Registration", "RegistrationSettings", "cluster_id", "generated_id",
    "prepare", "wrong_with",
]  # fmt: skip

logger: Final = logging.getLogger("kraft_controller")


class BrokerIdTaken(Exception):
    """Another process is registered with this id. Two brokers with one id would corrupt each other's partitions."""


class AddressTaken(BrokerIdTaken):
    """Another broker is registered with an address of this one. Commands would reach the wrong broker."""


@frozen
class RegistrationSettings:
    """Times of a registration, in seconds."""

    taken_s: float = 60.0
    """The longest wait for another registration to disappear: that of a killed process lasts until its session
    expires."""
    pause_s: float = 1.0
    """The pause before the next session if the store was unreachable, if the session ended before the registration, or
    if an error of the store ended the tasks of a session that lasted."""


Live = Callable[[zab.Session], Awaitable[None]]
"""The tasks of a broker that use one session with the store."""


class Registration:
    """Keeps one broker registered, with a new registration in each session."""

    def __init__(
        self,
        open_session: Callable[[], AbstractAsyncContextManager[zab.Session]],
        broker: Broker,
        now_ms: Callable[[], int],
        *,
        former: Collection[int] = (),
        remember: Callable[[int], None] | None = None,
        settings: RegistrationSettings | None = None,
    ) -> None:
        wrong = wrong_with(broker)
        if wrong is not None:
            raise ValueError(wrong)
        self._fence = BrokerEpochFence()
        self.broker = evolve(broker, epoch=NO_EPOCH)
        """The broker's description, with the epoch of its newest registration."""
        self.session: zab.Session | None = None
        """The newest session; None before the first one."""
        self._open = open_session
        self._now_ms = now_ms
        """Returns the wall-clock time, for the node."""
        self._former = set(former)
        """The ids of this broker's sessions, also of earlier processes. The broker may replace registrations of these
        sessions."""
        self._remember = remember
        """Receives the id of each session, to be passed as `former` to the next process."""
        self._settings = settings or RegistrationSettings()
        self._path = znodes.broker_path(broker.id)

    @property
    def epoch(self) -> BrokerEpoch:
        """The epoch of the newest registration; `NO_EPOCH` before the first one."""
        return self.broker.epoch

    @property
    def accepts_from(self) -> BrokerEpoch:
        """The smallest broker epoch whose commands this process accepts."""
        return self._fence.accepts_from

    # -- sessions ------------------------------------------------------------------------------------------

    async def run(self, live: Live, *, task_status: trio.TaskStatus[BrokerEpoch] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until cancelled. In each session, register and run `live`; when the session is lost, open another.

        Reports the start after the first registration. Until then any error of the store is raised. Afterwards only
        `zab.AuthFailed` is raised; after other errors the broker opens sessions until one succeeds. Raise
        `BrokerIdTaken` if the id or an address stays taken for `taken_s`. Raise any error of `live` that is not a
        `zab.ZabError`.
        """
        while True:
            registered = False
            try:
                async with self._open() as session:
                    await self._register(session)
                    registered = True
                    task_status.started(self.epoch)
                    task_status = trio.TASK_STATUS_IGNORED
                    await self._live_session(session, live)
            except zab.AuthFailed:
                raise
            except zab.ZabError as error:
                if self.epoch == NO_EPOCH:
                    raise
                outcome = "ended its session" if registered else "is not registered"
                logger.warning("broker %d %s: %s", self.broker.id, outcome, error)
                await trio.sleep(self._settings.pause_s)

    async def _live_session(self, session: zab.Session, live: Live) -> None:
        """Run `live` until the session ends. Raise any error of `live` that the end of the session did not cause."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(live, session)
                nursery.start_soon(self._keep, session)
                async for state in session.states():
                    if state.final:
                        break
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            error = leading_error(group)
            if session.over is None or not isinstance(error, zab.ZabError):
                raise error from None
        logger.warning("broker %d lost its session: %s", self.broker.id, session.over)

    async def _keep(self, session: zab.Session) -> None:
        """Register again if the node is deleted by hand, because the controller then considers the broker failed."""
        async with session.watcher() as watch:
            while True:
                stat = await session.exists(self._path, watch)
                if stat is None or stat.ephemeral_owner != session.id:
                    logger.warning("the registration of broker %d was deleted during its session", self.broker.id)
                    await self._register(session)
                    continue
                await anext(watch)

    async def update(self, broker: Broker) -> None:
        """Change the broker's description. The epoch stays the same."""
        wrong = wrong_with(broker)
        if wrong is not None or broker.id != self.broker.id:
            raise ValueError(wrong or f"broker {self.broker.id} cannot become broker {broker.id}")
        self.broker = evolve(broker, epoch=self.epoch)
        if self.session is not None:
            await self.session.set(self._path, znodes.broker(self.broker, self._now_ms()))

    # -- one registration ----------------------------------------------------------------------------------

    async def _register(self, session: zab.Session) -> None:
        self.session = session
        if session.id not in self._former:
            self._former.add(session.id)
            if self._remember is not None:
                self._remember(session.id)
        if not self._fence.listed:
            await session.ensure_path(znodes.BROKERS)
            await session.sync(znodes.BROKERS)
            parent = await session.exists(znodes.BROKERS)
            assert parent is not None
            self._fence.list_read(parent.pzxid)
        with trio.move_on_after(self._settings.taken_s):
            async with session.watcher() as watch:
                while True:
                    epoch = await self._try(session, watch)
                    if epoch is not None:
                        self._fence.registered(epoch)
                        self.broker = evolve(self.broker, epoch=epoch)
                        logger.info("broker %d is registered with epoch %d", self.broker.id, epoch)
                        return
        other = await self._address_conflict(session, None)
        if other is not None:
            raise AddressTaken(other)
        raise BrokerIdTaken(await self._id_conflict(session))

    async def _try(self, session: zab.Session, watch: zab.Watch) -> BrokerEpoch | None:
        """Try to register. Return the epoch; None if the caller must try again.

        If another registration is in the way, wait for a change in the store first.
        """
        stat = await session.exists(self._path, watch)
        multi = zab.Multi()
        if stat is not None:
            if stat.ephemeral_owner == session.id:
                return BrokerEpoch(stat.czxid)  # the reply to an earlier try was lost
            if stat.ephemeral_owner not in self._former:
                self._report_wait(await self._id_conflict(session))
                await anext(watch)
                return None
            multi.delete(self._path, version=stat.version)
        other = await self._address_conflict(session, watch)
        if other is not None:
            self._report_wait(other)
            await anext(watch)
            return None
        # Create, then write the node, like Kafka's brokers, so that its data version is 1.
        multi.create(self._path, None, ephemeral=True)
        multi.set(self._path, znodes.broker(self.broker, self._now_ms()), version=0)
        try:
            *_, made = await session.multi(multi)
        except (zab.NodeExists, zab.NoNode, zab.BadVersion):
            if await session.exists(znodes.BROKERS) is None:
                await session.ensure_path(znodes.BROKERS)
            return None
        except zab.OutcomeUnknown:
            await session.sync(self._path)
            return None
        assert isinstance(made, zab.Stat)
        return BrokerEpoch(made.czxid)

    def _report_wait(self, why: str) -> None:
        logger.warning("broker %d waits up to %g s to register: %s", self.broker.id, self._settings.taken_s, why)

    async def _address_conflict(self, session: zab.Session, watch: zab.Watch | None) -> str | None:
        """Describe another broker's registration that has an address of this broker. Return None if there is none.

        A registration that an earlier session of this broker made under another id is ignored.
        """
        mine = {(each.host, each.port) for each in self.broker.endpoints}
        try:
            names = await session.children(znodes.BROKERS, watch)
        except zab.NoNode:
            return None
        for ident in (BrokerId(number) for name in names if (number := decimal(name)) is not None):
            if ident == self.broker.id:
                continue
            try:
                data, stat = await session.get(znodes.broker_path(ident))
                other = znodes.read_broker(ident, data, BrokerEpoch(stat.czxid))
            except (zab.NoNode, DamagedNode):
                continue
            shared = [each for each in other.endpoints if (each.host, each.port) in mine]
            if shared and stat.ephemeral_owner not in self._former:
                return (
                    f"broker {ident} is registered with {shared[0].host}:{shared[0].port}, which is also an address of "
                    f"broker {self.broker.id}: give each broker its own addresses (advertised.listeners)"
                )
        return None

    async def _id_conflict(self, session: zab.Session) -> str:
        """Describe the process that is registered with this broker's id."""
        ident = self.broker.id
        try:
            data, stat = await session.get(self._path)
            other = znodes.read_broker(ident, data, BrokerEpoch(stat.czxid))
            where = ", ".join(f"{each.listener}://{with_port(each.host, each.port)}" for each in other.endpoints)
        except zab.NoNode:
            return f"broker id {ident} was registered by another session until now"
        except DamagedNode as error:
            where = str(error)
        return (
            f"broker id {ident} is registered by session {stat.ephemeral_owner:#x}, with {where}. If that was this "
            "broker before a crash, the registration disappears when that session expires"
        )


def wrong_with(broker: Broker) -> str | None:
    """Return the reason if this description of a broker is invalid or makes the broker unreachable, else None."""
    if broker.id < 0:
        return f"a broker id must be 0 or greater, not {broker.id}"
    if not broker.endpoints:
        return f"broker {broker.id} has no endpoints"
    names = [each.listener for each in broker.endpoints]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        return f"broker {broker.id}: more than one endpoint for listener {', '.join(twice)}"
    unmapped = sorted(set(names) - set(broker.protocols))
    if unmapped:
        return f"broker {broker.id}: no security protocol for listener {', '.join(unmapped)}"
    for each in broker.endpoints:
        if not each.host or not 0 < each.port < 65_536:
            return f"broker {broker.id}: {each.listener}://{with_port(each.host, each.port)} is not a reachable address"
    return None


# -- before the first registration -------------------------------------------------------------------------


async def prepare(session: zab.Session) -> None:
    """Create the persistent nodes that every broker creates when it starts."""
    for path in znodes.PERSISTENT:
        await session.ensure_path(path)


async def cluster_id(
    session: zab.Session, random_bytes: Callable[[int], bytes], directories: Sequence[Path] = ()
) -> str:
    """Return the cluster id. Create one if the store has none. `directories` are the broker's log directories.

    If the node was lost, a broker that has the id in its directories writes the node again. Raise `WrongIdentity` if
    the store has no id, and one of these is true:

    - The store has a cluster, and the given directories have no common id. A new id would differ from the one
      that other brokers have.
    - The directories have an id, but the store has no cluster. It is probably the wrong store.

    Raise `DamagedNode` if the node exists but cannot be parsed.
    """
    known = known_cluster(directories)
    while True:
        try:
            found = await _stored_cluster_id(session)
        except DamagedNode as damaged:
            raise DamagedNode(f"{damaged}: {_cluster_id_repair(known)}") from None
        if found is not None:
            return found
        await session.ensure_path(znodes.CLUSTER_ID.rpartition("/")[0])
        ident = znodes.new_topic_id(random_bytes) if known is None else known
        was_used = await _was_used(session)
        if directories and known is None and was_used:
            if (found := await _stored_cluster_id(session)) is not None:
                return found  # another broker has created the cluster meanwhile
            raise WrongIdentity(
                f"the store has a cluster, but {znodes.CLUSTER_ID} with its id is missing: first start a broker that "
                "was part of the cluster, because its log directories have the id"
            )
        if known is not None and not was_used:
            raise WrongIdentity(
                f"the log directories belong to cluster {known}, but the store has no cluster: check "
                "that zookeeper.connect names the right store and path"
            )
        try:
            await session.create(znodes.CLUSTER_ID, znodes.cluster_id(ident))
            if known is not None:
                logger.error("%s was missing; wrote it again from the log directories: %s", znodes.CLUSTER_ID, known)
        except (zab.NodeExists, zab.OutcomeUnknown):
            pass  # the next read shows whether the write succeeded


async def _stored_cluster_id(session: zab.Session) -> str | None:
    try:
        return znodes.read_cluster_id((await session.get(znodes.CLUSTER_ID))[0])
    except zab.NoNode:
        return None


def _cluster_id_repair(known: str | None) -> str:
    """Return what to do about a damaged cluster id. `known` is the id in this broker's log directories."""
    if known is None:
        return (
            "delete the node, and first start a broker that was part of the cluster: it writes the id of its log "
            "directories again"
        )
    return f"delete the node, and this broker writes it again with the id of its log directories, {known}"


async def _was_used(session: zab.Session) -> bool:
    """Return whether the store has a cluster: there was a controller, or there are topics."""
    if await session.exists(znodes.CONTROLLER_EPOCH) is not None:
        return True
    try:
        return bool(await session.children(znodes.TOPICS))
    except zab.NoNode:
        return False


async def generated_id(session: zab.Session, reserved_max: int = 1_000) -> BrokerId:
    """Return a new broker id above `reserved_max` (`reserved.broker.max.id`). No id is returned twice, because the id
    is derived from a node version that each call increments."""
    while True:
        try:
            return BrokerId((await session.set(znodes.SEQID, b"")).version + reserved_max)
        except zab.NoNode:
            await session.ensure_path(znodes.SEQID)
        except zab.OutcomeUnknown:
            pass  # the id may be lost, which is harmless
