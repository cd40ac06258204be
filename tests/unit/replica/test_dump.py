"""`zab-broker dump`: what is in the files of a log directory, for a person."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replica.cli import main
from replica.core.partitions.log_config import LogConfig
from replica.core.partitions.partition_log import AppendOrigin
from replica.storage.log_manager import LogManager
from replica.wire.records import ControlType, Record, build, control_batch
from tests.unit.replica.storage.logs import NOW, of_producer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    manager = LogManager.open([str(tmp_path)], lambda topic: LogConfig.of({"index.interval.bytes": "0"}))
    manager.load(1, "cluster")
    log = manager.get_or_create(("t", 0), bytes(range(16)))
    rows = [Record(0, NOW, b"k", None, (("h", b"x"),)), Record(1, NOW + 1, b"\xff", b"v")]
    log.append_as_leader(build(rows), 3, NOW)
    log.append_as_leader(of_producer(7, 0, b"a", b"b"), 4, NOW)
    log.append_as_leader(control_batch(ControlType.COMMIT, 7, 0, 5, NOW), 4, NOW, origin=AppendOrigin.COORDINATOR)
    manager.close(broker_epoch=12)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> list[str]:
    assert main(["dump", *map(str, arguments)]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_segment(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "t-0" / "00000000000000000000.log"
    lines = said(capsys, path)
    assert [line.split(",")[0] for line in lines] == ["offsets 0-1", "offsets 2-3", "offsets 4-4"]
    assert "epoch 3, position 0, bytes" in lines[0]
    assert "time 2023-11-14T22:13:20.001Z, uncompressed" in lines[0]
    assert lines[1].endswith("producer 7 epoch 0 sequences 0-1")
    assert lines[2].endswith("transactional, control")
    lines = said(capsys, path, "--records", "--from", "1", "--count", "1")
    assert lines[1:] == ["  0 2023-11-14T22:13:20.000Z 'k': null h='x'", "  1 2023-11-14T22:13:20.001Z 0xff: 'v'"]
    assert "COMMIT, coordinator epoch 5" in said(capsys, path, "--records", "--from", "4")[1]


def test_the_files_beside_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    partition = folder / "t-0"
    assert said(capsys, partition / "00000000000000000000.index")[0].startswith("offset 3, position ")
    [first] = said(capsys, partition / "00000000000000000000.timeindex")
    assert first.endswith(f"({NOW + 1}), offset 1")
    [producer] = said(capsys, partition / "00000000000000000005.snapshot")
    assert "producer 7, epoch 0" in producer
    assert "sequences 0-1 at 2-3" in producer
    assert said(capsys, partition / "leader-epoch-checkpoint") == ["epoch 3 from offset 0", "epoch 4 from offset 2"]
    assert said(capsys, partition / "partition.metadata")[0] == "version: 0"
    both = said(capsys, folder / "recovery-point-offset-checkpoint", folder / "meta.properties")
    assert "t-0 5" in both
    assert "broker.id=1" in both
    assert said(capsys, folder / ".kafka_cleanshutdown") == ["clean shutdown of the broker with broker epoch 12"]


def test_the_same_for_programs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    partition = folder / "t-0"
    segment = partition / "00000000000000000000.log"

    def objects(*arguments: str | Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in said(capsys, "--json", *arguments)]

    first, record, another = objects(segment, "--records", "--count", "1")
    assert (first["base_offset"], first["last_offset"], first["leader_epoch"], first["records"]) == (0, 1, 3, 2)
    assert (first["file"], first["compression"], first["producer_id"]) == (str(segment), "uncompressed", -1)
    assert (record["offset"], record["timestamp"], record["key"], record["value"]) == (0, NOW, "k", None)
    assert (record["headers"], another["key"]) == ([["h", "x"]], "\\xff")
    [*_, end, marker] = objects(segment, "--records")
    assert (end["control"], marker["control"], marker["coordinator_epoch"]) == (True, "COMMIT", 5)
    [producer] = objects(partition / "00000000000000000005.snapshot")
    assert (producer["producer_id"], producer["batches"][0]["first_offset"]) == (7, 2)
    names = ("leader-epoch-checkpoint", "partition.metadata", "00000000000000000000.index")
    lines = objects(*(partition / name for name in names))
    assert {"leader_epoch": 4, "start_offset": 2} in [_without_file(line) for line in lines]
    assert {line["file"] for line in lines} == {str(partition / name) for name in names}
    [*_, cluster] = objects(folder / "recovery-point-offset-checkpoint", folder / "meta.properties")
    assert cluster["cluster.id"] == "cluster"
    assert objects(folder / ".kafka_cleanshutdown")[0]["broker_epoch"] == 12


def _without_file(line: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key != "file"}


def test_damaged_log_is_shown_up_to_the_damage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "t-0" / "00000000000000000000.log"
    data = path.read_bytes()
    path.write_bytes(data[:-5])
    assert main(["dump", str(path)]) == 1
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 2
    assert "zab-broker dump:" in shown.err
    assert f"of {len(data) - 5}: " in shown.err
    for name in ("00000000000000000005.snapshot", "leader-epoch-checkpoint", "00000000000000000000.index"):
        (folder / "t-0" / name).write_bytes(b"rot")
        assert main(["dump", str(folder / "t-0" / name)]) == 1
        assert name in capsys.readouterr().err


def test_misuse(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "notes.txt").write_text("x")
    for path in (folder / "notes.txt", folder / "nothing", folder):
        assert main(["dump", str(path)]) == 2
        assert str(path) in capsys.readouterr().err
