"""`zab log`, `zab snapshot`, `zab import` and `zab export`, on directories that are made by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from zab.cli.data_files.log_lines import moment, zxid_of
from zab.cli.root import zab
from zab.core.batch import pack
from zab.core.ensemble import Ensemble
from zab.core.ready import Append, SaveEpochs
from zab.core.zxid import Epoch, ServerId, make
from zab.runtime.directory_owner import claim_directory
from zab.storage.real_disk import RealDisk
from zab.storage.storage import Storage, StorageSettings
from zab.store import transactions
from zab.store.acl import OPEN
from zab.store.store import Store
from zab.wire.disk_log import log_chunks
from zab.wire.disk_snapshot import SnapshotReader, snapshot_chunks
from zab.wire.disk_txn import FileTxn

NOW = 1_700_000_000_000
SESSION = 0x100000000000007
TAG = b"\0" * 16
SMALL = StorageSettings(segment_bytes=1000, preallocate=False)
TXNS = [
    transactions.set_secret(NOW, b"s" * 32),
    transactions.create_session(SESSION, 0, NOW, 4000, 1),
    transactions.create(transactions.CREATE, SESSION, 1, NOW, "/a", b"text", OPEN, 0, 1),
    transactions.create(transactions.CREATE, SESSION, 2, NOW, "/a/b", b"\xff", OPEN, SESSION, 1),
    transactions.set_data(SESSION, 3, NOW, "/a", None, 1),
    transactions.multi(
        SESSION,
        4,
        NOW,
        [transactions.create(transactions.CREATE, SESSION, 4, NOW, f"/m{n}", b"", OPEN, 0, 2 + n) for n in (0, 1)],
    ),
    transactions.error(SESSION, 5, NOW, -101),
    transactions.delete(SESSION, 6, NOW, "/m0"),
]


def run(*words: object, status: int = 0) -> str:
    result = CliRunner().invoke(zab, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == status, result.output
    return result.output


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return written(tmp_path / "data", SMALL)


def written(path: Path, settings: StorageSettings) -> Path:
    disk = RealDisk(path)
    claim_directory(disk, path, "zab", ServerId(3), Store.kind)
    storage, _ = Storage.open(disk, settings)
    ensemble = Ensemble.parse("server.3=a:1:2")
    storage.perform([SaveEpochs(1, Epoch(2), Epoch(2), ensemble)])
    storage.perform([Append(1, pack(make(2, 1), [ensemble.text().encode()], config=True))])
    for number, txn in enumerate(TXNS, start=2):
        storage.perform([Append(number, pack(make(2, number), [TAG + txn]))])
    storage.close()
    disk.close()
    return path


def append(path: Path, number: int, txn: bytes) -> None:
    disk = RealDisk(path)
    storage, _ = Storage.open(disk, SMALL)
    storage.perform([Append(1, pack(make(2, number), [TAG + txn]))])
    storage.close()
    disk.close()


# -- the log -----------------------------------------------------------------------------------------------


def test_log_dump_lists_each_transaction(data: Path) -> None:
    lines = [json.loads(line) for line in run("log", "dump", data, "--json", "-d").splitlines()]
    assert [line["zxid"] for line in lines] == [f"{make(2, number):#x}" for number in range(1, 10)]
    assert [line["op"] for line in lines] == [
        "membership", "set secret", "create session", "create", "create", "set", "multi", "error", "delete",
    ]  # fmt: skip
    assert lines[3] == {
        "zxid": "0x200000004", "time": "2023-11-14T22:13:20.000+00:00", "session": "0x100000000000007", "cxid": 1,
        "op": "create", "path": "/a", "more": "4 bytes cversion=1 acl=world:anyone:cdrwa", "data": "text",
    }  # fmt: skip
    assert lines[4]["data"] == "base64:/w=="
    assert "ephemeral" in lines[4]["more"]
    assert lines[5]["data"] is None
    assert "create /m1" in lines[6]["more"]
    text = run("log", "dump", data)
    assert "0x200000004 2023-11-14T22:13:20.000+00:00 0x0100000000000007 create          /a 4 bytes" in text
    assert "s" * 32 not in text


def test_a_part_of_a_log(data: Path) -> None:
    dumped = run("log", "dump", data, "--from", "2/4", "--to", "0x200000005").splitlines()
    assert [line.split()[0] for line in dumped] == ["0x200000004", "0x200000005"]
    assert "is not a zxid" in run("log", "dump", data, "--from", "2-4", status=2)


def test_dump_of_a_zookeeper_log_has_the_same_format(tmp_path: Path) -> None:
    file = tmp_path / "log.5"
    txn = FileTxn(SESSION, 1, 5, NOW, 1, ("/a", b"x", OPEN, True, 1))
    file.write_bytes(b"".join(log_chunks([txn], 1000)))
    (line,) = run("log", "dump", file).splitlines()
    assert line.endswith("create          /a 1 bytes ephemeral cversion=1 acl=world:anyone:cdrwa")
    file.write_bytes(b"something else")
    assert "does not begin with ZKLG" in run("log", "dump", file, status=1)


def test_verify_names_the_end_of_the_sound_part_of_a_cut_log(tmp_path: Path) -> None:
    data = written(tmp_path / "data", StorageSettings(segment_bytes=10_000))
    (log,) = data.glob("log.*")
    raw = log.read_bytes()
    for end, last in ((len(raw) - 1, "2/9"), (raw.rindex(b"/m0"), "2/8")):
        log.write_bytes(raw[:end])
        assert run("log", "verify", data, status=1).splitlines()[-1] == f"damaged: the sound history ends at {last}"
        assert json.loads(run("log", "verify", data, "--json", status=1))["last"] == last


def test_verify_says_that_promises_may_be_lost(data: Path) -> None:
    disk = RealDisk(data)
    storage, _ = Storage.open(disk, SMALL)
    storage.perform([SaveEpochs(1, Epoch(2), Epoch(2), Ensemble.parse("server.3=a:1:2"), forgotten=True)])
    storage.close()
    disk.close()
    said = run("log", "verify", data)
    assert "note: this server may have lost promises: its votes do not count" in said


def test_verify_takes_no_files_of_zookeeper_for_damaged_ones(tmp_path: Path) -> None:
    theirs = tmp_path / "version-2"
    theirs.mkdir()
    (theirs / "log.100000001").write_bytes(b"".join(log_chunks([])))
    said = run("log", "verify", theirs, status=2)
    assert f"{theirs}: these are files of Apache ZooKeeper" in said
    assert "this is not a data directory of zab" in run("log", "verify", tmp_path, status=2)


def test_verify_of_an_empty_log_names_no_last_transaction(data: Path) -> None:
    (log,) = data.glob("log.*")
    log.write_bytes(b"")
    said = run("log", "verify", data, status=1)
    assert f"{log.name}: 0 transactions: " in said
    assert "None" not in said


@pytest.mark.parametrize("owner", [None, b"\x92\xa3zab\x03"])  # the second is from before the kind was recorded
@pytest.mark.parametrize("txn", [b"junk", b"", transactions.HEAD.pack(1, 7, 1, NOW) + b"more"])
def test_foreign_transactions_are_reported_and_left_out(
    data: Path, tmp_path: Path, txn: bytes, owner: bytes | None
) -> None:
    append(data, 10, txn)
    append(data, 11, transactions.delete(SESSION, 7, NOW, "/m1"))
    if owner is not None:
        (data / "identity").write_bytes(owner)
    said = run("log", "verify", data, status=1)
    assert "damage: transaction 2/10 was not written by a store, but by another kind of state machine" in said
    assert said.splitlines()[-1] == "damaged: the sound history ends at 2/9"
    assert f"{len(txn)} bytes that are not a transaction of the store" in run("log", "dump", data)
    assert "transaction 2/10 was not written by a store" in run("export", data, tmp_path / "theirs", status=1)
    said = run("log", "repair", data, tmp_path / "saved")
    assert "note: transaction 2/10: " in said
    assert "as of 2/9. Later transactions, if any, were not saved." in said
    assert run("log", "verify", tmp_path / "saved").splitlines()[-1] == "whole: the history ends at 2/9"


def test_log_of_another_machine_is_whole_but_not_repaired_as_a_store(tmp_path: Path) -> None:
    path = tmp_path / "map"
    disk = RealDisk(path)
    claim_directory(disk, path, "zab", ServerId(1), "")
    storage, _ = Storage.open(disk, SMALL)
    storage.perform([SaveEpochs(1, Epoch(2), Epoch(2), Ensemble.parse("server.1=a:1:2"))])
    storage.perform([Append(1, pack(make(2, 1), [TAG + b"junk"]))])
    storage.close()
    disk.close()
    assert run("log", "verify", path).splitlines()[-1] == "whole: the history ends at 2/1"
    assert "transaction" in run("log", "repair", path, tmp_path / "saved", status=1)
    assert not (tmp_path / "saved").exists()


def test_a_whole_log_is_verified_and_a_damaged_one_is_status_1(data: Path, tmp_path: Path) -> None:
    assert run("log", "verify", data).splitlines()[-1] == "whole: the history ends at 2/9"
    (data / "identity").write_bytes(b"\x92\xa3zab\x01rot")
    (damage,) = json.loads(run("log", "verify", data, "--json", status=1))["damage"]
    assert "identity: damaged. This file only names the server that the directory belongs to" in damage
    assert "remove identity" in run("export", data, tmp_path / "theirs", status=1)
    (data / "identity").unlink()
    first = min(data.glob("log.*"))
    raw = bytearray(first.read_bytes())
    raw[raw.index(b"/a/b")] ^= 1
    first.write_bytes(raw)
    told = json.loads(run("log", "verify", data, "--json", status=1))
    assert not told["whole"]
    assert [each["file"] for each in told["files"] if each["trouble"]] == [first.name]
    assert first.name in run("snapshot", "verify", data, status=1)

    assert f"`zab log repair {data} NEW` saves" in run("import", data, tmp_path / "moved", status=1)
    said = run("log", "repair", data, tmp_path / "saved")
    assert "as of 2/4. Later transactions, if any, were not saved." in said
    assert run("log", "verify", tmp_path / "saved").splitlines()[-1] == "whole: the history ends at 2/4"
    assert json.loads(run("snapshot", "dump", tmp_path / "saved", "--under", "/a", "--json", "-d"))["data"] == "text"
    assert "nothing is overwritten" in run("log", "repair", data, tmp_path / "saved", status=2)
    assert "this is not a data directory of zab" in run("log", "verify", tmp_path, status=2)


@pytest.mark.parametrize("where", [5, 36])
def test_behind_a_damaged_header_the_records_are_sound(data: Path, tmp_path: Path, where: int) -> None:
    first = min(data.glob("log.*"))
    raw = bytearray(first.read_bytes())
    raw[where] ^= 1
    first.write_bytes(raw)
    told = json.loads(run("log", "verify", data, "--json", status=1))
    assert not told["whole"]
    assert told["files"][0]["transactions"] > 0
    assert run("log", "dump", data).count(f"{first.name}: offset 0: the checksum of the file's header is wrong") == 1
    assert run("log", "dump", data).count(first.name) == 1
    assert "as of 2/9. Later transactions, if any, were not saved." in run("log", "repair", data, tmp_path / "saved")
    assert run("snapshot", "dump", tmp_path / "saved").count("/m1") == 1


def test_of_a_log_that_was_cut_short_all_that_is_left_is_saved(data: Path, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    disk = RealDisk(tmp_path / "one")
    storage, _ = Storage.open(disk, StorageSettings(segment_bytes=5000))
    storage.perform([SaveEpochs(1, Epoch(2), Epoch(2), Ensemble.parse("server.3=a:1:2"))])
    for number, txn in enumerate(TXNS, start=1):
        storage.perform([Append(number, pack(make(2, number), [TAG + txn]))])
    storage.close()
    disk.close()
    (log,) = (tmp_path / "one").glob("log.*")
    raw = log.read_bytes()
    assert len(raw) >= 5000
    log.write_bytes(raw[: raw.index(b"/m1")])
    assert "the end was cut off" in run("log", "verify", tmp_path / "one", status=1)
    assert len([line for line in run("log", "dump", tmp_path / "one").splitlines() if line.startswith("0x")]) == 5
    said = run("log", "repair", tmp_path / "one", tmp_path / "saved")
    assert "as of 2/5. Later transactions, if any, were not saved." in said
    assert "the end was cut off" in said


def test_where_nothing_can_be_saved_nothing_is_begun(data: Path, tmp_path: Path) -> None:
    for file in data.glob("log.*"):
        file.write_bytes(bytes(file.stat().st_size))
    assert "nothing can be read" in run("log", "repair", data, tmp_path / "saved", status=1)
    assert not (tmp_path / "saved").exists()


def test_without_its_record_the_history_is_read_from_log_and_snapshots(data: Path, tmp_path: Path) -> None:
    nodes = run("snapshot", "dump", data, "--json")
    (data / "epochs").unlink()
    said = "epochs: missing, although there is log.200000001; this server's promises are lost"
    told = json.loads(run("log", "verify", data, "--json", status=1))
    assert (told["damage"], told["last"]) == ([said], "2/9")
    assert said in run("export", data, tmp_path / "theirs")
    assert "as of 2/9. Later transactions" in run("log", "repair", data, tmp_path / "saved")
    for each in ("theirs", "saved"):
        assert run("snapshot", "dump", tmp_path / each, "--json") == nodes
    assert said in run("snapshot", "dump", data)


def test_a_log_in_a_directory_of_its_own(data: Path, tmp_path: Path) -> None:
    dumped, nodes = run("log", "dump", data), run("snapshot", "dump", data, "--json")
    logs = tmp_path / "logs"
    logs.mkdir()
    for file in data.glob("log.*"):
        file.rename(logs / file.name)
    assert "missing, but it was the newest log" in run("log", "verify", data, status=1)
    assert run("log", "verify", data, "--log-dir", logs).splitlines()[-1] == "whole: the history ends at 2/9"
    assert run("log", "dump", data, "--log-dir", logs) == dumped
    assert run("snapshot", "dump", data, "--json", "--log-dir", logs) == nodes
    run("export", data, tmp_path / "theirs", "--log-dir", logs)
    assert run("snapshot", "dump", tmp_path / "theirs", "--json") == nodes


# -- states ------------------------------------------------------------------------------------------------


def test_state_dump_lists_each_node(data: Path) -> None:
    nodes = {line["path"]: line for line in map(json.loads, run("snapshot", "dump", data, "--json", "-d").splitlines())}
    assert sorted(nodes) == ["/", "/a", "/a/b", "/m1", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"]
    assert (nodes["/a"]["data"], nodes["/a"]["bytes"], nodes["/a"]["version"]) == (None, None, 1)
    assert nodes["/a/b"]["session"] == "0x100000000000007"
    assert run("snapshot", "dump", data, "--under", "/a").splitlines()[1].startswith("/a/b 1 bytes mzxid=0x200000005")
    assert "there is no node /x" in run("snapshot", "dump", data, "--under", "/x", status=2)
    summary = [line.split() for line in run("snapshot", "dump", data, "--summary").splitlines()]
    assert summary == [["7", "1", "/"], ["2", "1", "/a"], ["1", "0", "/m1"], ["3", "0", "/zookeeper"]]


def test_export_can_be_imported_in_both_formats(data: Path, tmp_path: Path) -> None:
    before = run("snapshot", "dump", data, "--json", "-d")
    run("snapshot", "take", data, tmp_path / "backup")
    assert "exists already" in run("snapshot", "take", data, tmp_path / "backup", status=2)
    run("import", tmp_path / "backup", tmp_path / "ours")
    run("export", tmp_path / "ours", tmp_path / "theirs")
    run("export", data, tmp_path / "theirs-too")
    run("import", tmp_path / "theirs", tmp_path / "again")
    for each in ("ours", "theirs", "theirs-too", "again", "theirs/version-2/snapshot.200000009"):
        assert run("snapshot", "dump", tmp_path / each, "--json", "-d") == before
    assert (tmp_path / "theirs-too" / "myid").read_text() == "3\n"
    assert (tmp_path / "theirs" / "version-2" / "currentEpoch").read_text() == "2"
    ours = next((tmp_path / "ours").glob("snapshot.*"))
    assert "sound" in run("snapshot", "verify", ours)
    assert "sound: 7 nodes, 1 session, as of 2/9" in run("snapshot", "verify", tmp_path / "again")


def test_exported_files_are_not_world_readable(data: Path, tmp_path: Path) -> None:
    """Data behind lists, the store's secret and the passwords of brokers' users are in it."""
    run("snapshot", "take", data, tmp_path / "backup")
    run("import", tmp_path / "backup", tmp_path / "ours")
    run("export", data, tmp_path / "theirs")
    found = {
        path.relative_to(tmp_path).parts[0]: path.stat().st_mode & 0o007
        for name in ("backup", "ours", "theirs")
        for path in [tmp_path / name, *(tmp_path / name).rglob("*")]
        if path.is_file()
    }
    assert found == {"backup": 0, "ours": 0, "theirs": 0}


def test_nothing_is_written_over_and_no_directory_in_use_is_read(data: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "myid").write_text("7\n")
    run("import", data, tmp_path / "full")  # a number alone is no data
    assert (tmp_path / "full" / "myid").read_text() == "7\n"
    for command in ("import", "export"):
        assert "nothing is overwritten" in run(command, data, tmp_path / "full", status=2)
    (tmp_path / "file").touch()
    assert "is a file" in run("import", data, tmp_path / "file", status=2)
    disk = RealDisk(data)
    for command in ("import", "export", "snapshot take"):
        assert "a server uses this directory" in run(*command.split(), data, tmp_path / "new", status=2)
    disk.close()
    assert not (tmp_path / "new").exists()


def test_invalid_data_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "not a data directory" in run("import", tmp_path / "empty", tmp_path / "x", status=2)
    (tmp_path / "noise").write_bytes(b"noise")
    assert "neither a snapshot of zab" in run("import", tmp_path / "noise", tmp_path / "x", status=2)
    (tmp_path / "empty" / "version-2").mkdir()
    assert "recovery needs a snapshot" in run("import", tmp_path / "empty", tmp_path / "x", status=1)
    assert not (tmp_path / "x").exists()


def test_import_with_a_digest_mismatch_writes_nothing(data: Path, tmp_path: Path) -> None:
    run("export", data, tmp_path / "theirs")
    create = FileTxn(SESSION, 9, make(2, 10), NOW, 1, ("/c", b"x", OPEN, False, 4), (2, 12345))
    log = tmp_path / "theirs" / "version-2" / "log.20000000a"
    log.write_bytes(b"".join(log_chunks([create])))
    assert "records another digest than the tree has" in run("import", tmp_path / "theirs", tmp_path / "x", status=1)
    assert not (tmp_path / "x").exists()
    (tmp_path / "logs" / "version-2").mkdir(parents=True)
    log.unlink()
    kept = tmp_path / "logs" / "version-2" / log.name
    kept.write_bytes(b"".join(log_chunks([FileTxn(SESSION, 9, make(2, 10), NOW, 1, ("/c", b"x", OPEN, False, 4))])))
    assert "as of 2/10" in run("import", tmp_path / "theirs", tmp_path / "x", "--log-dir", tmp_path / "logs")


def test_a_damaged_snapshot_is_passed_over_for_the_one_before(data: Path, tmp_path: Path) -> None:
    run("export", data, tmp_path / "theirs")
    files = tmp_path / "theirs" / "version-2"
    (files / "snapshot.200000010").write_bytes((files / "snapshot.200000009").read_bytes()[:-7])
    said = run("import", tmp_path / "theirs", tmp_path / "x")
    assert "an older snapshot is used" in said
    assert "as of 2/9" in said
    (files / "snapshot.200000009").rename(files / "snapshot.200000009x")
    said = run("import", tmp_path / "theirs", tmp_path / "y", status=1)
    assert "none that can be used" in said
    assert "an older snapshot is used" not in said
    assert "undamaged snapshot file" not in said
    assert "ignored, because the name is not snapshot.<zxid in hexadecimal>: snapshot.200000009x" in said


def test_snapshot_of_zab_under_the_name_of_another_zxid_is_misnamed(data: Path, tmp_path: Path) -> None:
    run("export", data, tmp_path / "theirs")
    run("import", tmp_path / "theirs", tmp_path / "ours")
    content = (tmp_path / "ours" / "snapshot.200000009").read_bytes()
    for name in ("snapshot.20261123", "snapshot.200000009", "backup", "backup.today"):
        (tmp_path / name).write_bytes(content)
    said = run("snapshot", "verify", tmp_path / "snapshot.20261123", status=1)
    assert "misnamed: the name says zxid 0x20261123, but the content ends at 0x200000009" in said
    assert "damaged" not in said
    for name in ("snapshot.200000009", "backup", "backup.today"):
        assert "as of 2/9" in run("snapshot", "verify", tmp_path / name)
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "snapshot.200000010").write_bytes(content)
    assert "rename it to snapshot.200000009" in run("snapshot", "verify", tmp_path / "only", status=1)


@pytest.mark.parametrize("name", ["snapshot.20261123", "snapshot.20261123010203"])
def test_snapshot_named_beyond_its_content_is_refused(data: Path, tmp_path: Path, name: str) -> None:
    """A nightly job calls its file `snapshot.$(date +%Y%m%d)`, which reads as a zxid."""
    named = tmp_path / name
    name_zxid = int(named.suffix[1:], 16)
    taken = run("snapshot", "take", data, named)
    assert f"the name stands for zxid {name_zxid:#x}, but the snapshot has zxid 0x200000009" in taken
    if name_zxid < make(2, 9):
        assert "as of 2/9" in run("snapshot", "verify", named)
        return
    for command in (("snapshot", "verify", named), ("import", named, tmp_path / "x"), ("snapshot", "dump", named)):
        assert "the content ends at 0x200000009: rename it to snapshot.200000009" in run(*command, status=1)
    assert not (tmp_path / "x").exists()
    named.rename(tmp_path / "snapshot.200000009")
    assert "as of 2/9" in run("snapshot", "verify", tmp_path / "snapshot.200000009")
    directory = tmp_path / "theirs" / "version-2"
    directory.mkdir(parents=True)
    (tmp_path / "snapshot.200000009").rename(directory / name)
    assert "rename it to snapshot.200000009" in run("import", tmp_path / "theirs", tmp_path / "x", status=1)


def without_last_zxid(named: Path, target: Path, *, digest: bool) -> None:
    """Rewrite a snapshot as older versions of ZooKeeper, and `serializeLastProcessedZxid.enabled=false`, write it."""
    reader = SnapshotReader([named.read_bytes()])
    nodes = list(reader)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(
        b"".join(snapshot_chunks(reader.sessions, reader.acls, nodes, reader.digest if digest else None))
    )


@pytest.mark.parametrize("digest", [True, False])
@pytest.mark.parametrize("name", ["snapshot.2026112311", "snapshot.202611230102", "snapshot.20261123010203"])
def test_snapshot_without_last_zxid_named_beyond_its_content_is_refused(
    data: Path, tmp_path: Path, name: str, digest: bool
) -> None:
    run("snapshot", "take", data, tmp_path / "taken")
    named = tmp_path / name
    without_last_zxid(tmp_path / "taken", named, digest=digest)
    said = run("snapshot", "verify", named, status=1)
    assert f"the name says zxid {int(named.suffix[1:], 16):#x}, but the content ends at 0x2000000" in said
    assert said.count(name) == 1
    assert "another server" not in run("import", named, tmp_path / "x", status=1)
    named.rename(tmp_path / "snapshot.200000009")
    assert "as of 2/9" in run("snapshot", "verify", tmp_path / "snapshot.200000009")


@pytest.mark.parametrize(
    ("name", "digest", "content"),
    [
        ("snapshot.20261121", True, "2/9"),
        ("snapshot.200000001", True, "2/9"),
        ("snapshot.300000000", True, "3/0"),
        ("snapshot.200000800", False, "2/2048"),
        ("snapshot.300000800", False, "3/2048"),
    ],
)
def test_snapshot_without_last_zxid_keeps_a_name_that_may_be_right(
    data: Path, tmp_path: Path, name: str, digest: bool, content: str
) -> None:
    run("snapshot", "take", data, tmp_path / "taken")
    without_last_zxid(tmp_path / "taken", tmp_path / name, digest=digest)
    assert f"as of {content} " in run("snapshot", "verify", tmp_path / name)
    files = tmp_path / "theirs" / "version-2"
    without_last_zxid(tmp_path / "taken", files / name, digest=digest)
    assert f"as of {content} " in run("snapshot", "verify", tmp_path / "theirs")


def test_snapshot_named_where_the_log_reaches_is_read(data: Path, tmp_path: Path) -> None:
    run("snapshot", "take", data, tmp_path / "taken")
    files = tmp_path / "theirs" / "version-2"
    without_last_zxid(tmp_path / "taken", files / "snapshot.200000020", digest=True)
    said = run("snapshot", "verify", tmp_path / "theirs", status=1)
    assert "the content ends at 0x200000009" in said
    assert said.count("snapshot.200000020") == 1
    create = FileTxn(SESSION, 9, make(2, 0x20), NOW, 1, ("/c", b"x", OPEN, False, 4))
    (files / "log.20000000a").write_bytes(b"".join(log_chunks([create])))
    assert "as of 2/32" in run("snapshot", "verify", tmp_path / "theirs")


def test_directory_with_a_snapshot_of_zookeeper_and_no_version_2_is_named(data: Path, tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    run("snapshot", "take", data, tmp_path / "backup" / "snapshot.20261121")
    said = run("import", tmp_path / "backup", tmp_path / "x", status=2)
    assert "contains snapshot.20261121, a snapshot in ZooKeeper's format, but no version-2/" in said


def test_snapshot_named_below_its_content_counts_by_its_content(data: Path, tmp_path: Path) -> None:
    run("snapshot", "take", data, tmp_path / "snapshot.200000001")
    verified = run("snapshot", "verify", tmp_path / "snapshot.200000001")
    assert "the name says zxid 0x200000001, but the content ends at 0x200000009, which is used" in verified
    assert "as of 2/9" in verified
    run("import", tmp_path / "snapshot.200000001", tmp_path / "ours")
    assert "as of 2/9" in run("snapshot", "verify", tmp_path / "ours")
    directory = tmp_path / "theirs" / "version-2"
    directory.mkdir(parents=True)
    (tmp_path / "snapshot.200000001").rename(directory / "snapshot.200000001")
    verified = run("snapshot", "verify", tmp_path / "theirs")
    assert "as of 2/9" in verified
    assert (
        "contains changes up to 0x200000009, which is used; no log follows it, and its name says 0x200000001"
        in verified
    )


# -- words -------------------------------------------------------------------------------------------------


def test_zxids_as_people_write_them() -> None:
    assert zxid_of("2/1") == zxid_of("0x200000001") == zxid_of("200000001") == make(2, 1)
    for wrong in ("", "2/", "x", "2/1/3", "-1", "1_0", "\u0662/1", "0x"):
        with pytest.raises(ValueError, match="is not a zxid"):
            zxid_of(wrong)


def test_a_time_may_be_any_number() -> None:
    assert moment(0) == "1970-01-01T00:00:00.000+00:00"
    assert moment(1 << 62) == f"{1 << 62} ms"


def test_a_backup_into_a_directory_that_is_not_there(data: Path, tmp_path: Path) -> None:
    assert f"{tmp_path}/none: there is no such directory" in run(
        "snapshot", "take", data, tmp_path / "none" / "b", status=2
    )
