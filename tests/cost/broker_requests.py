"""Hostile requests of every API and version, generated from the schemas of `replica.wire.schemas`.

A shape says how large the lists are and what their elements name; the schema says where lists and names stand. Names
of a field come from its domain: a topic field names topics that exist, topics that do not, or one topic many times.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping
from math import isqrt
from random import Random
from typing import Any, Final

from attrs import frozen

from replica.wire.api import ApiKey
from replica.wire.batch import HEADER_BYTES, MAGIC, PREFIX, seal
from replica.wire.compression import Codec, deflate
from replica.wire.encoding import Unwritable, uvarint
from replica.wire.fields import Api, Field, Kind, fields_of
from replica.wire.messages import ELEMENTS_MAX, encode_request
from replica.wire.records import Record, batch_of, build
from replica.wire.schemas import APIS
from replica.wire.schemas.data_schemas import PRODUCE, ProduceRequest
from tests.kafka_bodies import body_of

Body = dict[str, Any]
TEXT_MAX: Final = 32_767
_INTERNAL: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""They decide who asks; tests of logins send them."""


@frozen
class Known:
    """Names that exist at the broker.

    wide   a topic of `wide_partitions` partitions
    """

    topics: tuple[str, ...]
    wide: str
    wide_partitions: int
    groups: tuple[str, ...]
    transactional_ids: tuple[str, ...]
    topic_ids: tuple[str, ...] = ()
    users: tuple[str, ...] = ("ann",)
    keys: tuple[str, ...] = ("retention.ms", "segment.bytes", "cleanup.policy", "flush.ms")


@frozen
class Shape:
    """How large a request is, and what it names.

    outer          elements of its lists
    inner          elements of lists within them; innermost: of lists within those
    names          unknown: distinct and nowhere; one: the same that exists; known: distinct and existing; empty
    text           bytes of each text that names nothing
    blob           bytes of each field of bytes
    null           what may be null is null; `inner`: within lists only
    client         bytes of the client id
    tags           tagged fields at the end: unknown ones, or the field with tag 0 again and again if `repeats`
    """

    name: str
    outer: int = 1
    inner: int = 1
    innermost: int = 1
    names: str = "known"
    text: int = 4
    blob: int = 16
    null: bool | str = False
    client: int = 4
    tags: int = 0
    repeats: bool = False


