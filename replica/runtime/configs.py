"""What is set for topics: kept in the store, where every broker hears that something is different and reads it again.

A topic's settings are wanted the moment a replica is opened, and that moment waits for nobody: until they are read,
which takes one round trip, the broker's own hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import trio

import zab
from kraft_controller.wire import znodes
from kraft_controller.wire.znodes import DamagedNode
from replica.core.errors import ErrorCode, KafkaError
from replica.runtime.logs import Log
from replica.runtime.requests import Body
from replica.runtime.topics import TRIES_MAX, at_the_store
from replica.storage.config import TYPES, LogConfig

TOPICS: Final = "topics"
BROKERS: Final = "brokers"
CHANGE: Final = f"{znodes.CONFIG_CHANGES}/config_change_"

BESIDE: Final = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})
"""Kept for a topic, and not a matter of its logs."""
WITHOUT_EFFECT: Final = frozenset(
    {"message.format.version", "message.downconversion.enable", "message.timestamp.difference.max.ms"}
)
"""Kept for a topic, so that tools that set them go on, and of no effect: only today's record batches are spoken."""

DYNAMIC_TOPIC: Final = 1
DYNAMIC_BROKER: Final = 2
STATIC_BROKER: Final = 4
DEFAULT: Final = 5
KINDS: Final = {"bool": 1, "string": 2, "int": 3, "short": 4, "long": 5, "double": 6, "list": 7}
SET, DELETE, APPEND, SUBTRACT = range(4)

Apply = Callable[[str, LogConfig], None]
"""Of a topic."""


