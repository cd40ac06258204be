"""A broker is there for as long as it has a session with the store: its node lasts as long as the session.

The zxid that made the node is the broker's epoch. Another life has another one, so what was meant for a life that is
over can be told from what is meant for this one, also when nobody saw that the broker was gone in between.
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
from kraft_controller.core.names import BrokerEpoch, BrokerId, decimal
from kraft_controller.core.state import Broker
from kraft_controller.runtime.identity import WrongIdentity, known_cluster
from kraft_controller.runtime.orders import UNREGISTERED
from kraft_controller.runtime.together import sole
from kraft_controller.wire import znodes
from kraft_controller.wire.znodes import DamagedNode

logger: Final = logging.getLogger("kraft_controller")

NO_EPOCH: Final = BrokerEpoch(-1)
"""Of a broker that has not been registered yet. Every epoch is greater."""


class BrokerIdTaken(Exception):
    """Another process is registered under this id. Two brokers of one id would overwrite each other's logs' fate."""


class AddressTaken(BrokerIdTaken):
    """Another broker is registered with an address of this one. What is said to one of them would reach the other."""


@frozen
class RegistrationSettings:
    """taken_s  how long a node of somebody else is waited for to go: a broker that was killed and started again finds
             its own of before, which stays until that session's time is up
    pause_s  between sessions, while the store cannot be reached
    """

    taken_s: float = 60.0
    pause_s: float = 1.0


Live = Callable[[zab.Session], Awaitable[None]]
"""What a broker does at the store while one session lasts."""


class Registration:
    """Of one broker, session after session.

    broker    as it describes itself; its epoch is not looked at
    now_ms    the clock on the wall, for the node
    former    ids of sessions that were this broker's, before this process began: a node of theirs is a ghost
    remember  is told the id of each session of this process, to be `former` for the next
    """

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
        self.broker = evolve(broker, epoch=NO_EPOCH)
        """With the epoch of its newest life."""
        self.session: zab.Session | None = None
        """The one that lasts, while one does."""
        self._open = open_session
        self._now_ms = now_ms
        self._former = set(former)
        self._remember = remember
        self._settings = settings or RegistrationSettings()
        self._path = znodes.broker_path(broker.id)
        self._least = UNREGISTERED

    @property
    def epoch(self) -> BrokerEpoch:
        return self.broker.epoch

    @property
    def obeys_from(self) -> BrokerEpoch:
        """Commands for an older life than this are not for this process: see `UNREGISTERED`."""
        return self._least if self.epoch == NO_EPOCH else self.epoch

    # -- for as long as the broker runs --------------------------------------------------------------------

    async def run(self, live: Live, *, task_status: trio.TaskStatus[BrokerEpoch] = trio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled: a session, the node in it, and `live` beside it; all of it anew when the session is lost.

        Started when the broker is registered for the first time. Until then a store that cannot be reached is an error;
        afterwards it is waited for.
        """
        while True:
            lived = False
            try:
                async with self._open() as session:
                    await self._register(session)
                    lived = True
                    task_status.started(self.epoch)
                    task_status = trio.TASK_STATUS_IGNORED
                    await self._life(session, live)
            except zab.AuthFailed:
                raise
            except zab.ZabError as error:
                if self.epoch == NO_EPOCH:
                    raise
                logger.warning("broker %d is without a session: %s", self.broker.id, error)
            if not lived:
                await trio.sleep(self._settings.pause_s)

    async def _life(self, session: zab.Session, live: Live) -> None:
        """Ends with the session. An error of `live` that has another cause is raised."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(live, session)
                nursery.start_soon(self._keep, session)
                async for state in session.states():
                    if state.final:
                        break
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            error = sole(group)
            if session.over is None or not isinstance(error, zab.ZabError):
                raise error from None
        logger.warning("broker %d has lost its session: %s", self.broker.id, session.over)

    async def _keep(self, session: zab.Session) -> None:
        """Somebody may remove the node by hand. Then the controller takes the broker for dead, so it comes back."""
        async with session.watcher() as heard:
            while True:
                stat = await session.exists(self._path, heard)
                if stat is None or stat.ephemeral_owner != session.id:
                    logger.warning("broker %d: its node is gone, and its session is not", self.broker.id)
                    await self._register(session)
                    continue
                await anext(heard)

    async def update(self, broker: Broker) -> None:
        """It says something else of itself, and lives on: the epoch stays."""
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
        if self._least == UNREGISTERED:
            await session.ensure_path(znodes.BROKERS)
            await session.sync(znodes.BROKERS)
            above = await session.exists(znodes.BROKERS)
            assert above is not None
            self._least = BrokerEpoch(above.pzxid + 1)
        with trio.move_on_after(self._settings.taken_s):
            async with session.watcher() as heard:
                while True:
                    epoch = await self._try(session, heard)
                    if epoch is not None:
                        self.broker = evolve(self.broker, epoch=epoch)
                        logger.info("broker %d is registered with epoch %d", self.broker.id, epoch)
                        return
        other = await self._who_has_my_address(session, None)
        if other is not None:
            raise AddressTaken(other)
        raise BrokerIdTaken(await self._why_taken(session))

    async def _try(self, session: zab.Session, heard: zab.Watch) -> BrokerEpoch | None:
        """The epoch; None if something has changed, and it is time for another try."""
        stat = await session.exists(self._path, heard)
        multi = zab.Multi()
        if stat is not None:
            if stat.ephemeral_owner == session.id:
                return BrokerEpoch(stat.czxid)  # an answer was lost
            if stat.ephemeral_owner not in self._former:
                self._waits(await self._why_taken(session))
                await anext(heard)
                return None
            multi.delete(self._path, version=stat.version)
        other = await self._who_has_my_address(session, heard)
        if other is not None:
            self._waits(other)
            await anext(heard)
            return None
        # A node that was made and then written, as Kafka's: its data version is 1.
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

    def _waits(self, why: str) -> None:
        logger.warning("broker %d waits, for %g s at most: %s", self.broker.id, self._settings.taken_s, why)

    async def _who_has_my_address(self, session: zab.Session, heard: zab.Watch | None) -> str | None:
        """Of the others who are registered. What a session of this process, or of those before it, has left behind
        under another id is a ghost, and goes."""
        mine = {(each.host, each.port) for each in self.broker.endpoints}
        try:
            names = await session.children(znodes.BROKERS, heard)
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
                    f"broker {ident} is registered with {shared[0].host}:{shared[0].port}, which broker "
                    f"{self.broker.id} says of itself, too: each broker has addresses of its own (advertised.listeners)"
                )
        return None

    async def _why_taken(self, session: zab.Session) -> str:
        ident = self.broker.id
        try:
            data, stat = await session.get(self._path)
            other = znodes.read_broker(ident, data, BrokerEpoch(stat.czxid))
            where = ", ".join(f"{each.listener}://{each.host}:{each.port}" for each in other.endpoints)
        except zab.NoNode:
            return f"broker id {ident} was taken"
        except DamagedNode as error:
            where = str(error)
        return (
            f"broker id {ident} is registered by session {stat.ephemeral_owner:#x}, with {where}. If that is no other "
            "broker but this one before it died, its node goes when that session's time is up"
        )


def wrong_with(broker: Broker) -> str | None:
    """Why nobody could talk to a broker of this description."""
    if broker.id < 0:
        return f"a broker's id is 0 or greater, not {broker.id}"
    if not broker.endpoints:
        return f"broker {broker.id} has no endpoints: nobody could talk to it"
    names = [each.listener for each in broker.endpoints]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        return f"broker {broker.id}: more than one endpoint for listener {', '.join(twice)}"
    silent = sorted(set(names) - set(broker.protocols))
    if silent:
        return f"broker {broker.id}: no security protocol for listener {', '.join(silent)}"
    for each in broker.endpoints:
        if not each.host or not 0 < each.port < 65_536:
            return f"broker {broker.id}: {each.listener}://{each.host}:{each.port} cannot be dialled"
    return None


# -- what comes before -----------------------------------------------------------------------------------


async def prepare(session: zab.Session) -> None:
    """Make what every broker makes when it starts, where it is not there yet."""
    for path in znodes.PERSISTENT:
        await session.ensure_path(path)


async def cluster_id(
    session: zab.Session, random_bytes: Callable[[int], bytes], directories: Sequence[Path] = ()
) -> str:
    """The cluster's own name, drawn by whoever asks first. `directories`: those of a broker's logs, which say it, too.

    If the node was lost, that is its name again: what brokers keep is of that cluster, and they refuse another one. So
    who does not know it draws none then; and a store in which there has never been a cluster is more likely another's
    than one that lost it. Both are `WrongIdentity`.
    """
    known = known_cluster(directories)
    while True:
        if (found := await _name_in(session)) is not None:
            return found
        await session.ensure_path(znodes.CLUSTER_ID.rpartition("/")[0])
        name = znodes.new_topic_id(random_bytes) if known is None else known
        was_used = await _was_used(session)
        if directories and known is None and was_used:
            if (found := await _name_in(session)) is not None:
                return found  # the cluster has begun since it was looked for
            raise WrongIdentity(
                f"there is a cluster in the store, and {znodes.CLUSTER_ID}, which says its name, is gone: start a "
                "broker first that was part of it, and so knows the name"
            )
        if known is not None and not was_used:
            raise WrongIdentity(
                f"the log directories belong to cluster {known}, and there is none in the store: is zookeeper.connect "
                "another store's, or another path in it?"
            )
        try:
            await session.create(znodes.CLUSTER_ID, znodes.cluster_id(name))
            if known is not None:
                logger.error("%s was not there: written again as this broker knows it, %s", znodes.CLUSTER_ID, known)
        except (zab.NodeExists, zab.OutcomeUnknown):
            pass  # it is read now, whoever made it


async def _name_in(session: zab.Session) -> str | None:
    try:
        return znodes.read_cluster_id((await session.get(znodes.CLUSTER_ID))[0])
    except zab.NoNode:
        return None


async def _was_used(session: zab.Session) -> bool:
    """There has been a controller, or there are topics."""
    if await session.exists(znodes.CONTROLLER_EPOCH) is not None:
        return True
    try:
        return bool(await session.children(znodes.TOPICS))
    except zab.NoNode:
        return False


async def generated_id(session: zab.Session, reserved_max: int = 1_000) -> BrokerId:
    """For a broker that was given none. Greater than `reserved.broker.max.id`; each is handed out once."""
    while True:
        try:
            return BrokerId((await session.set(znodes.SEQID, b"")).version + reserved_max)
        except zab.NoNode:
            await session.ensure_path(znodes.SEQID)
        except zab.OutcomeUnknown:
            pass  # the number may be lost: there are enough
