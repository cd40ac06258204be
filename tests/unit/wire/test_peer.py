from __future__ import annotations

from contextlib import suppress
from typing import Any, get_args

import msgpack
import pytest
from attrs import fields
from hypothesis import given, settings
from hypothesis import strategies as st

from zab.core import messages
from zab.core.batch import Batch, pack
from zab.core.ensemble import Ensemble, Group, Role, Server
from zab.core.errors import RemoteProtocolError, WireError
from zab.core.messages import TO_LEADER, Message, Notification, Propose, State
from zab.core.zxid import EPOCH_MAX, Epoch, ServerId, Zxid, make
from zab.wire.frames import FrameReader
from zab.wire.greeting import VERSION, Greeting, Hello, WrongPeer
from zab.wire.peer import SHAPES, Channel, PeerMessage, decode, encode
from zab.wire.relay_messages import Relay

# -- every message there is -----------------------------------------------------------------------------

servers = st.integers(1, 255).map(ServerId)
zxids = st.builds(make, st.integers(0, EPOCH_MAX), st.integers(0, 2**32 - 1))
txn_zxids = st.builds(make, st.integers(1, EPOCH_MAX), st.integers(1, 2**31))
epochs = st.integers(0, EPOCH_MAX).map(Epoch)
numbers = st.integers(0, 2**63 - 1)
digests = st.integers(0, 2**32 - 1)
batches = st.builds(pack, txn_zxids, st.lists(st.binary(max_size=40), min_size=1, max_size=20), st.booleans())
texts = st.text(st.characters(codec="utf-8"), max_size=50)


@st.composite
def ensembles(draw: st.DrawFn) -> Ensemble:
    ids = draw(st.lists(servers, min_size=1, max_size=5, unique=True))
    members = tuple(
        Server(sid, draw(st.sampled_from(["localhost", "10.0.0.1", "::1"])), 2888, 3888, draw(st.sampled_from(Role)))
        for sid in ids
    )
    voters = tuple(sorted(server.id for server in members if server.role is Role.PARTICIPANT))
    grouped = draw(st.booleans())
    groups = (Group(1, voters),) if voters and grouped else ()
    return Ensemble(members, draw(zxids), groups)


BY_FIELD: dict[str, st.SearchStrategy[Any]] = {
    "accepted_epoch": epochs,
    "after": zxids,
    "batch": batches,
    "body": st.binary(max_size=100),
    "committed": zxids,
    "common": zxids,
    "count": numbers,
    "counts": st.booleans(),
    "forgotten": st.booleans(),
    "current_epoch": epochs,
    "data": st.binary(max_size=100),
    "designated": servers,
    "digest": digests,
    "ensemble": ensembles(),
    "ensemble_version": zxids,
    "epoch": epochs,
    "error": texts,
    "expect": st.none() | zxids,
    "first": numbers,
    "host": texts,
    "joining": st.lists(texts, max_size=3).map(tuple),
    "last": zxids | st.just(Zxid(-1)),
    "leader": servers | st.just(ServerId(-1)),
    "leaving": st.lists(servers, max_size=3).map(tuple),
    "members": st.none() | texts,
    "number": numbers,
    "observer": st.booleans(),
    "pending": st.none() | ensembles(),
    "origin": st.binary(min_size=8, max_size=8),
    "port": st.integers(0, 65535),
    "purpose": texts,
    "reason": texts,
    "refused": st.lists(st.tuples(numbers, texts), max_size=3).map(tuple),
    "requests": st.lists(st.binary(max_size=40), max_size=10).map(tuple),
    "round": numbers,
    "server": servers,
    "state": st.sampled_from(State),
    "checksum": st.binary(min_size=16, max_size=16),
    "size": numbers,
    "total": numbers,
    "version": st.just(VERSION),
    "zxid": zxids,
}
SPECIAL: dict[tuple[str, str], st.SearchStrategy[Any]] = {
    ("Notification", "epoch"): epochs | st.just(Epoch(-1)),
    ("Notification", "zxid"): zxids | st.just(Zxid(-1)),
    ("Diff", "digest"): st.none() | digests,
    ("Trunc", "digest"): st.none() | digests,
    ("AckEpoch", "digest"): st.none() | digests,
    ("SnapBegin", "digest"): st.none() | digests,
    ("SnapResume", "digest"): st.none() | digests,
    ("ReconfigureReply", "zxid"): st.none() | zxids,
    ("Hello", "ensemble"): texts,
}


def any_of(kind: type[Any]) -> st.SearchStrategy[Any]:
    names = [field.name for field in fields(kind)]
    return st.builds(kind, **{name: SPECIAL.get((kind.__name__, name), BY_FIELD[name]) for name in names})


shapes = [(channel, shape) for channel, shapes in SHAPES.items() for shape in shapes]
any_message = st.one_of(*(st.tuples(st.just(channel), any_of(shape.type)) for channel, shape in shapes))


