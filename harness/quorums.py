"""A second implementation of quorums, so that the checkers do not rely on the one under test."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from zab.core.ensemble import Ensemble
from zab.core.zxid import ServerId


def is_quorum(ensemble: Ensemble, sids: Collection[ServerId]) -> bool:
    return decide(ensemble.voters, [group.members for group in ensemble.groups], ensemble.weights, sids)


def meets_every_quorum(ensemble: Ensemble, sids: Collection[ServerId]) -> bool:
    """Return True if the other voters are not a quorum without these servers."""
    return not is_quorum(ensemble, [sid for sid in ensemble.voters if sid not in sids])


def decide(
    voters: Collection[int], groups: Sequence[Collection[int]], weights: Mapping[ServerId, int], sids: Collection[int]
) -> bool:
    """Return True if the servers are a quorum: a majority of the voters. If there are groups, a quorum has more than
    half of the weight in more than half of the groups that have weight."""
    if not groups:
        return 2 * len([sid for sid in voters if sid in sids]) > len(voters)
    heavy = won = 0
    for members in groups:
        whole = mine = 0
        for sid in members:
            weight = weights.get(ServerId(sid), 1)
            whole += weight
            mine += weight if sid in sids else 0
        heavy += whole > 0
        won += 2 * mine > whole
    return 2 * won > heavy


def in_words(ensemble: Ensemble) -> str:
    """Describe the voters: [1, 2, 3]; or with groups 1 2 | 3, and 3x2 for server 3 with weight 2."""
    if not ensemble.groups:
        return str(list(ensemble.voters))
    weights = ensemble.weights
    groups = [
        " ".join(f"{sid}" if weights.get(sid, 1) == 1 else f"{sid}x{weights[sid]}" for sid in group.members)
        for group in ensemble.groups
    ]
    return f"the groups {' | '.join(groups)}"
