"""The messages on the election port of Apache ZooKeeper: an opening, then notifications in frames.

    opening        version, server id, length, address[|address...]
    notification   state, leader, zxid, round, epoch, version of the notification, configuration

The server that connects sends the opening; there is no reply to it. What each side sends afterwards are frames
(`zab.wire.frames`) with a notification each, in both directions. The link of the smaller id is closed by the other
side, which connects back to the address in the opening: the same as in `zab.service.election_link`.

Differences from our own messages (`zab.core.messages.Notification`):

- A notification has no `pending` membership. A server that a change adds learns of it from its leader only.
- A server without a vote of its own sends the least number as leader; an observer also as zxid and epoch. Ours sends
  `NO_VOTE`, which is -1. A zxid of -1 with a leader is the vote of a server whose history may be incomplete, on
  both sides.
- The opening may name several addresses. Nothing answers it: a server that does not want the connection closes it.
- Only versions of ZooKeeper from 3.5 on have a configuration in the notification. Older ones are refused.
"""

from __future__ import annotations

import re
from struct import Struct
from typing import Final, TypeAlias

from attrs import frozen

from zab.core.addresses import with_port
from zab.core.ensemble import Ensemble
from zab.core.errors import ConfigError, WireError
from zab.core.messages import Notification, State
from zab.core.zxid import COUNTER_MAX, EPOCH_MAX, UNKNOWN, Epoch, ServerId, Zxid
from zab.wire.frames import frame

ONE_ADDRESS: Final = -65536
ADDRESS_LIST: Final = -65535
ADDRESS_BYTES_MAX: Final = 2048
ANONYMOUS: Final = ServerId((1 << 63) - 1)
"""The server id in the opening of an observer that has none. The receiver numbers it with a negative id."""
NOTIFICATION_BYTES_MAX: Final = 512 << 10
"""The largest frame on an election link."""
NOTIFICATION_VERSION: Final = 2
_HOST: Final = re.compile(r"[^|\s]+")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_LEAST: Final = -(1 << 63)
_NOBODY: Final = -1
_OPENING: Final = Struct(">qqi")
_NOTIFICATION: Final = Struct(">iqqqqii")
_ZXID_MAX: Final = (EPOCH_MAX << 32) + COUNTER_MAX
_INT64_MAX: Final = (1 << 63) - 1

Address: TypeAlias = tuple[str, int]


# -- the opening ---------------------------------------------------------------------------------------


@frozen
class ElectionOpening:
    """The first bytes of a connection: the id and the election addresses of the server that connects.

    `as_list` is True if the peer uses the newer version of the message, which allows more than one address.
    """

    sid: ServerId
    addresses: tuple[Address, ...]
    as_list: bool = False


def encode_opening(opening: ElectionOpening) -> bytes:
    assert opening.as_list or len(opening.addresses) == 1, "several addresses need the newer version"
    raw = "|".join(with_port(*address) for address in opening.addresses).encode()
    return _OPENING.pack(ADDRESS_LIST if opening.as_list else ONE_ADDRESS, opening.sid, len(raw)) + raw


