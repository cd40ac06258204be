"""The type and range of each field of a message, checked once, when it is unpacked.

A `Kind` is a pair of functions. Packing trusts the caller. Unpacking checks everything but the transactions in a batch,
and raises `ValueError`, which `zab.wire.peer.decode` turns into the `WireError` that ends the link.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from attrs import frozen

from zab.core.batch import Batch
from zab.core.ensemble import Ensemble
from zab.core.errors import ConfigError
from zab.core.messages import State
from zab.core.zxid import COUNTER_MAX, EPOCH_MAX, Zxid, counter_of
from zab.wire.relay_messages import ORIGIN_BYTES

INT64_MAX: Final = (1 << 63) - 1
_BYTES_ALONE: Final = frozenset({bytes})
ZXID_MAX: Final = (EPOCH_MAX << 32) + COUNTER_MAX


@frozen
class Kind:
    """The encoding of one field. `pack` is None if the value is sent unchanged."""

    unpack: Callable[[Any], Any]
    pack: Callable[[Any], Any] | None = None


def whole(low: int, high: int) -> Kind:
    """Return the kind of an integer in [low, high]. A bool is refused, although it is an `int` in Python."""

    def unpack(value: object) -> int:
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"{value!r:.40} is not a whole number from {low} to {high}")
        return value

    return Kind(unpack)


def exactly(wanted: type) -> Kind:
    def unpack(value: object) -> object:
        if type(value) is not wanted:
            raise ValueError(f"{type(value).__name__} instead of {wanted.__name__}")
        return value

    return Kind(unpack)


def bytes_of(length: int) -> Kind:
    def unpack(value: object) -> bytes:
        if type(value) is not bytes or len(value) != length:
            raise ValueError(f"not exactly {length} bytes")
        return value

    return Kind(unpack)


def text(chars_max: int) -> Kind:
    def unpack(value: object) -> str:
        if type(value) is not str or len(value) > chars_max:
            raise ValueError(f"not a text of at most {chars_max} characters")
        return value

    return Kind(unpack)


def optional(kind: Kind) -> Kind:
    inner = kind.pack

    def unpack(value: object) -> object:
        return None if value is None else kind.unpack(value)

    def pack(value: object) -> object:
        return None if value is None or inner is None else inner(value)

    return Kind(unpack, None if inner is None else pack)


def listing(kind: Kind, count_max: int) -> Kind:
    """Return the kind of a tuple of at most `count_max` items, all of one kind."""
    inner = kind.pack

    def unpack(value: object) -> tuple[Any, ...]:
        if type(value) is not list or len(value) > count_max:
            raise ValueError(f"not a list of at most {count_max} items")
        return tuple(map(kind.unpack, value))

    def pack(value: tuple[Any, ...]) -> list[Any]:
        return list(value if inner is None else map(inner, value))

    return Kind(unpack, pack)


def listing_of_bytes(count_max: int) -> Kind:
    """Return `listing(BYTES, count_max)` without a call for each item, because all forwarded writes pass here."""

    def unpack(value: object) -> tuple[bytes, ...]:
        if type(value) is not list or len(value) > count_max:
            raise ValueError(f"not a list of at most {count_max} items")
        if not _BYTES_ALONE.issuperset(map(type, value)):
            raise ValueError("a list of bytes contains another type")
        return tuple(value)

    return Kind(unpack, list)


def row(*kinds: Kind) -> Kind:
    """Return the kind of a tuple with one kind for each place. No kind may have a `pack`."""
    assert all(kind.pack is None for kind in kinds)

    def unpack(value: object) -> tuple[Any, ...]:
        if type(value) is not list or len(value) != len(kinds):
            raise ValueError(f"not a row of {len(kinds)} fields")
        return tuple(kind.unpack(item) for kind, item in zip(kinds, value, strict=True))

    return Kind(unpack)


def _unpack_state(value: object) -> State:
    if type(value) is not int:
        raise ValueError(f"{value!r:.40} is not a state")
    return State(value)


def _unpack_ensemble(value: object) -> Ensemble:
    if type(value) is not str:
        raise ValueError("a membership must be text")
    try:
        ensemble = Ensemble.parse(value)
    except ConfigError as error:
        raise ValueError(f"not a valid membership: {error}") from error
    if not 0 <= ensemble.version <= ZXID_MAX:
        raise ValueError(f"a membership has the invalid version {ensemble.version}")
    return ensemble


def _pack_ensemble(value: Ensemble) -> str:
    return value.text()


def _unpack_batch(value: object) -> Batch:
    """Check a batch. Its body goes to the log unchanged, so only the header of the body is read."""
    if type(value) is not list or len(value) != 4:
        raise ValueError("a batch must have four parts")
    first, count, body, config = value
    if type(first) is not int or not 0 < first <= ZXID_MAX or not counter_of(Zxid(first)):
        raise ValueError("a batch must begin with the zxid of a transaction")
    if type(count) is not int or not 0 < count <= COUNTER_MAX - counter_of(Zxid(first)) + 1:
        raise ValueError("a batch must have at least one transaction, and end in the epoch in which it begins")
    if type(body) is not bytes or type(config) is not bool:
        raise ValueError("a batch must be a zxid, a count, bytes and a flag")
    if not body.startswith(_array_head(count)):
        raise ValueError(f"the body of a batch of {count} transactions must be a list of {count} payloads")
    return Batch(Zxid(first), count, body, config)


def _array_head(count: int) -> bytes:
    """Return msgpack's header of a list of `count` items."""
    if count < 16:
        return bytes((0x90 | count,))
    if count < 1 << 16:
        return b"\xdc" + count.to_bytes(2, "big")
    return b"\xdd" + count.to_bytes(4, "big")


def _pack_batch(value: Batch) -> tuple[int, int, bytes, bool]:
    return value.first, value.count, value.body, value.config


BOOL: Final = exactly(bool)
BYTES: Final = exactly(bytes)
CHECKSUM: Final = bytes_of(16)
ORIGIN: Final = bytes_of(ORIGIN_BYTES)
SERVER: Final = whole(0, INT64_MAX)
SERVER_OR_NOBODY: Final = whole(-1, INT64_MAX)
EPOCH: Final = whole(0, EPOCH_MAX)
EPOCH_OR_NONE: Final = whole(-1, EPOCH_MAX)
ZXID: Final = whole(0, ZXID_MAX)
ZXID_OR_UNKNOWN: Final = whole(-1, ZXID_MAX)
NUMBER: Final = whole(0, INT64_MAX)
DIGEST: Final = whole(0, 0xFFFF_FFFF)
STATE: Final = Kind(_unpack_state, int)
ENSEMBLE: Final = Kind(_unpack_ensemble, _pack_ensemble)
BATCH: Final = Kind(_unpack_batch, _pack_batch)
