"""Changes that are made only by who is the controller: each is one multi with a check of `/controller_epoch`.

An answer that was lost says nothing of whether the change was made. The node does: if it holds what was to be
written, and nobody else writes such a thing, it was.
"""

from __future__ import annotations

from typing import Final

import zab
from kraft_controller.core.asks import ControllerMoved
from kraft_controller.core.names import Version
from kraft_controller.wire.znodes import CONTROLLER_EPOCH

TRIES_MAX: Final = 20
"""Of one change whose answers are lost. Then the session will be over, too."""


class Fenced:
    def __init__(self, session: zab.Session, version: Version) -> None:
        self._session = session
        self._version = version
        """Of `/controller_epoch`, since this controller was elected."""

    async def set(self, path: str, data: bytes, expect: Version) -> Version | None:
        """The version afterwards; None if the node was at another. `zab.NoNode` if there is none."""
        for _ in range(TRIES_MAX):
            try:
                [stat] = await self._multi(self._checked().set(path, data, version=expect))
            except zab.BadVersion:
                return None
            except zab.OutcomeUnknown:
                await self._session.sync(path)
                held, there = await self._session.get(path)
                if held == data and there.version == expect + 1:
                    return Version(there.version)
                if there.version != expect:
                    return None
                continue
            assert isinstance(stat, zab.Stat)
            return Version(stat.version)
        raise zab.OutcomeUnknown(f"{path}: {TRIES_MAX} answers were lost")

    async def create(self, *nodes: tuple[str, bytes | None]) -> bool:
        """All of them, or none: False if one of them is there already. `zab.NoNode` if there is nothing above."""
        for _ in range(TRIES_MAX):
            multi = self._checked()
            for path, data in nodes:
                multi.create(path, data)
            try:
                await self._multi(multi)
            except zab.NodeExists:
                return False
            except zab.OutcomeUnknown:
                path, data = nodes[-1]
                await self._session.sync(path)
                try:
                    held, _ = await self._session.get(path)
                except zab.NoNode:
                    continue
                return held == data
            return True
        raise zab.OutcomeUnknown(f"{nodes[-1][0]}: {TRIES_MAX} answers were lost")

    async def delete(self, *paths: str) -> None:
        """One after the other, deepest first. What is not there need not go."""
        for path in paths:
            for _ in range(TRIES_MAX):
                try:
                    await self._multi(self._checked().delete(path))
                except zab.OutcomeUnknown:
                    continue
                except zab.NoNode:
                    pass
                break

    async def delete_tree(self, path: str) -> None:
        try:
            below = await self._session.children(path)
        except zab.NoNode:
            return
        for name in below:
            await self.delete_tree(f"{path}/{name}")
        await self.delete(path)

    def _checked(self) -> zab.Multi:
        return zab.Multi().check(CONTROLLER_EPOCH, self._version)

    async def _multi(self, multi: zab.Multi) -> list[str | zab.Stat | None]:
        """What each did, without the check, which is operation 0."""
        try:
            return (await self._session.multi(multi))[1:]
        except (zab.BadVersion, zab.NoNode) as error:
            if error.index == 0:
                raise ControllerMoved("another broker is the controller") from error
            raise
