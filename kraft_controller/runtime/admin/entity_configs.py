"""Dynamic configurations in the store.

A change and its notification are written in one multi, so that brokers are notified of every change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Final
from urllib.parse import quote, unquote

from attrs import frozen

import zab
from kraft_controller.core.configuration import config_alteration
from kraft_controller.core.configuration.config_alteration import Change
from kraft_controller.core.configuration.config_keys import DEFAULT, KEYS
from kraft_controller.core.names import decimal, wrong_with_name
from kraft_controller.runtime.admin.cluster_description import names_below
from kraft_controller.runtime.bounded_requests import run_bounded
from kraft_controller.wire import znodes
from kraft_controller.wire.znodes import DamagedNode

TRIES_MAX: Final = 20
CHANGE: Final = f"{znodes.CONFIG_CHANGES}/config_change_"


class NoSuchEntity(ValueError):
    """The entity does not exist, or its name is invalid."""


@frozen
class Entity:
    """A configured entity, by its `path`: `topics/t`, `brokers/1`, `brokers/<default>`, `users/u/clients/c`."""

    path: str

    @classmethod
    def of(cls, kind: str, name: str | None = None, client: str | None = None) -> Entity:
        """Return the entity. `name=None` stands for the default of the type; `client=None` names no client.

        Names of users and clients are quoted for the path. Raise `NoSuchEntity` for an invalid name.
        """
        assert kind in KEYS
        written = _written(kind, name)
        return cls(f"{kind}/{written}" + ("" if client is None else f"/clients/{_written('clients', client)}"))

    @property
    def kind(self) -> str:
        """The type: `topics`, `brokers`, `users` or `clients`; `clients` also for a user's client."""
        return "clients" if "/clients/" in self.path else self.path.partition("/")[0]

    @property
    def name(self) -> str:
        """The name without the quoting for the path, or `USER, client NAME` for a user's client."""
        _, _, rest = self.path.partition("/")
        user, inside, client = rest.partition("/clients/")
        return f"{unquote(user)}, client {unquote(client)}" if inside else unquote(rest)

    @property
    def node(self) -> str:
        """The path of the node with the configuration."""
        return f"/config/{self.path}"


def _written(kind: str, name: str | None) -> str:
    if name in (None, DEFAULT):
        return DEFAULT
    assert name is not None
    if not name:
        raise NoSuchEntity(f"{kind}: the name is empty")
    if kind == "topics" and (wrong := wrong_with_name(name)) is not None:
        raise NoSuchEntity(wrong)
    return quoted(name) if kind in ("clients", "users") else name


def quoted(name: str) -> str:
    """Return the name of a user or client for the path, quoted as by Kafka's `Sanitizer`."""
    return quote(name, safe="").replace("~", "%7E")


async def read_config(session: zab.Session, entity: Entity) -> dict[str, str]:
    """Read a configuration; empty if nothing is set. Raise `DamagedNode` if it cannot be parsed."""
    try:
        return znodes.read_config(entity.node, (await session.get(entity.node))[0])
    except zab.NoNode:
        return {}


async def read_configs(session: zab.Session, entities: Iterable[Entity]) -> dict[Entity, dict[str, str] | DamagedNode]:
    async def one(entity: Entity) -> dict[str, str] | DamagedNode:
        try:
            return await read_config(session, entity)
        except DamagedNode as damaged:
            return damaged
        except zab.BadArguments as error:  # a name that no node can have
            return DamagedNode(str(error))

    entities = list(entities)
    return dict(zip(entities, await run_bounded([partial(one, entity) for entity in entities]), strict=True))


async def entities(session: zab.Session, kind: str) -> list[Entity]:
    """Return the entities of a type that have a node. For users, include pairs of user and client id."""
    names = sorted(await names_below(session, f"/config/{kind}"))
    found = [Entity(f"{kind}/{name}") for name in names]
    if kind == "users":
        below = await run_bounded([partial(names_below, session, f"/config/users/{name}/clients") for name in names])
        for name, clients in zip(names, below, strict=True):
            found += [Entity(f"users/{name}/clients/{client}") for client in sorted(clients)]
    return found


async def alter_config(
    session: zab.Session, entity: Entity, put: Mapping[str, str], remove: Collection[str] = ()
) -> dict[str, str]:
    """Set and remove keys, and return the resulting configuration.

    Nothing has changed if it raises `ConfigError`, `NoSuchEntity` or `DamagedNode`.
    """
    return await change_config(session, entity, config_alteration.put(entity.kind, put, remove))


async def change_config(
    session: zab.Session, entity: Entity, change: Change, *, check_only: bool = False
) -> dict[str, str]:
    """Apply any change of `kraft_controller.core.configuration.config_alteration`, and return the resulting
    configuration. With `check_only`, write nothing."""
    for _ in range(TRIES_MAX):
        await check_exists(session, entity)
        try:
            data, stat = await session.get(entity.node)
            before = znodes.read_config(entity.node, data)
        except zab.NoNode:
            before, stat = {}, None
        after = change(before)
        if after == before or check_only:
            return after
        multi = zab.Multi()
        if stat is None:
            await session.ensure_path(entity.node.rpartition("/")[0])
            multi.create(entity.node, znodes.config(after))
        else:
            multi.set(entity.node, znodes.config(after), version=stat.version)
        if await _changed(session, multi, entity):
            return after
    raise zab.OutcomeUnknown(
        f"{entity.node}: {TRIES_MAX} attempts failed, because other clients changed it or replies were lost"
    )


async def _changed(session: zab.Session, multi: zab.Multi, entity: Entity) -> bool:
    multi.create(CHANGE, note(entity), sequential=True)
    try:
        await session.multi(multi)
    except (zab.BadVersion, zab.NodeExists, zab.OutcomeUnknown):
        return False
    except zab.NoNode:
        await session.ensure_path(znodes.CONFIG_CHANGES)
        return False
    return True


def note(entity: Entity) -> bytes:
    kind, _, name = entity.path.partition("/")
    return znodes.config_change(kind, name)


async def check_exists(session: zab.Session, entity: Entity) -> None:
    """Raise `NoSuchEntity` if the topic does not exist, or if the name of a broker is not a number."""
    kind, _, name = entity.path.partition("/")
    if kind == "topics" and await session.exists(znodes.topic_path(name)) is None:
        raise NoSuchEntity(f"there is no topic {name}")
    if kind == "brokers" and name != DEFAULT and decimal(name) is None:
        raise NoSuchEntity(f"expected a broker id, or {DEFAULT} for all brokers, not {name!r}")
