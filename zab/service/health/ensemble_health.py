"""The health of an ensemble, as one server judges it: from its own status, and from the reports of the others."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from zab.core.messages import State
from zab.core.zxid import Millis, ServerId
from zab.service.health.status import Status

STALE_MS: Final = 5_000
"""The age from which on a report is stale."""
VETOING, UNKNOWN = "vetoing", "unknown"
HEALTHY, DEGRADED, DOWN, STARTING = "healthy", "degraded", "down", "starting"


def takes_part(member: ServerId, status: Status, age_ms: Millis | None, epoch: int) -> bool:
    """Return whether a member takes part in the ensemble; `age_ms` and `epoch` are those of its last report.

    A server counts itself. The leader counts a member that is synchronized. Any other server counts a member if its
    report is fresh; while the server serves, the report must also be of the present epoch. A server that vetoes stays
    out: it receives no reports, and counts itself only.
    """
    role = status.role
    if member == status.server:
        return True
    if role.veto is not None:
        return False
    if role.serving and role.state is State.LEADING:
        return member in status.synced
    is_present = not role.serving or epoch == role.epoch  # a report from before the last election is out of date
    return is_fresh(age_ms) and is_present


def seen_mode(member: ServerId, status: Status, mode: str, age_ms: Millis | None, epoch: int) -> str:
    """Return the mode of a member as this server sees it; `mode`, `age_ms` and `epoch` are those of its last report.

    The mode of a member that is not in the running ensemble is "lost" if its reports still arrive, else "unreachable".
    The mode of a server that vetoes is "vetoing". It cannot tell whether the others serve, so their mode is "unknown".
    """
    if status.role.veto is not None:
        return VETOING if member == status.server else UNKNOWN
    if takes_part(member, status, age_ms, epoch):
        return mode
    return "lost" if is_fresh(age_ms) else "unreachable"


def is_fresh(age_ms: Millis | None) -> bool:
    """Return whether reports arrive; `age_ms` is the age of the last one."""
    return age_ms is not None and age_ms < STALE_MS


def absence(age_ms: Millis | None) -> str:
    """Return the warning about a member that is not in the running ensemble."""
    seen = "no report so far" if age_ms is None else f"last report {age_ms // 1000} s ago"
    return f"it is not in the running ensemble; {seen}"


def is_settled(serving_ms: Millis) -> bool:
    """Return whether a server has served long enough to warn of members that are not in the running ensemble."""
    return serving_ms > STALE_MS


def health(taking_part: Collection[bool], *, serving: bool, warned: bool) -> str:
    """Return the health of the ensemble.

    `taking_part` has one item for each member, True if it takes part. `warned`: there are warnings.
    """
    if not serving:
        return DOWN
    if warned:
        return DEGRADED
    return HEALTHY if all(taking_part) else STARTING
