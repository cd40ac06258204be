"""A directory belongs to the server that opened it first."""

from __future__ import annotations

import pytest

from zab.core.errors import ConfigError, DamagedError
from zab.core.zxid import ServerId
from zab.runtime.directory_owner import NAME, claim_directory
from zab.storage.disk import write_atomically
from zab.storage.memory_disk import MemoryDisk


def test_the_owner_comes_back() -> None:
    disk = MemoryDisk()
    claim_directory(disk, "data", "zab", ServerId(1), "store")
    claim_directory(disk, "data", "zab", ServerId(1), "store")


@pytest.mark.parametrize(("name", "sid"), [("zab", 2), ("other", 1)])
def test_no_other_client_gets_the_lock(name: str, sid: int) -> None:
    disk = MemoryDisk()
    claim_directory(disk, "data", "zab", ServerId(1), "store")
    with pytest.raises(ConfigError, match=r"data belongs to server 1 of the ensemble 'zab', and this is server"):
        claim_directory(disk, "data", name, ServerId(sid), "store")


@pytest.mark.parametrize(
    "bytes_", [b"\xc1", b"", b"\x92\xa3zab\x01more", b"\x01", b"\x92\x01\xa3zab", b"\x93\xa3zab\x01\x01"]
)
def test_an_owner_that_cannot_be_read_is_damage(bytes_: bytes) -> None:
    disk = MemoryDisk()
    write_atomically(disk, NAME, bytes_)
    with pytest.raises(DamagedError, match=r"^data/identity: damaged\. .* remove identity: the next start writes it"):
        claim_directory(disk, "data", "zab", ServerId(1), "store")
    disk.delete(NAME)
    claim_directory(disk, "data", "zab", ServerId(1), "store")
    claim_directory(disk, "data", "zab", ServerId(1), "store")


def test_machine_of_another_kind_is_refused() -> None:
    for first, second in (("store", ""), ("", "store"), ("store", "map")):
        disk = MemoryDisk()
        claim_directory(disk, "data", "zab", ServerId(1), first)
        with pytest.raises(
            ConfigError, match=r"data holds the transactions of a state machine .* directory of its own"
        ):
            claim_directory(disk, "data", "zab", ServerId(1), second)


def test_directory_without_a_recorded_kind_is_open_to_each() -> None:
    disk = MemoryDisk()
    write_atomically(disk, NAME, b"\x92\xa3zab\x01")
    for kind in ("store", ""):
        claim_directory(disk, "data", "zab", ServerId(1), kind)
