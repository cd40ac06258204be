"""Becoming the controller: the one node that only one can make, and the one number that only its maker counts up.

Both are written in one multi, so there is no controller without an epoch of its own, and no epoch without a controller.
"""

from __future__ import annotations

from attrs import frozen

import zab
from kraft_controller.core.names import BrokerId, ControllerEpoch, Version
from kraft_controller.wire import znodes


@frozen
class Elected:
    """This broker is the controller, of this epoch; every change is checked against the version of its node."""

    epoch: ControllerEpoch
    version: Version


@frozen
class Follows:
    """Somebody else is."""

    controller: BrokerId


async def elect(session: zab.Session, me: BrokerId, now_ms: int, watch: zab.Watch) -> Elected | Follows:
    """One of the two, and `watch` hears when `/controller` changes. Begins anew for as long as others interfere."""
    while True:
        stat = await session.exists(znodes.CONTROLLER, watch)
        if stat is not None:
            try:
                data, stat = await session.get(znodes.CONTROLLER)
            except zab.NoNode:
                continue
            if stat.ephemeral_owner == session.id:
                # Ours, of an earlier term in this same session: nobody acts on it, so it must go.
                await _remove(session, stat.version)
                continue
            return Follows(znodes.read_controller(data))
        epoch, version = await _epoch(session)
        node = znodes.controller(me, now_ms)
        multi = zab.Multi().create(znodes.CONTROLLER, node, ephemeral=True)
        multi.set(znodes.CONTROLLER_EPOCH, znodes.controller_epoch(ControllerEpoch(epoch + 1)), version=version)
        try:
            await session.multi(multi)
        except (zab.NodeExists, zab.BadVersion, zab.NoNode):
            continue
        except zab.OutcomeUnknown:
            await session.sync()
            held = await session.exists(znodes.CONTROLLER)
            now, after = await _epoch(session)
            if held is None or held.ephemeral_owner != session.id or now != epoch + 1:
                continue
            return Elected(now, after)
        return Elected(ControllerEpoch(epoch + 1), Version(version + 1))


async def resign(session: zab.Session, elected: Elected) -> None:
    """Let others have a try: the node goes, if this is still the controller of that epoch."""
    multi = zab.Multi().check(znodes.CONTROLLER_EPOCH, elected.version).delete(znodes.CONTROLLER)
    try:
        await session.multi(multi)
    except (zab.NoNode, zab.BadVersion, zab.OutcomeUnknown):
        pass  # it is gone, or another's; or the session will end, and the node with it


async def _epoch(session: zab.Session) -> tuple[ControllerEpoch, Version]:
    while True:
        try:
            data, stat = await session.get(znodes.CONTROLLER_EPOCH)
            return znodes.read_controller_epoch(data), Version(stat.version)
        except zab.NoNode:
            try:
                await session.create(znodes.CONTROLLER_EPOCH, znodes.controller_epoch(ControllerEpoch(0)))
            except (zab.NodeExists, zab.OutcomeUnknown):
                pass


async def _remove(session: zab.Session, version: int) -> None:
    try:
        await session.delete(znodes.CONTROLLER, version)
    except (zab.NoNode, zab.BadVersion, zab.OutcomeUnknown):
        pass