class ElectionOpeningReader:
    """Read the opening of a connection. Afterwards `rest` has the bytes that follow it."""

    def __init__(self) -> None:
        self.rest = b""
        self._held = b""

    @property
    def missing_bytes(self) -> int:
        """The number of bytes that may be received without reading past the opening."""
        held = self._held
        end = _OPENING.size + (_OPENING.unpack_from(held)[2] if len(held) >= _OPENING.size else 0)
        return end - len(held)

    def feed(self, data: bytes) -> ElectionOpening | None:
        """Return the opening, or None if it is not complete yet. Raise `WireError` if it is malformed."""
        held = self._held = self._held + data
        if len(held) >= 8 and (version := int.from_bytes(held[:8], "big", signed=True)) not in (
            ONE_ADDRESS,
            ADDRESS_LIST,
        ):
            older = "from a server older than ZooKeeper 3.5" if version >= 0 else f"version {version}"
            raise WireError(f"an opening of an election connection that is not supported: {older}")
        if len(held) < _OPENING.size:
            return None
        version, sid, length = _OPENING.unpack_from(held)
        if not 0 < length <= ADDRESS_BYTES_MAX:
            raise WireError(f"an address of {length} bytes: 1 to {ADDRESS_BYTES_MAX} are allowed")
        if sid <= 0:
            raise WireError(f"{sid} is not a server id")
        end = _OPENING.size + length
        if len(held) < end:
            return None
        self.rest, self._held = held[end:], b""
        try:
            written = held[_OPENING.size : end].decode()
        except UnicodeDecodeError:
            raise WireError("the address in the opening is not text") from None
        as_list = version == ADDRESS_LIST
        addresses = tuple(_address(each) for each in (written.split("|") if as_list else (written,)))
        return ElectionOpening(ServerId(sid), addresses, as_list)


def _address(written: str) -> Address:
    host, _, port = written.rpartition(":")
    if not (_HOST.fullmatch(host) and _PORT.fullmatch(port) and int(port) < 65536):
        raise WireError(f"{written!r:.100} is not an address: host:port is expected")
    return host.removeprefix("[").removesuffix("]") if host.startswith("[") else host, int(port)


# -- notifications -------------------------------------------------------------------------------------


def encode_notification(notification: Notification) -> bytes:
    """Return the whole frame of a notification. A pending membership is not sent."""
    config = notification.ensemble.text().encode()
    leader: int = notification.leader
    zxid: int = notification.zxid
    epoch: int = notification.epoch
    if leader == _NOBODY:
        leader = zxid = epoch = _LEAST
    state, last = notification.state, notification.round
    return frame(_NOTIFICATION.pack(state, leader, zxid, last, epoch, NOTIFICATION_VERSION, len(config)) + config)


def decode_notification(payload: bytes) -> Notification:
    """Return the notification in a frame, or raise `WireError`. The connection can still be used after an error."""
    if len(payload) < _NOTIFICATION.size:
        raise WireError(f"a notification of {len(payload)} bytes: at least {_NOTIFICATION.size} are needed")
    number, leader, zxid, last, epoch, version, length = _NOTIFICATION.unpack_from(payload)
    if version < NOTIFICATION_VERSION:
        raise WireError(f"a notification of version {version}; {NOTIFICATION_VERSION} is the least that is supported")
    if length != len(payload) - _NOTIFICATION.size:
        raise WireError(f"a configuration of {length} bytes in {len(payload) - _NOTIFICATION.size}")
    try:
        state = State(number)
    except ValueError:
        raise WireError(f"{number} is not the state of a server") from None
    if leader == _LEAST:  # with a zxid and an epoch of its own if the sender is a follower without a vote
        leader, zxid, epoch = _NOBODY, UNKNOWN, -1
    elif not (leader > 0 and UNKNOWN <= zxid <= _ZXID_MAX and -1 <= epoch <= EPOCH_MAX):
        raise WireError(f"a vote for leader {leader} with zxid {zxid:#x} and epoch {epoch}, which are out of range")
    if last < 0:
        raise WireError(f"{last} is not a number of an election")
    ensemble = decode_ensemble(payload[_NOTIFICATION.size :])
    return Notification(state, ServerId(leader), Zxid(zxid), Epoch(epoch), last, ensemble)


def decode_ensemble(raw: bytes) -> Ensemble:
    """Return the membership of a configuration text, or raise `WireError`."""
    try:
        ensemble = Ensemble.parse(raw.decode())
    except (ConfigError, UnicodeDecodeError, ValueError) as error:
        raise WireError(f"not a configuration: {error!s:.300}") from None
    if not 0 <= ensemble.version <= _ZXID_MAX:
        raise WireError(f"a configuration of version {ensemble.version:#x}, which is no zxid")
    return ensemble