def test_the_table_knows_every_message_and_no_tag_twice() -> None:
    known = {shape.type for _, shape in shapes}
    assert known == set(get_args(Message)) | set(get_args(Relay)) | set(get_args(Greeting))
    assert len({shape.tag for _, shape in shapes}) == len(shapes)


def test_every_message_is_on_its_channel() -> None:
    to_leader = {shape.type for shape in SHAPES[Channel.TO_LEADER]}
    assert to_leader >= set(TO_LEADER)
    assert not to_leader & {shape.type for shape in SHAPES[Channel.TO_LEARNER]}


def test_shipped_tags_are_for_ever() -> None:
    """Append to this list; changing a line of it means that two versions can no longer talk."""
    table = {shape.tag: (shape.type.__name__, len(shape.kinds)) for _, shape in shapes}
    assert table == {
        1: ("Hello", 6),
        2: ("Welcome", 2),
        3: ("Unwelcome", 1),
        10: ("Notification", 7),
        20: ("FollowerInfo", 3),
        21: ("AckEpoch", 5),
        22: ("AckNewLeader", 1),
        23: ("Ack", 1),
        24: ("Pong", 1),
        25: ("BarrierRequest", 1),
        26: ("Forward", 4),
        27: ("CatchUpRequest", 1),
        28: ("ReconfigureRequest", 5),
        29: ("LeaderMessage", 1),
        30: ("Veto", 6),
        31: ("SnapHeld", 3),
        40: ("LeaderInfo", 1),
        41: ("Diff", 2),
        42: ("Trunc", 2),
        43: ("SnapBegin", 2),
        44: ("SnapChunk", 1),
        45: ("SnapEnd", 0),
        46: ("NewLeader", 2),
        47: ("UpToDate", 1),
        48: ("Propose", 1),
        49: ("Commit", 1),
        50: ("CommitAndActivate", 2),
        51: ("Inform", 1),
        52: ("InformAndActivate", 2),
        53: ("Ping", 2),
        54: ("BarrierReply", 2),
        55: ("Refusals", 3),
        56: ("CatchUpPoint", 2),
        57: ("ReconfigureReply", 4),
        58: ("SnapPiece", 1),
        59: ("MemberMessage", 1),
        60: ("SnapResume", 4),
    }


# -- messages survive the wire, and nothing else does ----------------------------------------------------


def payload_of(message: PeerMessage) -> bytes:
    (payload,) = FrameReader(1 << 20).feed(encode(message))
    return payload


@given(any_message)
@settings(derandomize=True, max_examples=1000)
def test_every_message_survives_the_wire(case: tuple[Channel, PeerMessage]) -> None:
    channel, message = case
    decoded = decode(channel, payload_of(message))
    assert decoded == message
    assert type(decoded) is type(message)


@pytest.mark.parametrize(("channel", "shape"), shapes, ids=lambda value: getattr(value, "type", value))
def test_every_kind_of_message_survives_the_wire(channel: Channel, shape: Any) -> None:
    @given(any_of(shape.type))
    @settings(derandomize=True, max_examples=20)
    def survives(message: PeerMessage) -> None:
        assert decode(channel, payload_of(message)) == message

    survives()


def test_a_batch_arrives_as_the_bytes_that_were_packed() -> None:
    batch = pack(make(1, 1), [b"a", b"b" * 300])
    assert decode(Channel.TO_LEARNER, payload_of(Propose(batch))).batch.body == batch.body


@given(st.sampled_from(Channel), st.binary(max_size=60))
@settings(derandomize=True, max_examples=1000)
def test_noise_yields_only_wire_errors(channel: Channel, noise: bytes) -> None:
    with suppress(WireError):
        decode(channel, noise)