class TopicConfigs:
    """defaults   what holds for a topic that says nothing: the broker's own
    static     which keys of these the broker's configuration has set
    """

    def __init__(self, defaults: LogConfig, log: Log, *, static: Iterable[str] = ()) -> None:
        self.defaults = defaults
        self.apply: Apply = lambda topic, config: None
        """Called whenever a topic's settings are read."""
        self._static = frozenset(static)
        self._log = log
        self._known: dict[str, dict[str, str]] = {}
        self._wanted: dict[str, None] = {}
        self._bell = trio.Event()
        self._seen: int | None = None

    def __getitem__(self, topic: str) -> LogConfig:
        """As far as it is known. The first who asks has it read."""
        values = self._known.get(topic)
        if values is None:
            self._want(topic)
            return self.defaults
        return self._config(topic, values)

    def set_defaults(self, defaults: LogConfig) -> None:
        """Other ones, while topics are open: what they did not say themselves has changed."""
        if defaults == self.defaults:
            return
        self.defaults = defaults
        for topic, values in self._known.items():
            self.apply(topic, self._config(topic, values))

    def forget(self, topic: str) -> None:
        self._known.pop(topic, None)
        self._wanted.pop(topic, None)

    def _config(self, topic: str, values: Mapping[str, str]) -> LogConfig:
        ours = {key: text for key, text in values.items() if key in TYPES}
        try:
            return LogConfig.of(ours, self.defaults)
        except KafkaError as error:
            self._log.grumble("bad_config", topic, topic=topic, why=error.text)
            return self.defaults

    def _want(self, topic: str) -> None:
        self._wanted[topic] = None
        self._bell.set()

    # -- checking ----------------------------------------------------------------------------------------------

    def checked(self, values: Mapping[str, str | None]) -> dict[str, str]:
        """`INVALID_CONFIG` names the key, the value and what would do."""
        given = {}
        for key, text in values.items():
            if text is None:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"{key} has no value")
            given[key] = text
        LogConfig.of({key: text for key, text in given.items() if key not in BESIDE | WITHOUT_EFFECT}, self.defaults)
        return given

    def as_created(self, values: Mapping[str, str]) -> list[Body]:
        texts = self._config("", values).as_text()
        return [
            {"name": key, "value": text, "config_source": self._source(key, values)}
            for key, text in sorted({**texts, **values}.items())
        ]

    def _source(self, key: str, values: Mapping[str, str]) -> int:
        if key in values:
            return DYNAMIC_TOPIC
        return STATIC_BROKER if key in self._static else DEFAULT

    def described(self, values: Mapping[str, str], keys: Iterable[str] | None, *, synonyms: bool) -> list[Body]:
        """Of a topic; `keys` None: all."""
        wanted = None if keys is None else set(keys)
        usual, now = self.defaults.as_text(), {**self._config("", values).as_text(), **values}
        made = []
        for key, text in sorted(now.items()):
            if wanted is not None and key not in wanted:
                continue
            source = self._source(key, values)
            others = [{"name": key, "value": text, "source": source}]
            if key in values and key in usual:
                others.append({"name": key, "value": usual[key], "source": self._source(key, {})})
            made.append(
                {
                    "name": key,
                    "value": text,
                    "config_source": source,
                    "synonyms": others if synonyms else [],
                    "config_type": KINDS[TYPES.get(key, "string")],
                }
            )
        return made

    # -- the store ---------------------------------------------------------------------------------------------

    async def read(self, session: zab.Session | None, kind: str, name: str) -> dict[str, str]:
        """Empty where nothing is set."""

        async def look(session: zab.Session) -> dict[str, str]:
            return (await _read(session, kind, name))[0]

        return await at_the_store(session, look)

    async def change(
        self, session: zab.Session | None, kind: str, name: str, change: Callable[[dict[str, str]], dict[str, str]]
    ) -> None:
        """And have every broker hear of it."""

        async def write(session: zab.Session) -> None:
            for _ in range(TRIES_MAX):
                values, version = await _read(session, kind, name)
                path, data = znodes.config_path(kind, name), znodes.config(change(values))
                try:
                    if version is None:
                        await session.create(path, data)
                    else:
                        await session.set(path, data, version=version)
                except (zab.BadVersion, zab.NodeExists, zab.NoNode):
                    continue
                await session.create(CHANGE, znodes.config_change(kind, name), sequential=True)
                return
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{path} changes too quickly")

        await at_the_store(session, write)

    # -- hearing of it -------------------------------------------------------------------------------------------

    async def run(self, session: zab.Session) -> None:
        """For as long as the session lasts: what is wanted is read, and what changed is read again."""
        for topic in self._known:
            self._wanted[topic] = None  # nobody was there to hear of what happened meanwhile
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read_wanted, session)
            nursery.start_soon(self._hear, session)

    async def _read_wanted(self, session: zab.Session) -> None:
        while True:
            while not self._wanted:
                self._bell = trio.Event()
                await self._bell.wait()
            topic = next(iter(self._wanted))
            try:
                values, _ = await _read(session, TOPICS, topic)
            except DamagedNode as error:
                self._log.grumble("damaged", topic, why=error)
                values = {}
            self._wanted.pop(topic, None)
            before = self._known.get(topic)
            self._known[topic] = values
            if values != before:
                self.apply(topic, self._config(topic, values))

    async def _hear(self, session: zab.Session) -> None:
        async with session.watcher() as heard:
            while True:
                names = await session.children(znodes.CONFIG_CHANGES, heard)
                numbered = sorted((int(name[-10:]), name) for name in names if name[-10:].isdecimal())
                for number, name in numbered:
                    if self._seen is not None and number > self._seen:
                        await self._changed(session, name)
                self._seen = numbered[-1][0] if numbered else (self._seen or 0)
                await anext(heard)

    async def _changed(self, session: zab.Session, name: str) -> None:
        path = f"{znodes.CONFIG_CHANGES}/{name}"
        try:
            data, _ = await session.get(path)
            kind, _, entity = znodes.read_config_change(path, data).partition("/")
        except (zab.NoNode, DamagedNode) as error:
            self._log.grumble("damaged", path, why=error)
            return
        if kind == TOPICS and entity in self._known:
            self._want(entity)


async def _read(session: zab.Session, kind: str, name: str) -> tuple[dict[str, str], int | None]:
    path = znodes.config_path(kind, name)
    try:
        data, stat = await session.get(path)
    except zab.NoNode:
        return {}, None
    return znodes.read_config(path, data), stat.version


def replaced(values: Mapping[str, str]) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda before: dict(values)


def merged(
    changes: Iterable[tuple[str, int, str | None]], usual: Mapping[str, str]
) -> Callable[[dict[str, str]], dict[str, str]]:
    """Key by key: set, taken back, or added to or taken from a list: that of the topic, or else the usual one."""
    listed = list(changes)

    def change(before: dict[str, str]) -> dict[str, str]:
        after = dict(before)
        for key, operation, text in listed:
            if operation == SET:
                after[key] = _present(key, text)
            elif operation == DELETE:
                after.pop(key, None)
            elif operation in (APPEND, SUBTRACT):
                if TYPES.get(key) != "list":
                    raise KafkaError(ErrorCode.INVALID_CONFIG, f"{key} is no list: nothing can be added or taken away")
                named = _present(key, text).split(",")
                held = [one for one in after.get(key, usual.get(key, "")).split(",") if one and one not in named]
                after[key] = ",".join(held + named if operation == APPEND else held)
            else:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key}: there is no operation {operation}")
        return after

    return change


def _present(key: str, text: str | None) -> str:
    if text is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{key} has no value")
    return text
