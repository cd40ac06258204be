"""What the store keeps of users' passwords, at hand whenever somebody logs in; and changing it.

What was heard last stays in force while the store cannot be reached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import unquote

import zab
from kraft_controller.core.config_keys import DEFAULT
from kraft_controller.core.scram import Credential, Mechanism, credentials_in
from kraft_controller.runtime.admin.entity_configs import Entity, alter_config, entities, read_config, read_configs
from kraft_controller.runtime.config_feed import ConfigFeed
from kraft_controller.wire.znodes import DamagedNode
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.logs import Log
from replica.runtime.store.store_call import call_store

USERS: Final = "users"
SECRET: Final = "/cluster/sasl_secret"
"""Which salt is shown to a user who is not known hangs on it: the same at every broker, and nobody can tell it."""
SECRET_BYTES: Final = 32

Credentials = Mapping[Mechanism, Credential]


class UserCredentials:
    """feed   runs while a session lasts"""

    def __init__(self, log: Log, session: Callable[[], zab.Session | None]) -> None:
        self.feed = ConfigFeed(self._heard, kinds=(USERS,))
        self._log = log
        self._session = session
        self._known: dict[str, Credentials] = {}

    def find(self, mechanism: Mechanism, name: str) -> Credential | None:
        return self._known.get(name, {}).get(mechanism)

    def _heard(self, entity: Entity, said: Mapping[str, str]) -> None:
        name = _name_of(entity)
        if name is None:
            return
        found, wrong = credentials_in(said)
        for why in wrong:
            self._log.warn_rate_limited("bad_credential", (name, why), user=name, why=why)
        if found:
            self._known[name] = found
        else:
            self._known.pop(name, None)

    # -- looking, and changing: at the store itself --------------------------------------------------------------

    async def described(self, names: list[str] | None) -> dict[str, Credentials]:
        """Of these users, or of all; who has no password is not among them."""

        async def look(session: zab.Session) -> dict[str, Credentials]:
            wanted = await entities(session, USERS) if names is None else [Entity.of(USERS, name) for name in names]
            found: dict[str, Credentials] = {}
            for entity, said in (await read_configs(session, wanted)).items():
                name = _name_of(entity)
                if isinstance(said, DamagedNode):
                    self._log.warn_rate_limited("damaged", entity.path, why=said)
                elif name is not None and (kept := credentials_in(said)[0]):
                    found[name] = kept
            return found

        return await call_store(self._session(), look)

    async def change(self, name: str, put: Credentials, remove: list[Mechanism]) -> None:
        entity = Entity.of(USERS, name)

        async def write(session: zab.Session) -> None:
            said = await read_config(session, entity)
            if any(mechanism.value not in said for mechanism in remove):
                raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"user {name} has no such password to be deleted")
            kept = {mechanism.value: credential.text for mechanism, credential in put.items()}
            await alter_config(session, entity, kept, [mechanism.value for mechanism in remove])

        await call_store(self._session(), write)


def _name_of(entity: Entity) -> str | None:
    """None: it is no single user."""
    _, _, written = entity.path.partition("/")
    return None if "/" in written or written == DEFAULT else unquote(written)


async def sasl_secret(session: zab.Session, random_bytes: Callable[[int], bytes]) -> bytes:
    """Of the cluster, drawn by whoever asks first."""
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
            pass  # it is read now, whoever made it
