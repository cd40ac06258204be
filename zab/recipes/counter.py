"""A counter: a number in a node, changed by compare-and-set.

<path>   the number as Python writes it, in ASCII; with `curator` four bytes, as in Apache Curator's SharedCount;
         empty: the default
"""

from __future__ import annotations

import struct
from typing import Generic, TypeVar

from zab.core.argument_names import checks_methods
from zab.core.errors import ConfigError, OutcomeUnknown
from zab.recipes.recipe_errors import Contended
from zab.recipes.recipe_settings import DEFAULT_RECIPES, RecipeSettings
from zab.session.api import Session
from zab.session.session_errors import BadVersion, NoNode

Number = TypeVar("Number", int, float)


@checks_methods
class Counter(Generic[Number]):
    """A counter of the type of its default, int or float. It shares its format with kazoo's counter.

    default  the value while the node is missing or empty: an int, or without `curator` a float; else `ConfigError` is
             raised
    curator  use the format of Apache Curator's SharedCount: an int of 32 bits
    """

    def __init__(
        self,
        session: Session,
        path: str,
        default: Number = 0,
        *,
        curator: bool = False,
        settings: RecipeSettings = DEFAULT_RECIPES,
    ) -> None:
        if type(default) not in (int, float) or (curator and type(default) is not int):
            raise ConfigError(f"a counter{' of Curator' * curator} cannot count {type(default).__name__}s")
        self.session = session
        self.path = path
        self.default: Number = default
        self.curator = curator
        self.settings = settings

    async def get(self) -> Number:
        """Return the value at this session's server. Call `session.sync()` first to get the newest.

        Create the node if it is missing. Raise `ConfigError` if its data are no number of the counter's type.
        """
        value, _ = await self._read()
        return value

    async def add(self, amount: Number) -> Number:
        """Add an amount, which may be negative, and return the new value.

        Raise `OutcomeUnknown` if it may or may not have been added, `Contended` if other clients were faster
        `RecipeSettings.attempts_max` times in a row, and `ConfigError` if the amount or the node's data are not of the
        counter's type, or if the sum does not fit into the 32 bits of a `curator` counter.
        """
        kind = type(self.default)
        if type(amount) is not kind:
            raise ConfigError(f"{self.path} counts {kind.__name__}s, not {type(amount).__name__}s")
        for _ in range(self.settings.attempts_max):
            before, version = await self._read()
            after: Number = before + amount
            if await self._write(self._encode(after), version):
                return after
        raise Contended(f"{self.path}: changed by others {self.settings.attempts_max} times in a row")

    async def _read(self) -> tuple[Number, int]:
        while True:
            try:
                data, stat = await self.session.get(self.path)
            except NoNode:
                await self.session.ensure_path(self.path, self.settings.acl)
                continue
            return self._decode(data) if data else self.default, stat.version

    async def _write(self, data: bytes, version: int) -> bool:
        doubt = False
        while True:
            try:
                await self.session.set(self.path, data, version)
            except OutcomeUnknown:
                doubt = True  # try again: at this version, the write succeeds at most once
            except BadVersion:
                if doubt:
                    found, stat = await self.session.get(self.path)
                    if stat.version != version + 1 or found == data:
                        raise OutcomeUnknown(
                            f"{self.path}: it is unknown whether this client made the change"
                        ) from None
                return False
            else:
                return True

    def _encode(self, value: Number) -> bytes:
        if not self.curator:
            return repr(value).encode("ascii")
        try:
            return struct.pack(">i", value)
        except struct.error:
            raise ConfigError(f"{self.path}: {value} exceeds the 32 bits of a Curator counter") from None

    def _decode(self, data: bytes) -> Number:
        kind = type(self.default)
        try:
            return kind(struct.unpack(">i", data)[0] if self.curator else data.decode("ascii"))
        except (ValueError, struct.error):
            shown = f"{data[:32]!r}"
            raise ConfigError(f"{self.path} holds {shown}, which this counter cannot read as {kind.__name__}") from None
