"""SCRAM credentials of users: a copy for logins, and changes in the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import unquote

import zab
from kraft_controller.core.configuration.config_keys import DEFAULT
from kraft_controller.core.configuration.scram import ITERATIONS_MIN, Credential, Mechanism, credentials_in
from kraft_controller.runtime.admin.entity_configs import (
    Entity,
    alter_config,
    entities,
    quoted,
    read_config,
    read_configs,
)
from kraft_controller.runtime.config_feed import ConfigFeed
from kraft_controller.wire.znodes import DamagedNode
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.logs import Log
from replica.runtime.store.store_call import call_store

USERS: Final = "users"
SECRET: Final = "/cluster/sasl_secret"
"""The path of the node with the secret from which all brokers derive the same salts for unknown users."""
SECRET_BYTES: Final = 32

Credentials = Mapping[Mechanism, Credential]


class UserCredentials:
    """The credentials of all users, copied from the store. `feed` keeps the copy current while a session lasts."""

    def __init__(self, log: Log, session: Callable[[], zab.Session | None]) -> None:
        self.feed = ConfigFeed(self._on_config, kinds=(USERS,))
        self._log = log
        self._session = session
        self._known: dict[str, Credentials] = {}
        self._iterations: dict[Mechanism, Counter[int]] = {mechanism: Counter() for mechanism in Mechanism}
        """The number of known credentials by mechanism and number of iterations."""

    def find(self, mechanism: Mechanism, name: str) -> Credential | None:
        return self._known.get(name, {}).get(mechanism)

    def usual_iterations(self, mechanism: Mechanism) -> int:
        """Return the number of iterations that most credentials have."""
        counts = self._iterations[mechanism]
        return max(counts, key=lambda iterations: (counts[iterations], iterations), default=ITERATIONS_MIN)

    def _on_config(self, entity: Entity, config: Mapping[str, str]) -> None:
        name = _name_of(entity)
        if name is None:
            return
        found, problems = credentials_in(config)
        for why in problems:
            self._log.warn_rate_limited("bad_credential", (name, why), user=name, why=why)
        for mechanism, credential in self._known.pop(name, {}).items():
            self._iterations[mechanism] -= Counter([credential.iterations])  # this drops numbers that have become 0
        for mechanism, credential in found.items():
            self._iterations[mechanism][credential.iterations] += 1
        if found:
            self._known[name] = found

    # -- reads and changes in the store --------------------------------------------------------------------------

    async def described(self, names: list[str] | None) -> dict[str, Credentials]:
        """Return the credentials of these users; of all if None. Users without valid credentials are left out."""

        async def read(session: zab.Session) -> dict[str, Credentials]:
            wanted = await entities(session, USERS) if names is None else [_entity(name) for name in names]
            found: dict[str, Credentials] = {}
            for entity, config in (await read_configs(session, wanted)).items():
                name = _name_of(entity)
                if isinstance(config, DamagedNode):
                    self._log.warn_rate_limited("damaged", entity.path, why=config)
                elif name is not None and (kept := credentials_in(config)[0]):
                    found[name] = kept
            return found

        return await call_store(self._session(), read)

    async def change(self, name: str, put: Credentials, remove: list[Mechanism]) -> None:
        entity = _entity(name)

        async def write(session: zab.Session) -> None:
            config = await read_config(session, entity)
            missing = [mechanism.value for mechanism in remove if mechanism.value not in config]
            if missing:
                raise KafkaError(
                    ErrorCode.RESOURCE_NOT_FOUND, f"user {name} has no credential to delete for {', '.join(missing)}"
                )
            kept = {mechanism.value: credential.text for mechanism, credential in put.items()}
            await alter_config(session, entity, kept, [mechanism.value for mechanism in remove])

        await call_store(self._session(), write)


def _entity(name: str) -> Entity:
    return Entity(f"{USERS}/{quoted(name)}")


def _name_of(entity: Entity) -> str | None:
    """Return the user's name, or None if the entity is not a single user."""
    _, _, written = entity.path.partition("/")
    return None if "/" in written or written == DEFAULT else unquote(written)


async def sasl_secret(session: zab.Session, random_bytes: Callable[[int], bytes]) -> bytes:
    """Return the secret at `SECRET`. Create it if it is missing or empty."""
    while True:
        try:
            data = (await session.get(SECRET))[0]
            if data:
                return data
            await session.delete(SECRET)
        except zab.NoNode:
            pass
        await session.ensure_path(SECRET.rpartition("/")[0])
        try:
            await session.create(SECRET, random_bytes(SECRET_BYTES))
        except (zab.NodeExists, zab.OutcomeUnknown):
            pass  # another broker, or this attempt, may have created it: read again
