"""Whose a log directory is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kraft_controller.core.names import BrokerId
from kraft_controller.runtime.meta_properties import (
    SESSIONS_MAX,
    claim,
    former_sessions,
    known_cluster,
    known_id,
    read_identity,
    remember_session,
)
from kraft_controller.wire.broker_identity import WrongIdentity

ONE = BrokerId(1)


def test_directory_is_claimed_once(tmp_path: Path) -> None:
    places = [tmp_path / "a", tmp_path / "b"]
    assert known_id(places) is None
    claim(places, "cluster", ONE)
    claim(places, "cluster", ONE)
    assert known_id(places) == 1
    assert (tmp_path / "a" / "meta.properties").read_text().splitlines() == [
        "version=0", "broker.id=1", "cluster.id=cluster"
    ]  # fmt: skip


def test_kafka_meta_properties_is_parsed(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(
        "#\n#Sat Nov 21 10:00:00 UTC 2026\nbroker.id=4\nversion=0\ncluster.id=c\n"
    )
    held = read_identity(tmp_path)
    assert held is not None
    assert (held.broker, held.cluster) == (4, "c")
    claim([tmp_path], "c", BrokerId(4))
    assert "Sat Nov" in (tmp_path / "meta.properties").read_text()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("version=0\nbroker.id=2\ncluster.id=cluster\n", "the directory belongs to broker 2, but this is broker 1"),
        (
            "version=0\nbroker.id=1\ncluster.id=other\n",
            "the directory belongs to cluster other, but the store has cluster",
        ),
        ("version=7\nbroker.id=1\n", "unknown version '7'"),
        ("", "has no version: it may be empty"),
        ("version=0\nbroker.id=one\n", "the broker id 'one' is not a number"),
        ("version=0\nbroker.id=1\ncluster.id=\\u12\n", r"meta.properties, line 3: four hexadecimal digits"),
    ],
)
def test_directory_of_another_broker_is_refused_unchanged(tmp_path: Path, text: str, why: str) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    second.mkdir()
    (second / "meta.properties").write_text(text)
    with pytest.raises(WrongIdentity, match=why):
        claim([first, second], "cluster", ONE)
    assert not first.exists()
    assert (second / "meta.properties").read_text() == text


def test_binary_meta_properties_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_bytes(b"\xff\xfe\x00version=0")
    with pytest.raises(WrongIdentity, match=r"meta\.properties is not text.*restore the file"):
        claim([tmp_path], "cluster", ONE)


def test_directories_of_two_brokers_are_refused(tmp_path: Path) -> None:
    claim([tmp_path / "a"], "c", BrokerId(1))
    claim([tmp_path / "b"], "c", BrokerId(2))
    with pytest.raises(WrongIdentity, match="different brokers"):
        known_id([tmp_path / "a", tmp_path / "b"])


def test_the_last_sessions_are_remembered(tmp_path: Path) -> None:
    assert former_sessions(tmp_path) == ()
    for number in range(SESSIONS_MAX + 4):
        remember_session(tmp_path, 0x1000 + number)
    assert former_sessions(tmp_path) == tuple(range(0x1004, 0x1000 + SESSIONS_MAX + 4))
    (tmp_path / "store.session").write_text("scribble")
    assert former_sessions(tmp_path) == ()


def test_session_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    kept = tmp_path / "store.session"
    modes: list[int] = []

    def opened(name: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        fd = real(name, flags, mode, dir_fd=dir_fd)
        if flags & os.O_CREAT:
            modes.append(os.fstat(fd).st_mode & 0o777)
        return fd

    real = os.open
    for left in ("store.session", "store.session.tmp"):
        (tmp_path / left).write_text("0x1\n")
        (tmp_path / left).chmod(0o644)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "open", opened)
            remember_session(tmp_path, 0x1000)
        assert kept.stat().st_mode & 0o777 == 0o600
    assert modes == [0o600, 0o600]  # and at no moment for others


def test_directory_without_cluster_id_does_not_hide_that_of_the_others(tmp_path: Path) -> None:
    known, old, other = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    claim([known], "cluster", ONE)
    claim([other], "other", ONE)
    old.mkdir()
    (old / "meta.properties").write_text("version=0\nbroker.id=1\n")
    assert known_cluster([old]) is None
    assert known_cluster([known, old]) == "cluster"
    assert known_cluster([known, old, other]) is None


def test_unreadable_disk_does_not_count_for_the_identity(tmp_path: Path) -> None:
    good, bad = tmp_path / "a", tmp_path / "b"
    claim([good], "cluster", ONE)
    (bad / "meta.properties").mkdir(parents=True)
    assert known_id([bad, good]) == 1
    assert known_cluster([bad, good]) == "cluster"
    with pytest.raises(WrongIdentity, match="Is a directory"):
        known_id([bad])
