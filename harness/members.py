"""Add a server to a membership, remove one, or change its role. If the membership has groups, each voter stays in its
group, and a new voter joins the smallest group."""

from __future__ import annotations

from collections.abc import Sequence

from zab.core.ensemble import Ensemble, Group, Role, Server
from zab.core.zxid import ServerId


def member(sid: ServerId, role: Role = Role.PARTICIPANT) -> Server:
    return Server(sid, f"s{sid}", 2888, 3888, role)


def with_server(ensemble: Ensemble, server: Server) -> Ensemble | None:
    """Return the membership with this server, or None if no voter with a weight would remain."""
    if not ensemble.groups:
        return ensemble.changed(joining=(server,))
    return _regrouped(ensemble, [*(each for each in ensemble.servers if each.id != server.id), server])


def without_server(ensemble: Ensemble, sid: ServerId) -> Ensemble | None:
    """Return the membership without this server, or None if no voter with a weight would remain."""
    if not ensemble.groups:
        return ensemble.changed(leaving=(sid,))
    return _regrouped(ensemble, [each for each in ensemble.servers if each.id != sid])


def _regrouped(ensemble: Ensemble, servers: Sequence[Server]) -> Ensemble | None:
    voters = sorted(server.id for server in servers if server.role is Role.PARTICIPANT)
    groups = {group.id: [sid for sid in group.members if sid in voters] for group in ensemble.groups}
    known = {sid for members in groups.values() for sid in members}
    for sid in voters:
        if sid not in known:
            min(sorted(groups.items()), key=lambda group: len(group[1]))[1].append(sid)
    weights = {sid: weight for sid, weight in ensemble.weights.items() if sid in voters}
    if not any(weights.get(sid, 1) for sid in voters):
        return None
    return Ensemble(
        tuple(servers),
        groups=tuple(Group(number, tuple(members)) for number, members in groups.items() if members),
        weights=weights,
    )
