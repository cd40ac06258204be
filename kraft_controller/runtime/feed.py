"""A broker's ear for configurations: all that is said of topics, brokers, clients and users, and every change of it.

Whoever changes something leaves a note with a number. All that is configured is read once at the beginning, then what
the notes name, in their order. With a new session it begins anew, so nothing is missed that was said in between.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import trio

import zab
from kraft_controller.runtime.admin.configs import Entity, entities, read_configs
from kraft_controller.runtime.together import together
from kraft_controller.wire import znodes
from kraft_controller.wire.znodes import DamagedNode

logger: Final = logging.getLogger("kraft_controller")

KINDS: Final = ("brokers", "topics", "clients", "users", "ips")

NOTE_S: Final = 100e-6
"""The pause before notes are listed again, for each of them."""

Apply = Callable[[Entity, Mapping[str, str]], None]
"""All that is said of somebody from now on; empty: nothing any more. What it means is `core.configs.values_of`."""


class ConfigFeed:
    """`apply` is called only where something is different from what it was told last, over all sessions; for whoever is
    wanted, also when nothing is said."""

    def __init__(self, apply: Apply, kinds: Sequence[str] = KINDS) -> None:
        self._apply = apply
        self._kinds = kinds
        self._known: dict[Entity, Mapping[str, str]] = {}
        self._wanted: dict[Entity, None] = {}
        self._bell = trio.Event()

    def want(self, entity: Entity) -> None:
        """Read it in a moment, whether or not there is a note: somebody may have written there without leaving one."""
        self._wanted[entity] = None
        self._bell.set()

    def forget(self, entity: Entity) -> None:
        """There is nobody of that name any more; whoever comes next may say the same anew."""
        self._known.pop(entity, None)
        self._wanted.pop(entity, None)

    async def run(self, session: zab.Session, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """For as long as the session lasts. Started when all that is configured has been applied."""
        await session.ensure_path(znodes.CONFIG_CHANGES)
        async with session.watcher() as heard, trio.open_nursery() as nursery:
            # The watch before the reading: what changes from here on leaves a note that is seen.
            of, notes = await self._notes(session, heard)
            seen = max((number for number, _ in notes), default=-1)
            await self._read_all(session)
            task_status.started()
            nursery.start_soon(self._read_wanted, session)
            while True:
                before = of
                of, notes = await self._notes(session, heard)
                if of != before:
                    logger.warning("%s was removed and made again: everything is read anew", znodes.CONFIG_CHANGES)
                    await self._read_all(session)
                    seen = max((number for number, _ in notes), default=-1)
                await self._follow(session, [path for number, path in notes if number > seen])
                seen = max((seen, *(number for number, _ in notes)))
                await anext(heard)
                await let_gather(len(notes))

    async def _read_wanted(self, session: zab.Session) -> None:
        while True:
            while not self._wanted:
                self._bell = trio.Event()
                await self._bell.wait()
            wanted = list(self._wanted)
            await self._read(session, wanted)  # if the session ends meanwhile they are still wanted in the next one

    @staticmethod
    async def _notes(session: zab.Session, heard: zab.Watch) -> tuple[int, list[tuple[int, str]]]:
        """And the zxid that made the node they are below. If somebody removes that, another one counts anew."""
        while True:
            above = await session.exists(znodes.CONFIG_CHANGES)
            try:
                names = await session.children(znodes.CONFIG_CHANGES, heard)
            except zab.NoNode:
                await session.ensure_path(znodes.CONFIG_CHANGES)
                continue
            if above is not None:
                break
        paths = [f"{znodes.CONFIG_CHANGES}/{name}" for name in names]
        return above.czxid, sorted((number, path) for path in paths if (number := znodes.sequence_of(path)) is not None)

    async def _read_all(self, session: zab.Session) -> None:
        listed = await together([partial(entities, session, kind) for kind in self._kinds])
        there = [entity for some in listed for entity in some]
        await self._read(session, there)
        for entity in [entity for entity in self._known if entity not in set(there)]:
            self._tell(entity, {})

    async def _follow(self, session: zab.Session, paths: Sequence[str]) -> None:
        named: dict[Entity, None] = {}
        for path, found in zip(paths, await together([partial(_get, session, path) for path in paths]), strict=True):
            if found is None:
                await self._read_all(session)  # it was old enough to go, and nobody can say any more of whom it was
                return
            try:
                entity = Entity(znodes.read_config_change(path, found[0]))
            except DamagedNode as damaged:
                logger.error("damaged why=%s", damaged)
                continue
            if entity.path.partition("/")[0] in self._kinds:
                named[entity] = None
        await self._read(session, list(named))

    async def _read(self, session: zab.Session, some: Sequence[Entity]) -> None:
        for entity, found in (await read_configs(session, some)).items():
            if isinstance(found, DamagedNode):
                logger.error("damaged why=%s", found)  # what was said before stays in force
                self._wanted.pop(entity, None)
            else:
                self._tell(entity, found)

    def _tell(self, entity: Entity, said: Mapping[str, str]) -> None:
        wanted = entity in self._wanted
        self._wanted.pop(entity, None)
        if said == self._known.get(entity, {}) and not wanted:
            return
        if said:
            self._known[entity] = said
        else:
            self._known.pop(entity, None)
        try:
            self._apply(entity, said)
        except Exception:
            # One configuration that cannot be applied must not keep a broker from hearing of others, nor end it.
            logger.exception("the configuration of %s is not applied", entity.path)


async def let_gather(notes: int) -> None:
    """Let changes gather before all notes are listed again. Notes stay for minutes, so one listing for each change
    would cost a burst of n changes n * n notes."""
    await trio.sleep(notes * NOTE_S)


async def _get(session: zab.Session, path: str) -> tuple[bytes | None, zab.Stat] | None:
    try:
        return await session.get(path)
    except zab.NoNode:
        return None


async def sweep(session: zab.Session, now_ms: int, keep_ms: int) -> int:
    """Remove notes that every broker has had time to see. Returns how many."""
    try:
        paths = [f"{znodes.CONFIG_CHANGES}/{name}" for name in await session.children(znodes.CONFIG_CHANGES)]
    except zab.NoNode:
        return 0
    stats = await together([partial(session.exists, path) for path in paths])
    old = [path for path, stat in zip(paths, stats, strict=True) if stat is not None and stat.ctime < now_ms - keep_ms]
    await together([partial(_delete, session, path) for path in old])
    return len(old)


async def _delete(session: zab.Session, path: str) -> None:
    try:
        await session.delete(path)
    except (zab.NoNode, zab.OutcomeUnknown):
        pass  # it is gone, or goes the next time
