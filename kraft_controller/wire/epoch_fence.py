"""The controller epoch fence: a controller's writes are refused once another controller is elected (KAFKA-6082).

Every write of a controller is a multi that begins with a check of the version of `/controller_epoch`. If the reply to
a write or a creation is lost, the node is read. The change counts as applied if the node has the written value and,
after a write, the next version. If another controller made the same change instead, the next write of this controller
fails. A deletion whose reply is lost is repeated.
"""

from __future__ import annotations

from collections.abc import Sequence

from kraft_controller.core.names import ControllerEpoch, Version
from kraft_controller.core.store_requests import (
    TRIES_MAX,
    Change,
    Check,
    Children,
    ControllerMoved,
    Create,
    Delete,
    Done,
    Failed,
    Get,
    Listing,
    Multi,
    Node,
    RepliesLost,
    Set,
    StoreRequests,
    Sync,
    Why,
    in_parallel,
)
from kraft_controller.wire import znodes


class Fence:
    """Writes to the store that fail after another controller was elected."""

    def __init__(self, version: Version) -> None:
        self._check = Check(znodes.CONTROLLER_EPOCH, version)
        """Checks that `/controller_epoch` has the same version as after the election of this controller."""

    def change(self, *changes: Change) -> StoreRequests[Done | Failed]:
        """Apply all changes or none. Raise `ControllerMoved` if another controller was elected.

        A failure has the index of the failed change in `changes`.
        """
        [outcome] = yield [Multi((self._check, *changes))]
        if isinstance(outcome, Done):
            return Done(outcome.versions[1:])
        assert isinstance(outcome, Failed)
        if outcome.why is Why.UNKNOWN:
            return outcome
        if outcome.part == 0:
            raise ControllerMoved("another broker is the controller")
        return Failed(outcome.why, outcome.part - 1)

    def set(self, path: str, data: bytes, expect: Version) -> StoreRequests[Version | Failed]:
        """Write a node that has version `expect`. Return its new version, or the failure."""
        for _ in range(TRIES_MAX):
            outcome = yield from self.change(Set(path, data, expect))
            if isinstance(outcome, Done):
                [version] = outcome.versions
                assert version is not None
                return version
            if outcome.why is not Why.UNKNOWN:
                return outcome
            [found] = yield from read_synced(path)
            if not isinstance(found, Node):
                return Failed(Why.NO_NODE)
            if found.data == data and found.version == expect + 1:
                return found.version
            if found.version != expect:
                return Failed(Why.BAD_VERSION)
        raise RepliesLost(path)

    def raise_epoch(self, to: ControllerEpoch) -> StoreRequests[Version | Failed]:
        """Write a newer controller epoch. From then on this fence's check fails."""
        return (yield from self.set(znodes.CONTROLLER_EPOCH, znodes.controller_epoch(to), self._check.version))

    def create(self, *nodes: Create) -> StoreRequests[Why | None]:
        """Create all nodes or none. Return the reason of a failure, else None."""
        for _ in range(TRIES_MAX):
            outcome = yield from self.change(*nodes)
            if isinstance(outcome, Done):
                return None
            if outcome.why is not Why.UNKNOWN:
                return outcome.why
            [found] = yield from read_synced(nodes[-1].path)
            if isinstance(found, Node):
                return None if found.data == nodes[-1].data else Why.EXISTS
        raise RepliesLost(nodes[-1].path)

    def delete(self, *paths: str) -> StoreRequests[None]:
        """Delete nodes with everything below them, one after the other. Missing nodes are skipped, and so are nodes
        below which other clients keep creating nodes."""
        for path in paths:
            yield from self.delete_tree(path)

    def delete_tree(self, path: str) -> StoreRequests[bool]:
        """Delete a node and everything below it. Return False if other clients keep creating nodes there."""
        for _ in range(TRIES_MAX):
            if (yield from self._delete(path)) is not Why.NOT_EMPTY:
                return True
            if not (yield from self.delete_children(path)):
                return False
        return False

    def delete_children(self, path: str) -> StoreRequests[bool]:
        """Delete everything below a node. Return False if other clients keep creating nodes there."""
        [found] = yield [Children(path)]
        names = found.names if isinstance(found, Listing) else ()
        return all((yield from in_parallel([self.delete_tree(f"{path}/{name}") for name in names])))

    def delete_trees(self, trees: Sequence[Sequence[str]]) -> StoreRequests[None]:
        """Delete several trees. `trees` has the expected nodes of each, the root last.

        One multi deletes all trees if every tree consists of exactly these nodes. Otherwise each tree is deleted
        separately.
        """
        outcome = yield from self.change(*(Delete(path) for tree in trees for path in tree))
        if not isinstance(outcome, Done):
            yield from in_parallel([self.delete_tree(tree[-1]) for tree in trees])

    def _delete(self, path: str) -> StoreRequests[Why | None]:
        """Delete a node. Return the reason of a failure, else None."""
        for _ in range(TRIES_MAX):
            outcome = yield from self.change(Delete(path))
            if isinstance(outcome, Done):
                return None
            if outcome.why is not Why.UNKNOWN:
                return outcome.why
        raise RepliesLost(path)


def read_synced(*paths: str) -> StoreRequests[list[Node | Failed]]:
    """Read nodes after a sync, so that the reads include everything that was committed before."""
    yield [Sync(paths[0])]
    found = yield [Get(path) for path in paths]
    return [each for each in found if isinstance(each, Node | Failed)]
