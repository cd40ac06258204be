from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import zookeeper_values as values
from zab.core.errors import DamagedError
from zab.store.acl import OPEN
from zab.wire.disk_compression import CHUNK_BYTES, gunzip, plain, unsnappy, unsnappy_block
from zab.wire.disk_files import Compression
from zab.wire.disk_snapshot import (
    FileDigest,
    FileNode,
    SnapshotReader,
    node_digest,
    snapshot_chunks,
    tree_digest,
)

NOW = 1_700_000_000_000
STAT = (0x100000002, 0x100000002, NOW, NOW, 0, 0, 0, 0, 0x100000002)
ROOT = FileNode("", b"", -1, (0,) * 9)
NODES = [ROOT, FileNode("/a", b"hi", -1, STAT), FileNode("/a/ü", None, 1, STAT)]
SESSIONS = {0x100000ABCDE0001: 30_000, -5: 4_000}
ACLS = {1: OPEN, 2: ((1, "ip", "::1"), (31, "digest", "u:x"))}
DIGEST = FileDigest(0x100000002, 2, (1 << 64) - 1)

SNAPPED = b"".join(snapshot_chunks(SESSIONS, ACLS, NODES, DIGEST, 0x100000002))


def pieces(data: bytes, size: int = 7) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def test_the_smallest_snapshot_byte_for_byte() -> None:
    body = b"ZKSN" + bytes.fromhex(
        "00000002 ffffffffffffffff"  # header
        "00000000 00000000"  # no sessions, no lists
        "00000000 00000000 ffffffffffffffff" + "00" * 60 + "00000001 2f"  # the root, and the end of the nodes
    )
    seal = zlib.adler32(body).to_bytes(8, "big") + bytes.fromhex("00000001 2f")
    assert b"".join(snapshot_chunks({}, {}, [ROOT])) == body + seal


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_written_files_are_read_back(size: int) -> None:
    reader = SnapshotReader(pieces(SNAPPED, size))
    assert (reader.sessions, reader.acls) == (SESSIONS, ACLS)
    assert list(reader) == NODES
    assert (reader.digest, reader.last_zxid) == (DIGEST, 0x100000002)


@given(values.SNAPSHOTS, st.integers(1, 300))
@settings(max_examples=200)
def test_any_snapshot_survives(snapshot: dict[str, Any], size: int) -> None:
    data = b"".join(snapshot_chunks(**snapshot))
    reader = SnapshotReader(pieces(data, size))
    nodes = list(reader)
    read = {
        "sessions": reader.sessions, "acls": reader.acls, "nodes": nodes,
        "digest": reader.digest, "last_zxid": reader.last_zxid,
    }  # fmt: skip
    assert read == snapshot


def test_a_large_one_is_written_and_read_in_pieces() -> None:
    nodes = [ROOT, *(FileNode(f"/{number}", bytes(1000), -1, STAT) for number in range(1000))]
    chunks = list(snapshot_chunks({}, {}, nodes))
    assert len(chunks) > 10
    assert max(map(len, chunks)) < 70_000
    assert list(SnapshotReader(chunks)) == nodes


def test_one_large_node_among_small_pieces() -> None:
    """Were the bytes at hand copied for each of them, this would move 30 GB."""
    nodes = [ROOT, FileNode("/big", bytes(8 << 20), -1, STAT)]
    data = b"".join(snapshot_chunks({}, {}, nodes))
    assert list(SnapshotReader(pieces(data, 1024))) == nodes


# -- damage --------------------------------------------------------------------------------------------


def read(data: bytes) -> None:
    list(SnapshotReader(pieces(data)))


def test_every_flipped_bit_is_noticed() -> None:
    for at in range(len(SNAPPED)):
        data = bytearray(SNAPPED)
        data[at] ^= 1
        with pytest.raises(DamagedError):
            read(bytes(data))


SECTIONS = {len(b"".join(snapshot_chunks(SESSIONS, ACLS, NODES, *rest))) for rest in ((), (DIGEST,))}


def test_every_cut_is_noticed() -> None:
    for end in set(range(len(SNAPPED))) - SECTIONS:
        with pytest.raises(DamagedError):
            read(SNAPPED[:end])


@pytest.mark.parametrize("end", sorted(SECTIONS))
def test_older_servers_stop_earlier(end: int) -> None:
    read(SNAPPED[:end])


@pytest.mark.parametrize("tail", [b"?", bytes(21), SNAPPED[-13:]])
def test_something_behind_the_last_seal(tail: bytes) -> None:
    with pytest.raises(DamagedError):
        read(SNAPPED + tail)


