"""The election of the controller at `/controller` (KafkaZkClient.registerControllerAndIncrementControllerEpoch).

One multi creates the ephemeral node, which only one broker can create, and increments the controller epoch. So each
controller has its own epoch, and each epoch has one controller.
"""

from __future__ import annotations

from kraft_controller.core.candidacy import Elected, ElectionBlocked, ElectionResult, Follows
from kraft_controller.core.names import BrokerId, ControllerEpoch, Version
from kraft_controller.core.store_requests import (
    Check,
    Create,
    Delete,
    Done,
    Exists,
    Failed,
    Get,
    Multi,
    Node,
    Set,
    StoreRequests,
    Sync,
    Why,
)
from kraft_controller.wire import znodes
from kraft_controller.wire.znodes import DamagedNode


def stand(session: int, me: BrokerId, now_ms: int) -> StoreRequests[ElectionResult]:
    """Stand for election and watch `/controller`. Return `ElectionBlocked` if a node cannot be parsed."""
    try:
        return (yield from elect(session, me, now_ms))
    except DamagedNode as damaged:
        return ElectionBlocked(str(damaged))


def elect(session: int, me: BrokerId, now_ms: int) -> StoreRequests[Elected | Follows]:
    """Create `/controller`, or read its owner. Repeat if another broker interferes.

    If the reply to the creation is lost, the owner of the node and the epoch show whether it was applied.
    """
    while True:
        [there] = yield [Exists(znodes.CONTROLLER, watch=True)]
        if isinstance(there, Node):
            [held] = yield [Get(znodes.CONTROLLER)]
            if not isinstance(held, Node):
                continue
            if held.owner == session:
                # This session created the node in an earlier term, which has ended (KAFKA-13407).
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


def verify(session: int) -> StoreRequests[bool]:
    """Return whether `/controller` belongs to this session, and watch it."""
    [there] = yield [Exists(znodes.CONTROLLER, watch=True)]
    return isinstance(there, Node) and there.owner == session


def resign(elected: Elected) -> StoreRequests[None]:
    """Delete `/controller`, unless the controller epoch was incremented after this election."""
    yield [Multi((Check(znodes.CONTROLLER_EPOCH, elected.version), Delete(znodes.CONTROLLER)))]


def _epoch() -> StoreRequests[tuple[ControllerEpoch, Version]]:
    """Read the controller epoch. If its node does not exist, create it with epoch 0."""
    while True:
        [found] = yield [Get(znodes.CONTROLLER_EPOCH)]
        if isinstance(found, Node):
            return znodes.read_controller_epoch(found.data), found.version
        yield [Multi((Create(znodes.CONTROLLER_EPOCH, znodes.controller_epoch(ControllerEpoch(0))),))]
