"""The dynamic configurations, as a broker follows them (ZkConfigManager in Apache Kafka).

Every change of a configuration creates a numbered notification. A broker first reads all configurations, then those
that the notifications name, in order. It starts again with each session, so no change between sessions is missed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import trio

import zab
from kraft_controller.runtime.admin.entity_configs import Entity, entities, read_configs
from kraft_controller.runtime.bounded_requests import run_bounded
from kraft_controller.wire import znodes
from kraft_controller.wire.znodes import DamagedNode

logger: Final = logging.getLogger("kraft_controller")

KINDS: Final = ("brokers", "topics", "clients", "users", "ips")

NOTE_S: Final = 100e-6
"""The pause before the next listing of the notifications, for each notification in the previous listing."""

Apply = Callable[[Entity, Mapping[str, str]], None]
"""Applies the complete configuration of an entity. The mapping is empty if no key is set."""


class ConfigFeed:
    """Applies configurations, across all store sessions of a broker.

    A configuration is applied if it differs from the last one of its entity, and always after `want` and after a
    failure.
    """

    def __init__(self, apply: Apply, kinds: Sequence[str] = KINDS) -> None:
        self._apply = apply
        self._kinds = kinds
        """The entity types to follow."""
        self._known: dict[Entity, Mapping[str, str]] = {}
        """The last configuration of each entity; empty ones are left out."""
        self._failed: set[Entity] = set()
        """Entities whose last configuration could not be applied."""
        self._wanted: dict[Entity, None] = {}
        """Entities to read even without a notification."""
        self._bell = trio.Event()
        """Set when `_wanted` gains an entity."""

    def want(self, entity: Entity) -> None:
        """Read an entity's configuration soon, even without a notification, and apply it even if it is unchanged."""
        self._wanted[entity] = None
        self._bell.set()

    def forget(self, entity: Entity) -> None:
        """Forget a deleted entity: a new entity of the same name may have the same configuration, which must be
        applied."""
        self._known.pop(entity, None)
        self._failed.discard(entity)
        self._wanted.pop(entity, None)

    async def run(self, session: zab.Session, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow changes while the session lasts. Reports the start when all configurations have been applied."""
        await session.ensure_path(znodes.CONFIG_CHANGES)
        async with session.watcher() as watch, trio.open_nursery() as nursery:
            # The watch is set before the first read, so every later change triggers it.
            of, notes = await self._notes(session, watch)
            seen = max((number for number, _ in notes), default=-1)
            await self._read_all(session)
            task_status.started()
            nursery.start_soon(self._read_wanted, session)
            while True:
                before = of
                of, notes = await self._notes(session, watch)
                if of != before:
                    logger.warning("%s was re-created: reading all configurations", znodes.CONFIG_CHANGES)
                    await self._read_all(session)
                    seen = max((number for number, _ in notes), default=-1)
                await self._follow(session, [path for number, path in notes if number > seen])
                seen = max((seen, *(number for number, _ in notes)))
                await anext(watch)
                await let_gather(len(notes))

    async def _read_wanted(self, session: zab.Session) -> None:
        while True:
            while not self._wanted:
                self._bell = trio.Event()
                await self._bell.wait()
            wanted = list(self._wanted)
            await self._read(session, wanted)  # after a failure they stay in `_wanted`, for the next session

    @staticmethod
    async def _notes(session: zab.Session, watch: zab.Watch) -> tuple[int, list[tuple[int, str]]]:
        """Return the notifications in order, and the zxid that created their parent.

        If the parent is re-created, the numbers start from 0 again.
        """
        while True:
            parent = await session.exists(znodes.CONFIG_CHANGES)
            try:
                names = await session.children(znodes.CONFIG_CHANGES, watch)
            except zab.NoNode:
                await session.ensure_path(znodes.CONFIG_CHANGES)
                continue
            if parent is not None:
                break
        return parent.czxid, znodes.in_sequence(znodes.CONFIG_CHANGES, names)

    async def _read_all(self, session: zab.Session) -> None:
        listed = await run_bounded([partial(entities, session, kind) for kind in self._kinds])
        there = [entity for some in listed for entity in some]
        await self._read(session, there)
        for entity in [entity for entity in self._known if entity not in set(there)]:
            self._take(entity, {})

    async def _follow(self, session: zab.Session, paths: Sequence[str]) -> None:
        """Read the configurations that notifications name; read all if a notification was already deleted."""
        named: dict[Entity, None] = {}
        found = await run_bounded([partial(_get, session, path) for path in paths])
        for path, note in zip(paths, found, strict=True):
            if note is None:
                await self._read_all(session)
                return
            try:
                entity = Entity(znodes.read_config_change(path, note[0]))
            except DamagedNode as damaged:
                logger.error("damaged why=%s", damaged)
                continue
            if entity.path.partition("/")[0] in self._kinds:
                named[entity] = None
        await self._read(session, list(named))

    async def _read(self, session: zab.Session, some: Sequence[Entity]) -> None:
        for entity, found in (await read_configs(session, some)).items():
            if isinstance(found, DamagedNode):
                logger.error("damaged why=%s", found)  # the former configuration stays in force
                self._wanted.pop(entity, None)
            else:
                self._take(entity, found)

    def _take(self, entity: Entity, values: Mapping[str, str]) -> None:
        due = entity in self._wanted or entity in self._failed
        self._wanted.pop(entity, None)
        if values == self._known.get(entity, {}) and not due:
            return
        self._failed.discard(entity)
        if values:
            self._known[entity] = values
        else:
            self._known.pop(entity, None)
        try:
            self._apply(entity, values)
        except Exception:
            # A configuration that cannot be applied must neither stop the broker nor block other configurations.
            self._failed.add(entity)
            logger.exception("failed to apply the configuration of %s", entity.path)


async def let_gather(notes: int) -> None:
    """Wait for further changes before listing all notifications again.

    Each listing contains all notifications of the last minutes. If each of n changes in a burst caused a listing, these
    would contain about n * n / 2 entries in total.
    """
    await trio.sleep(notes * NOTE_S)


async def _get(session: zab.Session, path: str) -> tuple[bytes | None, zab.Stat] | None:
    try:
        return await session.get(path)
    except zab.NoNode:
        return None


async def delete_old_notes(session: zab.Session, now_ms: int, keep_ms: int) -> int:
    """Delete notifications that are older than `keep_ms`. Return their number."""
    try:
        paths = [f"{znodes.CONFIG_CHANGES}/{name}" for name in await session.children(znodes.CONFIG_CHANGES)]
    except zab.NoNode:
        return 0
    stats = await run_bounded([partial(session.exists, path) for path in paths])
    old = [path for path, stat in zip(paths, stats, strict=True) if stat is not None and stat.ctime < now_ms - keep_ms]
    await run_bounded([partial(_delete, session, path) for path in old])
    return len(old)


async def _delete(session: zab.Session, path: str) -> None:
    try:
        await session.delete(path)
    except (zab.NoNode, zab.OutcomeUnknown):
        pass  # deleted already, or deleted in the next round
