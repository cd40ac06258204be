"""The servers that an ensemble can spare. No protocol survives the loss of more, so faults do not cause it.

There are two kinds of loss. A server that knows that its disk was lost or damaged does not vote, and those whose
disks are whole must be a quorum without it. A server that has forgotten something and cannot know it votes as if
it had never heard of it: then everything that it forgets must be remembered by so many others that no quorum can
do without one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.quorums import is_quorum

if TYPE_CHECKING:
    from harness.worlds.cores.server import Server
    from harness.worlds.cores.world import World
    from zab.core.ensemble import Ensemble


def can_spare(world: World, server: Server | None, wanted: Ensemble | None = None) -> bool:
    """Without this server, too, those whose disks are whole are a quorum of every membership there is.

    That is: of every one that is in force, logged or written down anywhere, and of the one `wanted`.
    """
    ghost = world.ghost
    whole = [
        each.id
        for each in world.servers[1:]
        if each.founded and each is not server and not ghost.servers[each.id].impaired
    ]
    views = _memberships(world)
    if wanted is not None:
        views.append(wanted)
    return all(is_quorum(view, whole) for view in views)


def can_forget(world: World, server: Server) -> bool:
    """No quorum of any membership could be had without somebody who knows all that this server knows."""
    ghost = world.ghost
    mine = ghost.servers[server.id]
    if mine.impaired:
        return False
    without = []
    for each in world.servers[1:]:
        known = ghost.servers[each.id]
        remembers = (
            each is not server
            and each.founded
            and not known.impaired
            and not known.went_back
            and not each.disk.lying
            and known.accepted >= mine.accepted
            and known.current >= mine.current
            and ghost.holds(known.durable, mine.durable)
        )
        if not remembers:
            without.append(each.id)
    return not any(is_quorum(view, without) for view in _memberships(world))


def _memberships(world: World) -> list[Ensemble]:
    ghost = world.ghost
    views = [ghost.governing[zxid] for known in ghost.servers for zxid in (known.tip, known.durable)]
    views += [ghost.governing[ghost.committed], *(each.node.ensemble for each in world.running())]
    return list({id(view): view for view in views}.values())  # most often one, or a few
