from __future__ import annotations

import pytest

from zab.core.ensemble import Ensemble
from zab.core.errors import DamagedError
from zab.wire.disk_files import (
    Compression,
    DataFile,
    decode_number,
    dynamic_name,
    dynamic_version,
    encode_dynamic,
    encode_number,
    logs_behind,
    parse_name,
    snapshot_name,
    snapshots_newest_first,
)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("log.1", DataFile(1, "log.1", True)),
        ("log.10000000a", DataFile(0x10000000A, "log.10000000a", True)),
        ("snapshot.0", DataFile(0, "snapshot.0", False)),
        ("snapshot.ff.gz", DataFile(255, "snapshot.ff.gz", False, Compression.GZIP)),
        ("snapshot.ff.snappy", DataFile(255, "snapshot.ff.snappy", False, Compression.SNAPPY)),
    ],
)
def test_names(name: str, file: DataFile) -> None:
    assert parse_name(name) == file
    assert file.is_log or name == snapshot_name(file.zxid, file.compression)


@pytest.mark.parametrize(
    "name", ["log", "log.", "log.xyz", "log.1.gz", "snapshot.1.tmp", "snapshot.1.zip", "a.log.1", "log.0x1", "log.1\n",
             "currentEpoch", "log.10000000000000000", "log.FF", "log.٣"],
)  # fmt: skip
def test_file_that_is_neither_log_nor_snapshot(name: str) -> None:
    assert parse_name(name) is None


NAMES = ["log.1", "log.5", "log.100000001", "snapshot.0", "snapshot.7", "snapshot.100000000.gz", "myid", "log.a"]


def test_the_newest_snapshot_is_tried_first() -> None:
    assert [file.zxid for file in snapshots_newest_first(NAMES)] == [0x100000000, 7, 0]


@pytest.mark.parametrize(
    ("zxid", "logs"),
    [
        (0, ["log.1", "log.5", "log.a", "log.100000001"]),
        (1, ["log.1", "log.5", "log.a", "log.100000001"]),
        (4, ["log.1", "log.5", "log.a", "log.100000001"]),
        (5, ["log.5", "log.a", "log.100000001"]),
        (7, ["log.5", "log.a", "log.100000001"]),
        (0x100000000, ["log.a", "log.100000001"]),
        (0x200000000, ["log.100000001"]),
    ],
)
def test_which_logs_to_read_behind_a_snapshot(zxid: int, logs: list[str]) -> None:
    """A log's name is its first zxid, so the log before may contain the wanted transactions."""
    assert [file.name for file in logs_behind(NAMES, zxid)] == logs


def test_no_logs_at_all() -> None:
    assert logs_behind(["snapshot.0"], 0) == []


# -- numbers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("raw", "number"), [(b"5", 5), (b"5\n", 5), (b" 12 \r\n more", 12), (b"-1", -1)])
def test_a_number_is_the_first_line(raw: bytes, number: int) -> None:
    assert decode_number(raw) == number


@pytest.mark.parametrize("raw", [b"", b"\n5", b"five", b"5 6", b"0x5", b"\xff", b"1_0", b"9" * 100])
def test_invalid_number(raw: bytes) -> None:
    with pytest.raises(DamagedError, match="not a number"):
        decode_number(raw)


def test_a_number_survives() -> None:
    assert decode_number(encode_number(7)) == 7


# -- memberships ---------------------------------------------------------------------------------------

TEXT = "server.1=a:2888:3888:participant;0.0.0.0:2181\nserver.2=b:2888:3888:observer\n"


def test_the_version_of_a_membership_is_in_its_name() -> None:
    name = dynamic_name("zoo.cfg", 0x10000000A)
    assert name == "zoo.cfg.dynamic.10000000a"
    assert dynamic_version(name) == 0x10000000A
    assert encode_dynamic(Ensemble.parse(TEXT + "version=10000000a")) == TEXT


@pytest.mark.parametrize("name", ["", "zoo.cfg", "zoo.cfg.dynamic", "zoo.cfg.dynamic.next", "zoo.cfg.dynamic.xyz"])
def test_a_name_without_a_version(name: str) -> None:
    assert dynamic_version(name) is None
