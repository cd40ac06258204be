from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import zookeeper_values as values
from zab.core.errors import DamagedError
from zab.store.acl import OPEN
from zab.store.operations import Op
from zab.wire.disk_log import FILE_HEAD, LogReader, encode_record, log_chunks
from zab.wire.disk_txn import HEAD, KINDS, FileTxn, decode_txn, encode_txn

SESSION = 0x100000ABCDE0001
CREATE_SESSION = FileTxn(SESSION, 0, 0x100000001, 1_700_000_000_000, Op.CREATE_SESSION, (30_000,))
TXNS = [
    CREATE_SESSION,
    FileTxn(SESSION, 1, 0x100000002, 1_700_000_000_001, Op.CREATE, ("/a", b"hi", OPEN, False, 1), (2, 99)),
    FileTxn(SESSION, 2, 0x100000003, 1_700_000_000_002, Op.ERROR, (-110,)),
]


def pieces(data: bytes, size: int = 7) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def test_a_record_byte_for_byte() -> None:
    assert encode_record(CREATE_SESSION) == bytes.fromhex(
        "000000006dc208e9 000000240100000abcde0001 00000000 0000000100000001 0000018bcfe56800 fffffff6 0000753042"
    )


def test_the_header_of_a_file() -> None:
    assert b"ZKLG" + bytes.fromhex("00000002 0000000000000000") == FILE_HEAD


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
@pytest.mark.parametrize("padding", [0, 1000])
def test_written_files_are_read_back(size: int, padding: int) -> None:
    data = b"".join(log_chunks(TXNS, padding))
    reader = LogReader(pieces(data, size))
    assert list(reader) == TXNS
    assert not reader.torn
    assert data[: reader.end] == b"".join(log_chunks(TXNS))


@given(st.lists(values.TXNS, max_size=5), st.integers(1, 200), st.integers(0, 500))
@settings(max_examples=150)
def test_any_log_survives(txns: list[FileTxn], size: int, padding: int) -> None:
    assert list(LogReader(pieces(b"".join(log_chunks(txns, padding)), size))) == txns


@pytest.mark.parametrize("kind", sorted(KINDS))
@given(data=st.data())
@settings(max_examples=30)
def test_every_kind_survives(kind: int, data: st.DataObject) -> None:
    txn = FileTxn(1, 2, 3, 4, kind, data.draw(values.TXN_FIELDS[kind]), data.draw(st.sampled_from([None, (2, 5)])))
    assert decode_txn(encode_txn(txn)) == txn


# -- old logs ------------------------------------------------------------------------------------------


def test_create_without_the_cversion_of_its_parent() -> None:
    payload = encode_txn(FileTxn(1, 2, 3, 4, Op.CREATE, ("/a", b"", OPEN, True, 7)))
    assert decode_txn(payload[:-4]).fields == ("/a", b"", OPEN, True, -1)


@pytest.mark.parametrize("digest", [None, (2, 0), (2, 0x2F61_0000_0001), (2, (1 << 64) - 1)])
def test_a_session_that_ended_without_a_list(digest: tuple[int, int] | None) -> None:
    txn = FileTxn(1, 2, 3, 4, Op.CLOSE_SESSION, (None,), digest)
    assert decode_txn(encode_txn(txn)) == txn


@pytest.mark.parametrize("paths", [(), ("/abc",), ("/a", "/b"), ("/", "/", "/")])
@pytest.mark.parametrize("digest", [None, (2, 5)])
def test_a_list_is_not_taken_for_a_digest(paths: tuple[str, ...], digest: tuple[int, int] | None) -> None:
    """`/abc` alone is as long as one."""
    txn = FileTxn(1, 2, 3, 4, Op.CLOSE_SESSION, (paths,), digest)
    assert decode_txn(encode_txn(txn)) == txn


# -- how a log ends ------------------------------------------------------------------------------------


def whole() -> bytes:
    return b"".join(log_chunks(TXNS))


LAST = len(whole()) - len(encode_record(TXNS[-1]))


