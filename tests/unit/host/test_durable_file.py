"""A file is the old one or the new one, wherever its replacement ends."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from zab.host.durable_file import replace_file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    return path


def test_new_content_takes_the_name(path: Path) -> None:
    replace_file(path, [b"ne", b"w"])
    assert path.read_bytes() == b"new"
    assert os.listdir(path.parent) == ["file"]


def recorded(monkeypatch: pytest.MonkeyPatch, fails_at: int) -> list[str]:
    """Record the calls that matter for durability; the one with this number fails."""
    calls: list[str] = []

    def watch(where: Any, name: str) -> None:
        real: Callable[..., object] = getattr(where, name)

        def call(*arguments: Any, **named: Any) -> object:
            calls.append(name)
            if len(calls) - 1 == fails_at:
                raise OSError(errno.EIO, "Input/output error")
            return real(*arguments, **named)

        monkeypatch.setattr(where, name, call)

    for name in ("open", "fsync"):
        watch(os, name)
    watch(Path, "replace")
    return calls


def test_content_is_durable_before_its_name_and_the_name_on_return(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        calls = recorded(patch, -1)
        replace_file(path, [b"new"])
    assert calls == ["open", "fsync", "replace", "open", "fsync"]


@pytest.mark.parametrize("fails_at", range(5))
def test_failed_call_leaves_the_old_file_or_the_new_one(
    path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    with monkeypatch.context() as patch:
        recorded(patch, fails_at)
        with pytest.raises(OSError, match="Input/output"):
            replace_file(path, [b"new"])
    assert path.read_bytes() == (b"old" if fails_at < 3 else b"new")
    assert os.listdir(path.parent) == ["file"]


def test_chunks_that_fail_leave_the_old_file(path: Path) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"n"
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        replace_file(path, chunks())
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == ["file"]


def test_what_a_crash_left_is_replaced_with_its_mode(path: Path) -> None:
    rest = path.with_name("file.tmp")
    rest.write_bytes(b"rest")
    rest.chmod(0o644)
    replace_file(path, [b"new"], mode=0o600)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o600)
    assert not rest.exists()


def test_permissions_of_another_file_are_kept_whatever_the_umask(path: Path) -> None:
    path.chmod(0o664)
    before = os.umask(0o077)
    try:
        replace_file(path, [b"new"], like=path)
        other = path.with_name("other")
        replace_file(other, [b"x"])
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o664
    assert stat.S_IMODE(other.stat().st_mode) == 0o600
