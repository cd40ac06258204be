"""Quotas as nodes below /zookeeper/quota, in the form that all clients share."""

from __future__ import annotations

from typing import Final

from zab.cli.shell.parsing import BadLine
from zab.session.api import Session
from zab.session.session_errors import NoNode
from zab.store.error_codes import ErrorCode
from zab.store.paths import QUOTA, ROOT, ancestors_of
from zab.store.quota import (
    BYTES,
    BYTES_HARD,
    COUNT,
    COUNT_HARD,
    LIMITS,
    STATS,
    limits_path,
    parse,
    render,
    stats_path,
)
from zab.store.znode import Stat

KEYS: Final = {"n": COUNT, "b": BYTES, "N": COUNT_HARD, "B": BYTES_HARD}
"""The limit that each option sets; capitals are hard limits."""


async def set_quota(session: Session, path: str, limits: dict[str, int]) -> None:
    if await session.exists(path) is None:
        raise NoNode(ErrorCode.NO_NODE, path)
    if path == QUOTA or path.startswith(QUOTA + "/"):
        raise BadLine("/zookeeper/quota and the nodes below it cannot have quotas")
    for above in ancestors_of(path):
        if above != ROOT and await session.exists(limits_path(above)) is not None:
            raise BadLine(f"{above}, above {path}, has a quota already; nested quotas are not allowed")
    await session.ensure_path(QUOTA + path)
    below = await _limited_below(session, QUOTA + path)
    if below is not None:
        raise BadLine(f"{below}, below {path}, has a quota already; nested quotas are not allowed")
    await session.ensure_path(limits_path(path))
    data, _ = await session.get(limits_path(path))
    values = dict.fromkeys(KEYS.values(), -1) | (parse(data) if data else {}) | limits
    await session.set(limits_path(path), render({key: values[key] for key in KEYS.values()}))
    if await session.exists(stats_path(path)) is None:
        await session.create(stats_path(path), render({COUNT: 0, BYTES: 0}))


async def _limited_below(session: Session, node: str) -> str | None:
    left = [f"{node}/{name}" for name in await session.children(node) if name not in (LIMITS, STATS)]
    while left:
        path = left.pop()
        for name in await session.children(path):
            if name == LIMITS:
                return path[len(QUOTA) :]
            left.append(f"{path}/{name}")
    return None


async def _limits_of(session: Session, path: str) -> tuple[bytes | None, Stat]:
    try:
        return await session.get(limits_path(path))
    except NoNode:
        raise BadLine(f"quota for {path} does not exist.") from None


async def quota_of(session: Session, path: str) -> tuple[dict[str, int], dict[str, int]]:
    """Return the limits of the subtree at `path`, and its usage."""
    limits, _ = await _limits_of(session, path)
    stats, _ = await session.get(stats_path(path))
    return parse(limits), parse(stats)


async def delete_quota(session: Session, path: str, keys: set[str]) -> None:
    """Delete the limits that `keys` names, or all if it is empty.

    If no limit is left, delete the quota's nodes, and every ancestor below `/zookeeper/quota` that becomes empty.
    """
    data, stat = await _limits_of(session, path)
    values = parse(data) | dict.fromkeys(keys, -1)
    if keys and any(values.get(key, -1) > -1 for key in KEYS.values()):
        await session.set(limits_path(path), render({key: values.get(key, -1) for key in KEYS.values()}), stat.version)
        return
    for node in (limits_path(path), stats_path(path)):
        await session.delete(node)
    node = QUOTA + path
    while node != QUOTA and not await session.children(node):
        await session.delete(node)
        node = node.rpartition("/")[0]