@given(any_message, st.data())
@settings(derandomize=True, max_examples=500)
def test_damaged_messages_yield_only_wire_errors(case: tuple[Channel, PeerMessage], data: st.DataObject) -> None:
    channel, message = case
    payload = bytearray(payload_of(message))
    payload[data.draw(st.integers(0, len(payload) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(RemoteProtocolError):
        decoded = decode(channel, bytes(payload))
        if type(decoded) is Propose:
            decoded.batch.payloads()


@given(any_message, st.data())
@settings(derandomize=True, max_examples=500)
def test_a_truncated_message_is_an_error(case: tuple[Channel, PeerMessage], data: st.DataObject) -> None:
    channel, message = case
    payload = payload_of(message)
    with pytest.raises(WireError):
        decode(channel, payload[: data.draw(st.integers(0, len(payload) - 1))])


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | texts | st.binary(max_size=10),
    lambda children: st.lists(children, max_size=4),
    max_leaves=6,
)


@given(st.sampled_from(shapes), st.lists(plain, max_size=7))
@settings(derandomize=True, max_examples=1000)
def test_wrong_types_yield_only_wire_errors(case: tuple[Channel, Any], values: list[Any]) -> None:
    channel, shape = case
    try:
        decoded = decode(channel, msgpack.packb([shape.tag, *values]))
    except WireError:
        return
    assert len(values) == len(fields(type(decoded)))


@pytest.mark.parametrize(
    ("channel", "values", "says"),
    [
        (Channel.TO_LEADER, [23, 1.0], "Ack.zxid"),
        (Channel.TO_LEADER, [23, True], "Ack.zxid"),
        (Channel.TO_LEADER, [23, -1], "Ack.zxid"),
        (Channel.TO_LEADER, [23, 1 << 63], "Ack.zxid"),
        (Channel.TO_LEADER, [23], "Ack has 1 fields, not 0"),
        (Channel.TO_LEADER, [23, 1, 2], "Ack has 1 fields, not 2"),
        (Channel.TO_LEARNER, [23, 1], "tag 23 is not allowed on this link"),
        (Channel.TO_LEADER, [99], "tag 99 is not allowed on this link"),
        (Channel.TO_LEADER, ["Ack"], "begins with a tag"),
        (Channel.TO_LEADER, [True, 1], "begins with a tag"),
        (Channel.TO_LEADER, [], "begins with a tag"),
        (Channel.TO_LEADER, 23, "begins with a tag"),
        (Channel.TO_LEADER, {23: 1}, "does not unpack"),
        (Channel.TO_LEADER, [26, 1, b"short", 0, []], "Forward.origin"),
        (Channel.TO_LEADER, [26, 1, b"8 bytes.", 0, [b"", "text"]], "Forward.requests"),
        (Channel.TO_LEARNER, [48, [make(1, 1), 0, b"\x90", False]], "Propose.batch"),
        (Channel.TO_LEARNER, [48, [make(1, 0), 1, b"\x91\xc4\x00", False]], "Propose.batch"),
        (Channel.TO_LEARNER, [48, [make(1, 1), 2, b"\x91\xc4\x00", False]], "must be a list of 2 payloads"),
        (Channel.TO_LEARNER, [48, [make(1, 2**32 - 1), 2, b"\x92\xc4\x00\xc4\x00", False]], "Propose.batch"),
        (Channel.TO_LEARNER, [48, [make(1, 1), 1, b"\x91\xc4\x00"]], "Propose.batch"),
        (Channel.ELECTION, [10, 4, 1, 0, 0, 1, "version=0", None], "Notification.state"),
        (Channel.ELECTION, [10, 0, 1, 0, 0, 1, "server.x=?", None], "Notification.ensemble"),
        (Channel.ELECTION, [10, 0, 1, -2, 0, 1, "version=0", None], "Notification.zxid"),
    ],
)
def test_error_message_names_the_violation(channel: Channel, values: object, says: str) -> None:
    with pytest.raises(WireError, match=says):
        decode(channel, msgpack.packb(values))


@pytest.mark.parametrize(
    "bomb",
    [
        b"\xdd\xff\xff\xff\xff",  # a list that claims four billion items
        b"\x92\x1a" + b"\xdd\x00\x0f\x00\x00" * 400,  # lists of a million in lists of a million
        b"\xdf\xff\xff\xff\xff",
        b"\x91" * 5000,
        b"\xc7\x01\x05x",
        b"\xd6\xff\x00\x00\x00\x00",  # msgpack's own timestamp
    ],
)
def test_huge_lengths_are_refused_before_allocation(bomb: bytes) -> None:
    for channel in Channel:
        with pytest.raises(WireError):
            decode(channel, bomb)


def test_greeting_of_another_version_differs_from_noise() -> None:
    with pytest.raises(WrongPeer, match="speaks version 3 of the peer protocol, and this server version 2"):
        decode(Channel.GREETING, msgpack.packb([1, 3, "whatever", "it", "holds", "by", "then"]))
    with pytest.raises(WrongPeer, match="version 0"):
        decode(Channel.GREETING, payload_of(Hello(0, "zab", ServerId(1), "learner", "", 0)))


def test_vote_of_an_observer_round_trips() -> None:
    ensemble = Ensemble((Server(ServerId(1), "localhost", 1, 2),))
    vote = Notification(State.LOOKING, ServerId(-1), Zxid(-1), Epoch(-1), 1, ensemble)
    assert decode(Channel.ELECTION, payload_of(vote)) == vote


def test_every_batch_size_is_recognised_by_its_head() -> None:
    for count in (1, 15, 16, 65535, 65536):
        batch = pack(make(1, 1), [b""] * count)
        assert decode(Channel.TO_LEARNER, payload_of(Propose(batch))) == messages.Propose(batch)


def test_a_batch_is_a_batch() -> None:
    assert isinstance(decode(Channel.TO_LEARNER, payload_of(Propose(pack(make(1, 1), [b""])))).batch, Batch)
