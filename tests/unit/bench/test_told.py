"""What the report makes of figures: ratios the right way round, goals met and missed, tables, a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from bench.zookeeper.phases import PHASES, ROWS, Kind, planned
from bench.zookeeper.picture import LEFT, RIGHT, WIDTH, Axis, drawn
from bench.zookeeper.told import Compared, compare, from_document, missed, page, rows

SVG = "{http://www.w3.org/2000/svg}"


def runs(key: str, *values: float) -> list[dict[str, Any]]:
    return [{key: value, "cpu_ms_per_1000": 10.0, "rss_mib": 150.0} for value in values]


MEASURED = {
    ("set", "ours"): runs("per_s", 30_000, 45_000, 20_000),
    ("set", "apache"): runs("per_s", 20_000, 15_000, 20_000),
    ("get", "ours"): runs("per_s", 50_000),
    ("get", "apache"): runs("per_s", 25_000),
    ("one-set", "ours"): runs("p50_ms", 1.0),
    ("one-set", "apache"): runs("p50_ms", 0.5),
    ("leader-killed", "ours"): [{"gap_ms": 250.0, "own_gap_ms": 900.0}, {"gap_ms": 260.0, "own_gap_ms": 700.0}],
    ("leader-killed", "apache"): [{"gap_ms": 1300.0, "own_gap_ms": 1400.0}, {"gap_ms": 900.0, "own_gap_ms": 1500.0}],
    ("catch-up", "ours"): [
        {"seconds": 2.0, "behind": 100_000, "cpu_s": 1.5, "writes_meanwhile": 3_000, "longest_gap_ms": 20.0}
    ],
    ("memory", "ours"): [{"nodes": 100_000, "server_mib": 90.0, "empty_mib": 35.0, "bytes_per_node": 577.0}],
    ("memory", "apache"): [
        {
            "nodes": 100_000, "server_mib": 360.0, "empty_mib": 120.0, "bytes_per_node": 2_517.0,
            "live_bytes_per_node": 410.0,
        }
    ],
    ("etcd-set", "ours"): runs("per_s", 30_000),
    ("etcd-set", "etcd"): runs("per_s", 10_000),
}  # fmt: skip
DOCUMENT: dict[str, Any] = {
    "at": "2026-11-22T10:00:00+00:00",
    "machine": {"cores": 2, "load_before": 1.25, "python": "3.11.7"},
    "peers": {"Apache ZooKeeper": "3.9.5"},
    "runs": 3,
    "operations": 60_000,
    "measured": [{"phase": name, "side": side, "runs": each} for (name, side), each in MEASURED.items()],
}


def compared(name: str) -> Compared:
    return next(each for each in compare(MEASURED) if each.phase.name == name)


def test_a_ratio_is_the_middle_of_the_ratios_of_the_runs() -> None:
    found = compared("set")
    assert (found.ours, found.theirs, found.ratio) == (30_000, 20_000, 1.5)  # of 1.5, 3 and 1
    assert (found.better, found.met) == (1.5, False)


def test_where_less_is_better_half_of_it_is_twice_as_good() -> None:
    slow, quick = compared("one-set"), compared("leader-killed")
    assert (slow.ratio, slow.better, slow.goal, slow.met) == (2.0, 0.5, 1.0, False)
    assert quick.better == pytest.approx(1 / quick.ratio)
    assert (quick.goal, quick.met) == (2.0, True)  # at most half
    assert compared("memory").better == 4.0


def test_what_only_one_side_ran_is_not_compared() -> None:
    assert [each.phase.name for each in compare(MEASURED)] == [
        "set", "get", "one-set", "leader-killed", "memory", "etcd-set"
    ]  # fmt: skip


def test_missed_goals_are_named() -> None:
    assert [each.split(" (")[0] for each in missed(compare(MEASURED))] == ["set, 128 bytes", "get", "one set at a time"]


def test_rows_have_all_figures_that_there_are() -> None:
    first, *_, last = rows(compare(MEASURED), MEASURED)
    assert first["goal"] == "at least 2: missed"
    assert (first["ours CPU ms/1000"], first["ours p50 ms"]) == (10.0, "")
    assert (last["phase"], last["side"], last["theirs"]) == ("etcd-set", "etcd", 10_000)


def test_a_page_comes_from_the_file_alone() -> None:
    assert from_document(DOCUMENT) == MEASURED
    told = page(DOCUMENT)
    assert "2026-11-22, 2 cores, load 1.2 at the end, Python 3.11.7, Apache ZooKeeper 3.9.5; 3 rounds" in told
    assert "| set, 128 bytes | 30,000/s | 20,000/s | 1.50 | at least 2: missed | 10, 10 | 150, 150 |" in told
    assert "| leader killed: others' writers | 260 ms | 1,300 ms | 0.29 | at most 0.5: met |  |  |" in told
    assert "- The leader killed, rounds: 2. The longest gap: ours 260 ms at most" in told
    assert "- 100,000 nodes of 100 bytes, apache: 360 MiB a server, 120 before; 2,517 bytes a node, 410 of them" in told
    assert "- 100,000 behind, ours: 2.00 s with its start, 1.50 s of CPU; 3,000 writes meanwhile" in told
    assert "| etcd: another protocol, another client | Ours |" in told


# -- the picture ---------------------------------------------------------------------------------------


def test_bars_go_to_the_right_where_ours_is_better() -> None:
    found = compare(MEASURED)
    root = ET.fromstring(drawn(found, "Ours & theirs", "today"))
    _, *bars = root.iter(f"{SVG}rect")
    axis = Axis([each.better for each in found] + [each.goal for each in found if each.goal is not None])
    assert len(bars) == len(found)
    for bar, each in zip(bars, found, strict=True):
        begin, end = float(bar.attrib["x"]), float(bar.attrib["x"]) + float(bar.attrib["width"])
        one = axis.x(1.0)
        assert (begin if each.better >= 1 else end) == pytest.approx(one, abs=0.2)
        assert LEFT <= begin <= end <= WIDTH - RIGHT
    texts = [each.text for each in root.iter(f"{SVG}text")]
    assert {"Ours & theirs", "today", "set, 128 bytes", "1.50", "0.50", "4.00"} <= set(texts)


def test_twice_as_good_is_as_long_as_half_as_good() -> None:
    axis = Axis([0.3, 7.0])
    assert axis.x(2.0) - axis.x(1.0) == pytest.approx(axis.x(1.0) - axis.x(0.5))
    assert axis.x(2.0) > axis.x(1.0)
    assert 1.0 in axis.ticks()
    assert all(axis.low <= tick <= axis.high for tick in axis.ticks())


# -- the plan ------------------------------------------------------------------------------------------


def test_a_phase_brings_those_that_it_needs() -> None:
    assert [phase.name for phase in planned(["delete"])] == ["create", "delete"]
    assert [phase.name for phase in planned(["get-1k"])] == ["set-1k", "get-1k"]
    assert [phase.name for phase in planned(["fan-out"])] == ["fan-out"]


def test_everything_is_all_but_what_takes_too_long() -> None:
    assert {phase.name for phase in planned(None)} == set(PHASES) - {"memory-million"}
    assert set(PHASES) <= set(ROWS)


def test_sixty_thousand_operations_are_that_many_nodes_behind_and_in_memory() -> None:
    assert PHASES["catch-up"].operations(60_000) == PHASES["memory"].operations(60_000) == 100_000
    assert PHASES["memory-million"].operations(60_000) == 1_000_000
    assert all(phase.operations(1) == 60 for phase in PHASES.values() if phase.kind is Kind.ROUNDS)
