"""Becoming the controller, changing nodes only while one is, and ceasing to be.

The one node that only one can make and the one number that only its maker counts up are written in one multi, so there
is no controller without an epoch of its own, and no epoch without a controller. Every change that a controller makes
is a multi that begins with a check of that number.

An answer that was lost says nothing of whether the change was made. The node does: if it holds what was to be
written, and nobody else writes such a thing, it was.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from kraft_controller.core.asks import ControllerMoved
from kraft_controller.core.names import BrokerId, ControllerEpoch, Version
from kraft_controller.wire import znodes
from kraft_controller.wire.work import (
    Change,
    Check,
    Children,
    Create,
    Delete,
    Done,
    Exists,
    Failed,
    Get,
    Listing,
    Multi,
    Node,
    Set,
    Sync,
    Why,
    Work,
)

TRIES_MAX: Final = 20
"""Of one change whose answers are lost. Then the session will be over, too."""


class AnswersLost(Exception):
    """Again and again: it is not known what became of a change."""


@frozen
class Elected:
    """This broker is the controller, of this epoch; every change is checked against the version of its node."""

    epoch: ControllerEpoch
    version: Version


@frozen
class Follows:
    """Somebody else is."""

    controller: BrokerId


# -- election ----------------------------------------------------------------------------------------------


def elect(session: int, me: BrokerId, now_ms: int) -> Work[Elected | Follows]:
    """One of the two, and `/controller` is watched. Begins anew for as long as others interfere."""
    while True:
        [there] = yield [Exists(znodes.CONTROLLER, watch=True)]
        if isinstance(there, Node):
            [held] = yield [Get(znodes.CONTROLLER)]
            if not isinstance(held, Node):
                continue
            if held.owner == session:
                # Ours, of an earlier term in this same session: nobody acts on it, so it must go.
                yield [Multi((Delete(znodes.CONTROLLER, held.version),))]
                continue
            return Follows(znodes.read_controller(held.data))
        epoch, version = yield from _epoch()
        counted = znodes.controller_epoch(ControllerEpoch(epoch + 1))
        [outcome] = yield [
            Multi(
                (
                    Create(znodes.CONTROLLER, znodes.controller(me, now_ms), ephemeral=True),
                    Set(znodes.CONTROLLER_EPOCH, counted, version),
                )
            )
        ]
        if isinstance(outcome, Done):
            return Elected(ControllerEpoch(epoch + 1), Version(version + 1))
        if isinstance(outcome, Failed) and outcome.why is Why.UNKNOWN:
            yield [Sync(znodes.CONTROLLER)]
            [there] = yield [Exists(znodes.CONTROLLER, watch=True)]
            now, after = yield from _epoch()
            if isinstance(there, Node) and there.owner == session and now == epoch + 1:
                return Elected(now, after)


def resign(elected: Elected) -> Work[None]:
    """Let others have a try: the node goes, if this is still the controller of that epoch."""
    yield [Multi((Check(znodes.CONTROLLER_EPOCH, elected.version), Delete(znodes.CONTROLLER)))]


def _epoch() -> Work[tuple[ControllerEpoch, Version]]:
    while True:
        [found] = yield [Get(znodes.CONTROLLER_EPOCH)]
        if isinstance(found, Node):
            return znodes.read_controller_epoch(found.data), found.version
        yield [Multi((Create(znodes.CONTROLLER_EPOCH, znodes.controller_epoch(ControllerEpoch(0))),))]


# -- what only a controller may change ---------------------------------------------------------------------


class Fence:
    """`version` is that of `/controller_epoch`, since this controller was elected."""

    def __init__(self, version: Version) -> None:
        self._check = Check(znodes.CONTROLLER_EPOCH, version)

    def change(self, *changes: Change) -> Work[Done | Failed]:
        """All of them, or none; places are counted without the check. `ControllerMoved` if another one is."""
        [outcome] = yield [Multi((self._check, *changes))]
        if isinstance(outcome, Done):
            return Done(outcome.versions[1:])
        assert isinstance(outcome, Failed)
        if outcome.why is Why.UNKNOWN:
            return outcome
        if outcome.part == 0:
            raise ControllerMoved("another broker is the controller")
        return Failed(outcome.why, outcome.part - 1)

    def set(self, path: str, data: bytes, expect: Version) -> Work[Version | Failed]:
        """The version afterwards, or why not."""
        for _ in range(TRIES_MAX):
            outcome = yield from self.change(Set(path, data, expect))
            if isinstance(outcome, Done):
                [version] = outcome.versions
                assert version is not None
                return version
            if outcome.why is not Why.UNKNOWN:
                return outcome
            [found] = yield from synced(path)
            if not isinstance(found, Node):
                return Failed(Why.NO_NODE)
            if found.data == data and found.version == expect + 1:
                return found.version
            if found.version != expect:
                return Failed(Why.BAD_VERSION)
        raise AnswersLost(path)

    def raise_epoch(self, to: ControllerEpoch) -> Work[Version | Failed]:
        """The fence falls with it: whoever stood behind it is deposed."""
        return (yield from self.set(znodes.CONTROLLER_EPOCH, znodes.controller_epoch(to), self._check.version))

    def create(self, *nodes: Create) -> Work[Why | None]:
        """All of them, or none. None: they are there, and are ours."""
        for _ in range(TRIES_MAX):
            outcome = yield from self.change(*nodes)
            if isinstance(outcome, Done):
                return None
            if outcome.why is not Why.UNKNOWN:
                return outcome.why
            [found] = yield from synced(nodes[-1].path)
            if isinstance(found, Node):
                return None if found.data == nodes[-1].data else Why.EXISTS
        raise AnswersLost(nodes[-1].path)

    def delete(self, *paths: str) -> Work[None]:
        """One after the other, deepest first. What is not there need not go."""
        for path in paths:
            yield from self._delete(path)

    def delete_tree(self, path: str) -> Work[bool]:
        """With all that is below it, also what comes there meanwhile. False: again and again something came."""
        for _ in range(TRIES_MAX):
            [found] = yield [Children(path)]
            for name in found.names if isinstance(found, Listing) else ():
                if not (yield from self.delete_tree(f"{path}/{name}")):
                    return False
            if (yield from self._delete(path)) is not Why.NOT_EMPTY:
                return True
        return False

    def _delete(self, path: str) -> Work[Why | None]:
        """None: it is gone."""
        for _ in range(TRIES_MAX):
            outcome = yield from self.change(Delete(path))
            if isinstance(outcome, Done):
                return None
            if outcome.why is not Why.UNKNOWN:
                return outcome.why
        raise AnswersLost(path)


def synced(*paths: str) -> Work[list[Node | Failed]]:
    """What these nodes hold behind everything that was decided before."""
    yield [Sync(paths[0])]
    found = yield [Get(path) for path in paths]
    return [each for each in found if isinstance(each, Node | Failed)]