@pytest.mark.parametrize("padding", [0, 200])
def test_a_torn_tail(padding: int) -> None:
    """A crash left a part of the last record, followed by allocated zeros."""
    for end in range(LAST + 1, len(whole())):
        reader = LogReader(pieces(whole()[:end] + bytes(padding)))
        assert list(reader) == TXNS[:-1]
        assert reader.end == LAST
        # Zeros cannot be told from what was never written: a record begins with some.
        assert reader.torn == bool(whole()[LAST:end].strip(b"\0"))


def test_a_whole_log_is_not_torn() -> None:
    reader = LogReader(pieces(whole() + bytes(1000)))
    assert list(reader) == TXNS
    assert (reader.torn, reader.end) == (False, len(whole()))


def test_bytes_after_the_padding_are_reported() -> None:
    reader = LogReader(pieces(whole() + bytes(100) + b"?"))
    assert list(reader) == TXNS
    assert reader.torn


def test_a_flipped_bit_is_never_served() -> None:
    """Whichever it is: the records before it may come, that one and those behind it do not."""
    for at in range(16, LAST):
        data = bytearray(whole())
        data[at] ^= 4
        read: list[FileTxn] = []
        reader = LogReader(pieces(bytes(data)))
        try:
            read.extend(reader)
        except DamagedError:
            reader.torn = True
        assert reader.torn
        assert read == TXNS[: len(read)]
        assert len(read) < 2


def test_damage_is_reported_with_its_offset() -> None:
    data = bytearray(whole())
    data[16 + 12 + 3] ^= 1
    with pytest.raises(DamagedError, match="at byte 16: the record does not match its checksum"):
        list(LogReader([bytes(data)]))


@pytest.mark.parametrize("length", ["ffffffff", "80000000", "0000001f", "7fffffff"])
def test_a_length_that_lies(length: str) -> None:
    with pytest.raises(DamagedError, match="a record of"):
        list(LogReader([FILE_HEAD + bytes(8) + bytes.fromhex(length) + bytes(100)]))


def record(payload: bytes) -> bytes:
    return zlib.adler32(payload).to_bytes(8, "big") + len(payload).to_bytes(4, "big") + payload + b"B"


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (HEAD.pack(1, 2, 3, 4, 99), "unknown transaction type 99"),
        (HEAD.pack(1, 2, 3, 4, Op.CHECK) + bytes(8), "unknown transaction type 13"),
        (HEAD.pack(1, 2, 3, 4, Op.ERROR), "not a valid transaction"),
        (encode_txn(TXNS[0]) + b"?", "1 bytes follow the last field"),
    ],
)
def test_record_without_a_transaction(payload: bytes, why: str) -> None:
    with pytest.raises(DamagedError, match=f"at byte 16: .*{why}"):
        list(LogReader([FILE_HEAD + record(payload)]))


def test_an_empty_file_is_an_empty_log() -> None:
    """A crash before the header was written leaves one."""
    reader = LogReader([])
    assert list(reader) == []
    assert (reader.end, reader.torn) == (0, False)


@pytest.mark.parametrize("head", [b"ZKLG", b"ZKSN" + FILE_HEAD[4:], FILE_HEAD[:7] + b"\3" + FILE_HEAD[8:], bytes(64)])
def test_file_that_is_no_log(head: bytes) -> None:
    with pytest.raises(DamagedError):
        list(LogReader([head]))


def test_a_multi_that_failed_keeps_the_fields_of_the_operations_before_the_failed_one() -> None:
    """ZooKeeper has written the multi again after it applied it: a check and a create, as errors."""
    stale = (Op.ERROR, (2, b"/b\0\0\0\2")), (Op.ERROR, (4, b"/b/m\0\0\0\1m"))
    txn = FileTxn(1, 2, 3, 4, Op.MULTI, (*stale, (Op.ERROR, (-101,)), (Op.ERROR, (-2,))), (2, 5))
    assert decode_txn(encode_txn(txn)) == txn