def test_a_record_beyond_the_bound_is_not_collected() -> None:
    consumed = 0

    def endless() -> Iterator[bytes]:
        nonlocal consumed
        yield SNAPPED[:16] + bytes(8) + bytes.fromhex("7fffffff")
        while True:
            consumed += 1000
            yield bytes(1000)

    with pytest.raises(DamagedError, match="a record has more than"):
        list(SnapshotReader(endless(), record_bytes_max=100_000))
    assert consumed < 1_000_000


@pytest.mark.parametrize("field", ["sessions", "lists"])
def test_a_count_that_lies(field: str) -> None:
    zeros = 0 if field == "sessions" else 4
    for count in ("ffffffff", "7fffffff"):
        with pytest.raises(DamagedError):
            read(SNAPPED[:16] + bytes(zeros) + bytes.fromhex(count) + bytes(200))


# -- digests -------------------------------------------------------------------------------------------


def test_the_digest_of_a_node() -> None:
    assert node_digest("/a", b"hi", STAT) == 0xD0E4BF0F


def test_the_digest_of_the_first_tree_of_every_server() -> None:
    """The digest that Apache ZooKeeper 3.9.5 writes after its first transaction."""
    first = [ROOT, FileNode("/zookeeper", b"", -1, (0,) * 9), FileNode("/zookeeper/config", b"", 1, (0,) * 9)]
    assert tree_digest(first) == 1371985504
    assert node_digest("/", b"", (0,) * 9) == node_digest("", b"", (0,) * 9), "one node, whatever it is called"


def test_null_and_empty_data_have_one_digest() -> None:
    assert node_digest("/a", None, STAT) == node_digest("/a", b"", STAT)


# -- compressed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 50, 10_000])
def test_gzip(size: int) -> None:
    assert b"".join(gunzip(pieces(gzip.compress(SNAPPED), size))) == SNAPPED
    assert b"".join(gunzip(pieces(gzip.compress(SNAPPED[:50]) + gzip.compress(SNAPPED[50:]), size))) == SNAPPED


def test_a_bomb_goes_off_in_small_pieces() -> None:
    sizes = [len(piece) for piece in gunzip([gzip.compress(bytes(10 << 20))])]
    assert max(sizes) <= CHUNK_BYTES
    assert sum(sizes) == 10 << 20


def test_invalid_gzip() -> None:
    with pytest.raises(DamagedError, match="gzip"):
        list(gunzip([b"plain"]))


def test_half_a_gzip_is_half_a_snapshot() -> None:
    with pytest.raises(DamagedError, match="ends in the middle"):
        read(b"".join(gunzip([gzip.compress(SNAPPED, mtime=0)[:-60]])))


BLOCKS = {
    "literal": ("03 08 616263", b"abc"),
    "copy that reaches into itself": ("0e 08 616263 1d 03", b"abcabcabcabcab"),
    "copy with two bytes of distance": ("06 08 616263 0a 0300", b"abcabc"),
    "copy with four bytes of distance": ("06 08 616263 0b 03000000", b"abcabc"),
    "literal with its length in a byte": ("3d f0 3c" + "61" * 61, b"a" * 61),
    "literal with its length in two": ("ac02 f4 2b01" + "61" * 300, b"a" * 300),
    "nothing": ("00", b""),
}


@pytest.mark.parametrize(("block", "plain_text"), BLOCKS.values(), ids=BLOCKS)
def test_snappy(block: str, plain_text: bytes) -> None:
    raw = bytes.fromhex(block)
    assert unsnappy_block(raw) == plain_text
    stream = bytes.fromhex("82534e4150505900 00000001 00000001") + len(raw).to_bytes(4, "big") + raw
    assert b"".join(unsnappy(pieces(stream + stream, 3))) == plain_text * 2


@pytest.mark.parametrize(
    "block",
    ["", "ff", "ffffffff0f", "03 08 6162", "03 08 616263 00 61", "06 08 616263 0a 0400", "06 08 616263 0a 0000",
     "06 08 616263 0a 03", "04 08 616263", "06 f4 00", "ffffffff07 08 616263"],
)  # fmt: skip
def test_a_snappy_block_that_lies(block: str) -> None:
    with pytest.raises(DamagedError, match="Snappy"):
        unsnappy_block(bytes.fromhex(block))


@pytest.mark.parametrize(
    "stream",
    ["", "82534e41", "00" * 20, "82534e4150505900 00000001 00000001 0000",
     "82534e4150505900 00000001 00000001 00000009 00", "82534e4150505900 00000001 00000001 ffffffff 00"],
)  # fmt: skip
def test_a_snappy_stream_that_lies(stream: str) -> None:
    with pytest.raises(DamagedError):
        list(unsnappy([bytes.fromhex(stream)]))


def test_uncompressed_snapshot_is_read_unchanged() -> None:
    assert b"".join(plain([b"a", b"b"], Compression.NONE)) == b"ab"
    assert b"".join(plain([gzip.compress(b"ab")], Compression.GZIP)) == b"ab"
