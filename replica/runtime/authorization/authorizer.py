"""The authorizer of a broker: it decides by a copy of the store's ACLs, and logs denials.

The last known ACLs stay in force while the store is unreachable. If the node of a resource pattern cannot be parsed,
only super users may use the resources that match the pattern, because the DENY entries of the pattern are unknown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

import trio

import zab
from kraft_controller.runtime.bounded_requests import run_bounded
from kraft_controller.runtime.config_feed import let_gather
from kraft_controller.wire.znodes import DamagedNode, in_sequence
from replica.core.errors import ErrorCode, KafkaError
from replica.core.security.acl_authorization import Acls, AclSettings, Requester, allowed, allowed_somewhere, operations
from replica.core.security.acls import (
    ANY_HOST,
    ANY_USER,
    CLUSTER_NAME,
    Acl,
    Entry,
    Filter,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
    title,
)
from replica.runtime.logs import Log
from replica.runtime.requests import Request
from replica.runtime.store.store_call import call_store
from replica.wire import acl_nodes

CHANGES_KEPT_MS: Final = 15 * 60_000
"""The age in ms from which change notifications are deleted. A broker that lists a notification but finds it deleted
reads all ACLs again."""
TRIES_MAX: Final = 20
"""The maximum number of attempts at a change. An attempt is repeated after a conflict with another change of the same
node, or if its outcome is unknown."""
DENY_ALL: Final = frozenset({Entry(ANY_USER, ANY_HOST, Operation.ALL, Permission.DENY)})


class Authorizer:
    """Decides by a copy of the store's ACLs. `run` keeps the copy current while a session lasts."""

    def __init__(
        self, settings: AclSettings, log: Log, session: Callable[[], zab.Session | None], now_ms: Callable[[], int]
    ) -> None:
        self.settings = settings
        self.acls = Acls()
        """The copy: the ACLs of all nodes, as last read."""
        self._log = log
        self._session = session
        self._now_ms = now_ms
        self._reading = trio.Lock()
        """Held while nodes are read and the copy is updated, so that reads do not overlap and the latest one determines
        the copy."""

    # -- deciding ----------------------------------------------------------------------------------------------

    def allows(
        self, request: Request[Any], operation: Operation, resource: ResourceType, name: str, *, quiet: bool = False
    ) -> bool:
        """Return whether the request is authorized. `quiet`: do not log a denial, for a check that only filters or has
        an alternative."""
        requester = Requester(request.principal, request.host)
        allows = allowed(self.acls, self.settings, requester, operation, resource, name)
        if not allows and not quiet:
            self._denied(request, operation, Pattern(resource, name))
        return allows

    def allows_somewhere(self, request: Request[Any], operation: Operation, resource: ResourceType) -> bool:
        requester = Requester(request.principal, request.host)
        return allowed_somewhere(self.acls, self.settings, requester, operation, resource)

    def operations(self, request: Request[Any], resource: ResourceType, name: str) -> int:
        return operations(self.acls, self.settings, Requester(request.principal, request.host), resource, name)

    def allows_brokers(self, principal: str, host: str) -> bool:
        """Return whether a peer may send requests that are reserved for controllers and other brokers."""
        requester = Requester(principal, host)
        return allowed(
            self.acls, self.settings, requester, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
        )

    def _denied(self, request: Request[Any], operation: Operation, pattern: Pattern) -> None:
        self._log.warn_rate_limited(
            "denied",
            (request.principal, request.host, operation, pattern),
            logging.INFO,
            cause=f"{request.principal} at {request.host}",
            principal=request.principal,
            host=request.host,
            operation=title(operation),
            resource=f"{title(pattern.resource)}:{pattern.name}",
            api=request.api.name,
            client=request.client_id,
        )

    # -- following changes -------------------------------------------------------------------------------------

    async def run(self, session: zab.Session, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow changes until the session ends. Reports the start once all ACLs are read."""
        for kind, root in acl_nodes.CHANGES.items():
            await session.ensure_path(root)
            for resource in acl_nodes.STORED:
                await session.ensure_path(acl_nodes.folder(resource, kind))
        async with session.watcher() as watch:
            # Watch before reading: a change after the read then always triggers the watch.
            seen = {kind: _newest(await self._notes(session, kind, watch)) for kind in acl_nodes.CHANGES}
            await self._read_all(session)
            self._log.say("acls_read", patterns=len(self.acls.by_pattern))
            task_status.started()
            while True:
                listed = 0
                for kind in acl_nodes.CHANGES:
                    notes = await self._notes(session, kind, watch)
                    listed += len(notes)
                    await self._follow(session, kind, [path for number, path in notes if number > seen[kind]])
                    seen[kind] = max(seen[kind], _newest(notes))
                    await self._sweep(session, [path for number, path in notes if number < seen[kind]])
                await anext(watch)
                await let_gather(listed)

    @staticmethod
    async def _notes(session: zab.Session, kind: PatternType, watch: zab.Watch) -> list[tuple[int, str]]:
        root = acl_nodes.CHANGES[kind]
        return in_sequence(root, await session.children(root, watch))

    async def _read_all(self, session: zab.Session) -> None:
        async with self._reading:
            patterns: list[Pattern] = []
            for kind in acl_nodes.ROOTS:
                for resource in acl_nodes.STORED:
                    names = await session.children(acl_nodes.folder(resource, kind))
                    patterns += [Pattern(resource, name, kind) for name in sorted(names)]
            found = await run_bounded([partial(self._entries, session, pattern) for pattern in patterns])
            self.acls = Acls({pattern: held for pattern, held in zip(patterns, found, strict=True) if held})

    async def _follow(self, session: zab.Session, kind: PatternType, paths: Sequence[str]) -> None:
        for path in paths:
            try:
                pattern = acl_nodes.read_change(path, kind, (await session.get(path))[0])
            except zab.NoNode:
                await self._read_all(session)  # the notification was deleted, so the changed node is unknown
            except DamagedNode as damaged:
                self._log.warn_rate_limited("damaged", path, why=damaged)
                await self._read_all(session)
            else:
                await self._read(session, pattern)

    async def _read(self, session: zab.Session, pattern: Pattern) -> None:
        async with self._reading:
            self.acls = self.acls.with_pattern(pattern, await self._entries(session, pattern))

    async def _entries(self, session: zab.Session, pattern: Pattern) -> frozenset[Entry]:
        path = acl_nodes.path(pattern)
        try:
            return acl_nodes.read_entries(path, (await session.get(path))[0])
        except zab.NoNode:
            return frozenset()
        except DamagedNode as damaged:
            self._log.warn_rate_limited(
                "damaged", path, logging.ERROR, why=damaged, so="only super users may use the resources of this path"
            )
            return DENY_ALL

    async def _sweep(self, session: zab.Session, paths: Sequence[str]) -> None:
        """Delete notifications that are older than `CHANGES_KEPT_MS`."""
        for path in paths:
            try:
                stat = await session.exists(path)
                if stat is None or stat.ctime >= self._now_ms() - CHANGES_KEPT_MS:
                    return  # another broker is deleting them, or this one and all later ones are too young
                await session.delete(path)
            except (zab.NoNode, zab.OutcomeUnknown):
                pass  # it was deleted by another broker, or the next sweep deletes it

    # -- changing ----------------------------------------------------------------------------------------------

    async def add(self, pattern: Pattern, added: Iterable[Entry]) -> None:
        more = frozenset(added)
        await self._change(pattern, lambda before: before | more)

    async def remove(self, pattern: Pattern, removed: Iterable[Entry]) -> None:
        gone = frozenset(removed)
        await self._change(pattern, lambda before: before - gone)

    async def matching(self, wanted: Sequence[Filter]) -> list[list[Acl]]:
        """Return the ACLs that each filter matches. An ACL that matches several filters is returned only for the first
        one.

        Read the store instead of the copy, which may be outdated.
        """

        async def look(session: zab.Session) -> list[Acl]:
            await session.sync("/kafka-acl")
            await self._read_all(session)
            return list(self.acls)

        left = dict.fromkeys(await call_store(self._session(), look))
        named: dict[str, list[Acl]] = {}
        for acl in left:
            named.setdefault(acl.pattern.name, []).append(acl)
        made: list[list[Acl]] = []
        for each in wanted:
            exact = each.name is not None and each.kind is not PatternType.MATCH
            made.append(
                [acl for acl in (named.get(each.name or "", ()) if exact else left) if acl in left and acl in each]
            )
            for acl in made[-1]:
                del left[acl]
            await trio.lowlevel.checkpoint()  # a filter may have to be compared with thousands of ACLs
        return made

    async def _change(self, pattern: Pattern, change: Callable[[frozenset[Entry]], frozenset[Entry]]) -> None:
        async def write(session: zab.Session) -> None:
            await write_acls(session, pattern, change)
            # update the copy, so that the next request at this broker sees the change
            await self._read(session, pattern)

        await call_store(self._session(), write)


def _newest(notes: Sequence[tuple[int, str]]) -> int:
    return max((number for number, _ in notes), default=-1)


async def write_acls(
    session: zab.Session, pattern: Pattern, change: Callable[[frozenset[Entry]], frozenset[Entry]]
) -> bool:
    """Change the ACLs of a pattern and create a notification, in one transaction. Return False if
    `change` makes no difference to the stored ACLs. Raise `KafkaError` if `TRIES_MAX` attempts fail."""
    path = acl_nodes.path(pattern)
    note = f"{acl_nodes.CHANGES[pattern.kind]}/{acl_nodes.CHANGE}"
    for _ in range(TRIES_MAX):
        try:
            data, stat = await session.get(path)
            before = acl_nodes.read_entries(path, data)
            version: int | None = stat.version
        except zab.NoNode:
            before, version = frozenset(), None
        after = change(before)
        if after == before:
            return False
        multi = zab.Multi()
        if version is None:
            await session.ensure_path(path.rpartition("/")[0])
            multi.create(path, acl_nodes.entries(after))
        elif after:
            multi.set(path, acl_nodes.entries(after), version=version)
        else:
            multi.delete(path, version=version)
        multi.create(note, acl_nodes.change(pattern), sequential=True)
        try:
            await session.multi(multi)
        except (zab.BadVersion, zab.NodeExists, zab.OutcomeUnknown):
            continue
        except zab.NoNode:
            await session.ensure_path(note.rpartition("/")[0])
            continue
        return True
    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{path} could not be changed in {TRIES_MAX} attempts; try again")