def shapes(size: int, elements: int) -> tuple[Shape, ...]:
    """`size`: bytes that one field may have; `elements`: in all lists together."""
    elements = min(elements, ELEMENTS_MAX)
    side = isqrt(elements)
    return (
        Shape("small"),
        Shape("everything", null=True),
        Shape("unknown", elements // 2, names="unknown"),
        Shape("empty names", elements // 2, names="empty"),
        Shape("repeated", elements // 2, names="one"),
        Shape("existing", elements // 2, names="known"),
        Shape("everything of one", elements // 2, names="one", null="inner"),
        Shape("deep", 1, elements - 1, names="one"),
        Shape("deepest", 1, 1, elements - 2, names="one"),
        Shape("square", side, side - 1, names="known"),
        Shape("square of one", side, side - 1, names="one"),
        Shape("long names", max(size // TEXT_MAX, 1), text=TEXT_MAX, names="unknown"),
        Shape("blobs", blob=size),
        Shape("client id", client=TEXT_MAX),
        Shape("tags", tags=elements),
        Shape("tags to the size limit", tags=size // 4),
        Shape("one tag again and again", tags=size // 4, repeats=True),
    )


_DOMAINS: Final[Mapping[str, str]] = {
    "topic_data.name": "topic",
    "topics.name": "topic",
    "topics.topic": "topic",
    "topic_partitions.topic": "topic",
    "forgotten_topics_data.topic": "topic",
    "topic_names": "topic",
    "topic_id": "topic id",
    "group_id": "group",
    "groups": "group",
    "groups_names": "group",
    "transactional_id": "transactional id",
    "transactional_ids": "transactional id",
    "coordinator_keys": "group",
    "key": "group",
    "configs.name": "key",
    "configuration_keys": "key",
    "ops.key": "rate",
    "entity_type": "entity",
    "resources.resource_name": "topic",
    "resource_name": "topic",
    "resource_name_filter": "topic",
    "users.name": "user",
    "deletions.name": "user",
    "upsertions.name": "user",
    "principal": "principal",
    "principal_filter": "principal",
    "host": "host",
    "host_filter": "host",
    "protocol_type": "consumer",
}
_NUMBERS: Final[Mapping[str, int]] = {
    "acks": 1,
    "replica_id": -1,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 10,
    "resource_type": 2,
    "resource_type_filter": 2,
    "resource_pattern_type": 3,
    "pattern_type_filter": 3,
    "operation": 3,
    "permission_type": 3,
    "endpoint_type": 1,
    "session_timeout_ms": 6_000,
    "rebalance_timeout_ms": 0,
    "transaction_timeout_ms": 60_000,
    "timeout_ms": 0,
    "num_partitions": 1,
    "replication_factor": 1,
    "match_type": 2,
    "mechanism": 1,
    "iterations": 4096,
    "retention_time_ms": -1,
    "generation_id": -1,
    "session_epoch": -1,
    "current_leader_epoch": -1,
    "last_fetched_epoch": -1,
    "producer_epoch": -1,
    "timestamp": -1,
    "replicas": 1,
    "broker_ids": 1,
}
"""Values with which a request is taken up; 0 for all others. Edges of types are for the test of edges."""
_BITS: Final = {Kind.I8: 8, Kind.I16: 16, Kind.I32: 32, Kind.I64: 64}
_INDEXES: Final = frozenset({"index", "partition", "partition_index", "partition_indexes", "partitions"})


@frozen
class Maker:
    """Fills the fields of one request in one shape."""

    known: Known
    shape: Shape
    random: Random
    edge: tuple[str, bool] | None = None
    """A number that is alone at an edge of its type, and whether at the greatest."""

    def body(self, api: Api[Any, Any], version: int) -> Body:
        return self._struct(fields_of(api.request), version, "", 0, 0)

    def _struct(self, fields: tuple[Field, ...], version: int, path: str, depth: int, place: int) -> Body:
        return {one.name: self._value(one, version, path, depth, place) for one in fields if one.is_in(version)}

    def _value(self, one: Field, version: int, path: str, depth: int, place: int) -> Any:
        null = self.shape.null is True or (depth > 0 and self.shape.null == "inner")
        if version >= one.null and one.name in ("group_instance_id", "cluster_id"):
            return None
        if null and version >= one.null and (one.many or self.shape.null is True):
            return None
        if one.tag is not None and one.kind is Kind.STRUCT:
            return None
        if one.many:
            count = 0 if null else (self.shape.outer, self.shape.inner, self.shape.innermost)[min(depth, 2)]
            return [self._single(one, version, path, depth + 1, each) for each in range(count)]
        return self._single(one, version, path, depth, place)

    def _single(self, one: Field, version: int, path: str, depth: int, place: int) -> Any:
        match one.kind:
            case Kind.STRUCT:
                return self._struct(one.fields, version, one.name, depth, place)
            case Kind.TEXT:
                return self._text(_DOMAINS.get(f"{path}.{one.name}", _DOMAINS.get(one.name, "")), place)
            case Kind.UUID:
                return self._topic_id(place) if place % 2 else None
            case Kind.BYTES:
                return self._bytes(one.name)
            case Kind.BOOL:
                return one.name not in ("allow_auto_topic_creation", "committed", "remove")
            case Kind.F64:
                return float(1 << 20)
            case _:
                if self.edge is not None and self.edge[0] == f"{path}.{one.name}":
                    greatest = (1 << (_BITS[one.kind] - 1)) - 1
                    return greatest if self.edge[1] else -greatest - 1
                return place if one.name in _INDEXES else _NUMBERS.get(one.name, 0)

    def _topic_id(self, place: int) -> str | None:
        ids = self.known.topic_ids
        match self.shape.names:
            case "known" if ids:
                return ids[place % len(ids)]
            case "unknown":
                return f"{place:022}"
            case _:
                return None

    def _bytes(self, name: str) -> bytes:
        if name == "records":
            return batch_of([(b"k", bytes(self.shape.blob))], 1)
        return bytes(self.shape.blob)

    def _text(self, domain: str, place: int) -> str:
        match domain:
            case "consumer":
                return "consumer"
            case "host":
                return "*"
            case "rate":
                return "producer_byte_rate"
            case "entity":
                return ("client-id", "user")[place % 2]
            case "principal":
                return f"User:{self._unknown(place)}"
            case _:
                pass
        if self.shape.names == "empty":
            return ""
        if self.shape.names == "unknown" or domain == "":
            return self._unknown(place)
        names = self._names(domain)
        return names[place % len(names)] if self.shape.names == "known" else names[0]

    def _names(self, domain: str) -> tuple[str, ...]:
        known = self.known
        match domain:
            case "topic":
                return known.topics if self.shape.names == "known" else (known.wide,)
            case "group":
                return known.groups
            case "transactional id":
                return known.transactional_ids
            case "key":
                return known.keys
            case _:
                return known.users

    def _unknown(self, place: int) -> str:
        digits, made = string.ascii_lowercase, ""
        while place or not made:
            place, digit = divmod(place, len(digits))
            made += digits[digit]
        return made.rjust(self.shape.text, "_")


# -- frames ------------------------------------------------------------------------------------------------


@frozen
class Hostile:
    """elements   of all its lists; frame: with its length in front"""

    api: ApiKey
    version: int
    shape: str
    frame: bytes
    elements: int

    def __str__(self) -> str:
        return f"{self.api.name} v{self.version} {self.shape} ({len(self.frame)} bytes, {self.elements} elements)"


def request(
    known: Known,
    key: ApiKey,
    version: int,
    shape: Shape,
    random: Random,
    edge: tuple[str, bool] | None = None,
) -> Hostile | None:
    """Return None if the schema has no such request, because a text does not fit where it would stand."""
    api = APIS[key]
    body = Maker(known, shape, random, edge).body(api, version)
    try:
        frame = encode_request(api, version, 7, "c" * shape.client, body_of(api.request, body))
    except Unwritable:
        return None
    if shape.tags:
        if version < api.flexible:
            return None
        frame = with_tags(frame, shape.tags, shape.repeats)
    return Hostile(key, version, f"{shape.name} {edge or ''}".strip(), frame, elements_of(body))


def numbers_of(fields: tuple[Field, ...], version: int, path: str = "") -> Iterator[str]:
    for one in fields:
        if one.is_in(version):
            if one.kind in _BITS:
                yield f"{path}.{one.name}"
            yield from numbers_of(one.fields, version, one.name)


def edges(known: Known, key: ApiKey, version: int, random: Random) -> Iterator[Hostile]:
    """Small requests with one number at the edge of its type, and all others as usual."""
    for path in numbers_of(fields_of(APIS[key].request), version):
        for greatest in (False, True):
            made = request(known, key, version, Shape("edge"), random, (path, greatest))
            if made is not None:
                yield made


def batches(random: Random) -> Iterator[tuple[str, bytes]]:
    """Record batches for Produce: bombs of every codec, lies about counts, many records, times at edges, old magics."""
    zeros = bytes(8 << 20)
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        yield f"{codec.name} bomb", batch_of([(None, zeros)] * 12, 1, codec=codec)
        yield f"{codec.name} tiny records", batch_of([(None, None)] * 50_000, 1, codec=codec)
        raw = deflate(codec, zeros)
        yield f"{codec.name} lies", _sealed(raw * 20, int(codec), (1 << 31) - 1)
        yield f"{codec.name} cut", _sealed(raw[: len(raw) // 2], int(codec), 1)
        yield f"{codec.name} noise", _sealed(random.randbytes(1 << 16), int(codec), 5)
    yield "tiny records", batch_of([(None, None)] * 50_000, 1)
    yield "headers", build([Record(0, 1, None, None, tuple(("", b"") for _ in range(50_000)))])
    yield "claimed records", _sealed(b"\x0c\0\0\0\1\1\0", 0, (1 << 31) - 1)
    yield "no records", _sealed(b"", 0, 0)
    yield "time at the edge", batch_of([(b"k", b"v")], (1 << 63) - 1)
    yield "negative time", batch_of([(b"k", b"v")], -(1 << 62))
    plain = bytearray(batch_of([(b"k", b"v")], 1))
    for magic in (0, 1, 3, 255):
        plain[16] = magic
        yield f"magic {magic}", bytes(plain)
    yield "batches in a row", batch_of([(b"k", b"v")], 1) * 2_000


def _sealed(body: bytes, attributes: int, count: int) -> bytes:
    """A batch whose checksum is right, whatever it claims."""
    size = HEADER_BYTES - PREFIX.size + len(body)
    return seal((0, size, -1, MAGIC, 0, attributes, max(count - 1, 0), 1, 1, -1, -1, -1, count), body)


def produce(topic: str, batch: bytes, version: int, acks: int = 1) -> bytes:
    parts = [{"index": 0, "records": batch}]
    body = {
        "transactional_id": None,
        "acks": acks,
        "timeout_ms": 0,
        "topic_data": [{"name": topic, "partition_data": parts}],
    }
    return encode_request(PRODUCE, version, 7, "fuzz", body_of(ProduceRequest, body))


def elements_of(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(elements_of, value.values()))
    if isinstance(value, list):
        return len(value) + sum(map(elements_of, value))
    return 0


def with_tags(frame: bytes, count: int, repeats: bool) -> bytes:
    """Put tagged fields in place of the empty ones at the end: unknown ones, or tag 0 with a null, again and again."""
    assert frame.endswith(b"\0")
    tags = b"\0\1\0" * count if repeats else b"".join(uvarint(1_000 + number) + b"\0" for number in range(count))
    inner = frame[4:-1] + uvarint(count) + tags
    return len(inner).to_bytes(4, "big") + inner


def lying(frame: bytes, random: Random, count: int) -> Iterator[bytes]:
    """The frame with lengths and counts that are not true: four bytes or one changed to a large number, or cut off."""
    inner = frame[4:]
    head = 10
    for _ in range(count):
        at = random.randrange(head, max(len(inner), head + 1))
        match random.randrange(3):
            case 0:
                made = inner[:at] + random.choice((b"\x7f\xff\xff\xff", b"\x00\x0f\xff\xff")) + inner[at + 4 :]
            case 1:
                made = inner[:at] + b"\xff\xff\xff\xff\x07" + inner[at + 1 :]
            case _:
                made = inner[:at]
        yield len(made).to_bytes(4, "big") + made


def offered() -> Iterator[tuple[ApiKey, int]]:
    for key, api in APIS.items():
        if key not in _INTERNAL:
            for version in range(api.first, api.last + 1):
                yield key, version
