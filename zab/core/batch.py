"""A batch of transactions: the unit in which history is proposed, logged, committed and applied.

The leader packs the payloads once, and the packed bytes travel unchanged into frames and logs. A batch is unpacked only
if its payloads are needed, for example to apply it or to split it. Its zxids are known without unpacking it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, cast
from zlib import crc32

import msgpack
from attrs import field

from zab.core.errors import RemoteProtocolError
from zab.core.frozen import frozen
from zab.core.zxid import COUNTER_MAX, Zxid, counter_of, show


@frozen
class Batch:
    """`count` transactions with zxids `first`, `first + 1`, ... of one epoch; `body` holds their payloads.

    A membership change is alone in its batch and is marked by `config`; its payload is that of `change_payload`. The
    consensus interprets no other payload.
    """

    first: Zxid
    count: int
    body: bytes
    config: bool = False
    last: Zxid = field(init=False, eq=False, repr=False)
    """The zxid of the last transaction. Computed once, because it is read very often."""

    @last.default
    def _the_last(self) -> Zxid:
        return Zxid(self.first + self.count - 1)

    @property
    def zxids(self) -> Iterable[Zxid]:
        return cast(Iterable[Zxid], range(self.first, self.last + 1))

    @property
    def size(self) -> int:
        return len(self.body)

    def payloads(self) -> list[bytes]:
        """Return the payloads. Raise RemoteProtocolError unless the body unpacks to `count` payloads of bytes."""
        try:
            unpacked = msgpack.unpackb(self.body, use_list=True, max_bin_len=len(self.body))
        except Exception as error:
            raise RemoteProtocolError(f"batch at {show(self.first)}: body does not unpack: {error}") from error
        if type(unpacked) is not list or len(unpacked) != self.count:
            raise RemoteProtocolError(f"batch at {show(self.first)}: body is not a list of {self.count} payloads")
        if set(map(type, unpacked)) != {bytes}:
            raise RemoteProtocolError(f"batch at {show(self.first)}: a payload is not bytes")
        return unpacked

    def after(self, zxid: Zxid) -> Batch:
        """Return the part of this batch after `zxid`, which must be less than `last`."""
        if zxid < self.first:
            return self
        return pack(Zxid(zxid + 1), self.payloads()[zxid - self.first + 1 :], config=self.config)

    def until(self, zxid: Zxid) -> Batch:
        """Return the part of this batch up to and including `zxid`, which must be at least `first`."""
        if zxid >= self.last:
            return self
        return pack(self.first, self.payloads()[: zxid - self.first + 1], config=self.config)


def pack(first: Zxid, payloads: Sequence[bytes], config: bool = False) -> Batch:
    assert payloads, "an empty batch has no zxid"
    assert counter_of(first) + len(payloads) - 1 <= COUNTER_MAX, "a batch stays within one epoch"
    return Batch(first, len(payloads), msgpack.packb(payloads), config)


_END_OF_TEXT: Final = b"\0"


def change_payload(text: str, attached: bytes = b"") -> bytes:
    """Return the payload of a membership change: the new membership, and a payload that the machine applies with it.

    The consensus does not interpret `attached`. It is empty unless the ensemble speaks ZooKeeper's protocol.
    """
    return text.encode() + _END_OF_TEXT + attached if attached else text.encode()


def parts_of_change(payload: bytes) -> tuple[str, bytes]:
    """Return the text and the attached payload of a membership change."""
    text, _, attached = payload.partition(_END_OF_TEXT)
    return text.decode(), attached


def digest_of(payloads: Iterable[bytes], digest: int) -> int:
    """Return the digest of a history that ends with these payloads; `digest` is the digest of the part before them.

    The digest is the CRC-32 of all payloads in order, without separators.
    Two servers whose histories end at one zxid with different digests do not hold the same history.
    """
    return crc32(b"".join(payloads), digest)


def contradict(one: int | None, other: int | None) -> bool:
    """Return whether two digests at one zxid belong to two histories. A digest that is not known contradicts none."""
    return one is not None and other is not None and one != other
