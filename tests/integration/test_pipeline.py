"""The pipeline on a Spark of its own: each stage on a few rows, tasks that are killed, and all from end to end."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from harness.cli import main
from harness.history import Change, History, Invoke, Reply, Request, Response, SessionEvent, Stat
from harness.mutants.edit import planted
from harness.mutants.hunt import hunt
from harness.mutants.table import BY_NAME
from harness.run.plan import Plan
from harness.scripts import loads, to_json
from harness.spark.analyze import analyze, load
from harness.spark.campaign import Campaign, Stopped, in_spark
from harness.spark.chance import corrected
from harness.spark.chunk import Done, Work, finish
from harness.spark.layout import Chunk, Layout
from harness.spark.rows import history_rows
from harness.spark.schema import EVENTS, HISTORIES, REPEATS, RUNS, VERSION, Table
from harness.spark.session import session
from harness.spark.stages import clusters, discovery, odds, recheck, sums, validate
from harness.spark.verdicts import Budget, Verdict, as_clients_saw_it
from harness.worlds import world

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]
Row = dict[str, Any]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with session("local[2]", "tests", quick=True, settings={"spark.driver.memory": "1g"}) as made:
        yield made


def run_of(seed: int, **other: Any) -> Row:
    """A run of three servers that held, unless something else is said."""
    row: Row = dict.fromkeys((column.name for column in RUNS.columns), 0)
    row |= {"seed": seed, "world": "cores", "machine": "list", "voters": 3, "outcome": "valid", "invariant": None}
    row |= {"what": "", "faults": {}, "strikes": [], "outages": [], "recoveries": [], "counts": {}}
    row |= {"behaviour": "a", "script": None}
    row |= {"result_hash": f"r{seed}", "trace_hash": None, "core_seconds": 0.5}
    return {**row, **other}


def broken(seed: int, **other: Any) -> Row:
    return run_of(seed, **{"outcome": "invalid", "invariant": "agreement", "script": "{}", **other})


def strike(kind: str, phase: str = "broadcast", times: int = 1) -> Row:
    return {"kind": kind, "phase": phase, "times": times}


def outage(took_ms: int, after: str) -> Row:
    return {"at_ms": 1, "took_ms": took_ms, "after": after}


def recovery(kind: str, leader_ms: int | None, write_ms: int | None, sessions_ms: int | None = None) -> Row:
    return {"kind": kind, "at_ms": 1, "leader_ms": leader_ms, "write_ms": write_ms, "sessions_ms": sessions_ms}


def frame(spark: Any, rows: Iterable[Row], table: Table = RUNS) -> Any:
    return spark.createDataFrame([tuple(row[column.name] for column in table.columns) for row in rows], table.ddl)


def told(made: Any) -> list[Row]:
    return [row.asDict(recursive=True) for row in made.collect()]


# -- validate ------------------------------------------------------------------------------------------


def test_bad_rows_are_put_aside_with_the_reason(spark: Any) -> None:
    rows = [
        run_of(1),
        {**run_of(2), "seed": None},
        run_of(3, outcome="great"),
        run_of(4, outcome="invalid", script="{}"),
        broken(5, script=None),
        run_of(6, messages=-1),
        run_of(7, outages=[outage(-5, "Crash")]),
        run_of(8, core_seconds=float("nan"), what=None),
        run_of(9, recoveries=[recovery("Crash", None, 3), recovery("Crash", None, -3)]),
        run_of(10, messages=1 << 62),
        run_of(11, at_ms=1 << 60),
        run_of(12, outages=[outage(1 << 62, "Crash")]),
        run_of(13, counts={"sync diff": 1 << 62}),
    ]
    good, aside = validate.validate(frame(spark, rows), RUNS)
    assert [row["seed"] for row in told(good)] == [1]
    assert {row["seed"]: row["reason"] for row in told(aside)} == {
        None: "seed is missing",
        3: "unknown outcome",
        4: "invalid, but no invariant is named",
        5: "failed, but its script is missing",
        6: "negative count",
        7: "an outage with a negative duration or time",
        8: "what is missing",
        9: "a recovery with a negative duration or time",
        10: "impossible count",
        11: "impossible count",
        12: "impossible time of an outage",
        13: "impossible count",
    }
    assert all(json.loads(row["row"])["world"] == "cores" for row in told(aside)), "the row itself is kept"


def test_a_seed_counts_once_and_a_history_with_a_hole_is_not_judged(spark: Any) -> None:
    kept, twice = validate.once(frame(spark, [run_of(1), run_of(2), run_of(2, core_seconds=9.0)]), RUNS)
    assert sorted((row["seed"], row["core_seconds"]) for row in told(kept)) == [(1, 0.5), (2, 0.5)]
    assert [(row["seed"], row["reason"]) for row in told(twice)] == [(2, "the seed has two rows")]

    runs = frame(spark, [run_of(1, stored=2), run_of(2, stored=2), run_of(3, stored=1), run_of(4)])
    events = spark.createDataFrame([(seed,) for seed in (1, 1, 2, 9)], "seed bigint")
    histories = spark.createDataFrame([(3,)], "seed bigint")
    whole, torn = validate.whole(runs, events, histories)
    assert sorted(row["seed"] for row in told(whole)) == [1, 3]
    assert sorted((row["seed"], row["reason"]) for row in told(torn)) == [
        (2, "1 of 2 rows are stored"),
        (9, "rows of a run that is not in the table of runs"),
    ]


def test_files_that_are_torn_or_of_another_version_are_named(tmp_path: Path) -> None:
    names = ("good", "torn", "old", "other", "gone", "typed")
    good, torn, old, other, gone, typed = (tmp_path / f"{name}.parquet" for name in names)
    rows = RUNS.arrow().empty_table()
    pq.write_table(rows, good)
    torn.write_bytes(good.read_bytes()[:-20])
    pq.write_table(rows.replace_schema_metadata({"version": "0", "table": "runs"}), old)
    pq.write_table(EVENTS.arrow().empty_table(), other)
    place = rows.schema.get_field_index("voters")
    pq.write_table(rows.set_column(place, "voters", pa.array([], pa.string())), typed)
    found = validate.readable(RUNS, [good, torn, old, other, gone, typed])
    assert found.paths == (str(good),)
    refused = {Path(path).stem: reason for path, reason in found.refused}
    assert refused["old"] == f"version 0, expected {VERSION}"
    assert refused["other"] == "the file has table events, expected runs"
    assert refused["torn"].startswith("cannot be read: ")
    assert refused["gone"].startswith("cannot be read: ")
    assert refused["typed"] == "column voters is string, expected int32"


def test_spark_failure_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def overflows(*_: Any, **__: Any) -> None:
        raise PySparkException("[ARITHMETIC_OVERFLOW] long overflow. SQLSTATE: 22003\nand then\nthe whole stack")

    Layout.of(tmp_path, "x").begin({})
    monkeypatch.setattr("harness.spark.session.session", lambda *_, **__: nullcontext())
    monkeypatch.setattr("harness.spark.analyze.analyze", overflows)
    assert main(["analyze", str(tmp_path)]) == 2
    told = capsys.readouterr().err.strip()
    assert told.startswith("Spark: [ARITHMETIC_OVERFLOW] long overflow.")
    assert len(told.splitlines()) == 1


# -- judged again --------------------------------------------------------------------------------------


def slow_to_tell(rows: Iterable[Mapping[str, Any]], budget: Budget) -> Verdict:
    """Needs a step for each row, twice; whoever has a 7 in it fails, and a 13 cannot be decided."""
    numbers = [row["number"] for row in rows]
    assert numbers == sorted(numbers)
    if 13 in numbers or 2 * len(numbers) > budget:
        return Verdict("unknown", None, "not yet", budget)
    return Verdict("invalid" if 7 in numbers else "valid", "sevens" if 7 in numbers else None, "", 2 * len(numbers))


def test_histories_are_judged_alone_with_budgets_that_double(spark: Any) -> None:
    lengths = {1: 1, 2: 3, 3: 8, 4: 13 + 1, 5: 2}
    rows = [(seed, number) for number in range(20) for seed, length in lengths.items() if number < length]
    given = spark.createDataFrame(rows, "seed bigint, number int")
    made = recheck.recheck(given, "number", slow_to_tell, budget=4, rounds=3, tasks=2)
    assert sorted((row["seed"], row["verdict"], row["budget"], row["steps"]) for row in told(made)) == [
        (1, "valid", 4, 2),
        (2, "valid", 8, 6),
        (3, "invalid", 16, 16),
        (4, "unknown", 16, 16),
        (5, "valid", 4, 4),
    ]


def client_history(read: bytes) -> History:
    stat = Stat(2, 2, 2, 0, 0, 0, 0, 1, 0)
    events = (
        SessionEvent(1, 1, 7, "connected", 1, 4_000),
        Invoke(2, 1, 7, 1, 1, Request("create", "/a", b"x")),
        Response(3, 1, 7, 1, Reply(zxid=2, path="/a")),
        Invoke(4, 1, 7, 2, 1, Request("get", "/a")),
        Response(5, 1, 7, 2, Reply(zxid=2, data=read, stat=stat)),
    )
    return History(events, (Change(1, 7, "open"), Change(2, 7, "create", "/a", b"x")))


def test_client_histories_are_judged_from_stored_rows(spark: Any) -> None:
    rows = [*history_rows(1, client_history(b"x")), *history_rows(2, client_history(b"y"))]
    rows += list(history_rows(3, client_history(b"x")))[:-1]
    made = recheck.recheck(frame(spark, rows, HISTORIES), "index", as_clients_saw_it, rounds=1, tasks=2)
    by_seed = {row["seed"]: row for row in told(made)}
    assert [by_seed[seed]["verdict"] for seed in (1, 2, 3)] == ["valid", "invalid", "unknown"]
    assert by_seed[2]["invariant"]
    assert by_seed[3]["what"].startswith("invalid history rows: ")


def test_two_tasks_must_agree(spark: Any) -> None:
    runs = frame(spark, [run_of(1, trace_hash="t"), run_of(2, trace_hash="t"), run_of(3), run_of(4)])
    repeats = spark.createDataFrame([(1, "r1", "t", 0.1), (2, "r2", "other", 0.1), (3, "r3", None, 0.1)], REPEATS.ddl)
    assert {row["seed"]: row["same"] for row in told(sums.compared(runs, repeats))} == {1: True, 2: False, 3: True}


# -- added up ------------------------------------------------------------------------------------------


def test_sums(spark: Any) -> None:
    rows = [
        run_of(
            1,
            strikes=[strike("Crash", "broadcast", 2), strike("Pause", "election")],
            outages=[outage(10, "Crash"), outage(30, "Crash")],
            counts={"sync diff": 3, "looking": 1},
            elections=4,
            messages=30,
            operations=10,
            committed=15,
            simulated_ms=1_000,
        ),
        broken(2, voters=5, strikes=[strike("Crash")], counts={"sync snap": 1}, elections=2, messages=9, operations=3),
        run_of(3, recovered_ms=50, simulated_ms=1_000, counts={"looking": 7}),
    ]
    runs = frame(spark, rows).cache()
    totals = {row["voters"]: row for row in told(sums.totals(runs))}
    assert (totals[3]["runs"], totals[3]["valid"], totals[5]["invalid"]) == (2, 2, 1)
    assert totals[3]["runs_per_core_minute"] == 120.0
    struck = {(row["kind"], row["phase"], row["outcome"]): row["strikes"] for row in told(sums.strikes(runs))}
    assert struck[("Crash", "broadcast", "valid")] == 2
    assert struck[("Crash", "broadcast", "invalid")] == struck[("Pause", "election", "valid")] == 1
    (out,) = told(sums.outages(runs))
    assert (out["kind"], out["outages"], out["p50"], out["max"]) == ("Crash", 2, 10, 30)
    (waited,) = told(sums.waiting(runs))
    assert (waited["runs"], waited["share_unavailable"], waited["recovered_max"]) == (2, 0.02, 50)
    assert [(row["voters"], row["form"], row["times"]) for row in told(sums.synchronizations(runs))] == [
        (3, "diff", 3),
        (5, "snap", 1),
    ]
    probes = {row["name"]: (row["times"], row["runs"], row["first_seed"]) for row in told(sums.probes(runs))}
    assert probes["looking"] == (8, 2, 1)
    elected = {row["kind"]: row for row in told(sums.elections(runs))}
    assert (elected["Crash"]["elections"], elected["Crash"]["elections_per_fault"]) == (3.0, 1.5)
    words = {row["voters"]: row for row in told(sums.messages(runs))}
    assert (words[3]["per_operation"], words[3]["per_transaction"], words[5]["per_transaction"]) == (3.0, 2.0, None)


def test_aborted_run_has_no_later_operations_of_its_script(spark: Any) -> None:
    rows = [
        run_of(1, messages=100, operations=50, committed=10),
        broken(2, messages=20, operations=50, committed=2),
        run_of(3, messages=30, operations=50, committed=3, outcome="unknown", what="too long", script="{}"),
        broken(4, voters=5, messages=20, operations=50, committed=2),
    ]
    words = {row["voters"]: row for row in told(sums.messages(frame(spark, rows)))}
    assert (words[3]["messages"], words[3]["per_operation"], words[3]["per_transaction"]) == (150, 2.0, 10.0)
    assert (words[5]["per_operation"], words[5]["per_transaction"]) == (None, 10.0)


def test_recoveries_by_the_kind_of_the_fault(spark: Any) -> None:
    rows = [
        run_of(1, machine="store", recoveries=[recovery("Crash", 40, 90, 200), recovery("Pause", None, 5)]),
        run_of(2, machine="controller", recoveries=[recovery("Crash", 60, 70), recovery("Crash", None, None)]),
        run_of(3, outcome="unknown", what="too many events", script="{}"),
    ]
    runs = frame(spark, rows)
    found = {row["kind"]: row for row in told(sums.recoveries(runs))}
    crash, pause = found["Crash"], found["Pause"]
    assert (crash["faults"], crash["leader_times"], crash["leader_p50"], crash["leader_max"]) == (3, 2, 40, 60)
    assert (crash["write_times"], crash["write_p99"]) == (2, 90)
    assert (crash["sessions_times"], crash["sessions_p50"]) == (1, 200)
    assert (pause["faults"], pause["leader_times"], pause["leader_p50"], pause["write_max"]) == (1, 0, None, 5)
    assert told(sums.given_up(runs, 9)) == [{"seed": 3, "voters": 3, "what": "too many events"}]


def test_discovery(spark: Any) -> None:
    rows = [run_of(seed, behaviour="common" if seed % 2 else f"b{seed // 4}") for seed in range(100)]
    rows[99]["behaviour"] = "at last"
    kinds = discovery.kinds(frame(spark, rows)).cache()
    curve = {row["place"]: row["new"] for row in told(discovery.curve(kinds))}
    assert (curve[0], sum(curve.values()), max(curve)) == (2, 27, 59)
    (found,) = told(discovery.unseen(kinds))
    assert (found["kinds"], found["once"], found["twice"], found["chance_of_new"]) == (27, 1, 25, 0.01)
    assert found["came"] == 0.5, "of the last ten, five were of kinds that nobody had seen"


def test_odds(spark: Any) -> None:
    rows = [broken(seed, strikes=[strike("Crash"), strike("Pause")]) for seed in range(4)]
    rows += [run_of(10 + seed, strikes=[strike("Pause")]) for seed in range(5)]
    rows += [run_of(20 + seed) for seed in range(11)]
    found = {row["kind"]: row for row in told(odds.odds(frame(spark, rows)))}
    assert (found["Crash"]["failed_with"], found["Crash"]["failed_without"]) == (4, 0)
    assert found["Crash"]["odds_ratio"] == pytest.approx(4.5 * 16.5 / (0.5 * 0.5))
    assert found["Pause"]["odds_ratio"] == pytest.approx(4.5 * 11.5 / (5.5 * 0.5))
    assert found["Crash"]["low"] > 1
    chances = {row["kind"]: row["chance"] for row in corrected(list(found.values()))}
    assert chances == pytest.approx({"Crash": 2 * 0.00594, "Pause": 0.06290}, rel=0.01)


def test_failures_that_need_the_same_are_one(spark: Any) -> None:
    rows = [
        broken(1, what="server 1 applies 1/2 after [3, 4]"),
        broken(2, what="server 2 applies 7/9 after [5]"),
        broken(3, what="nobody leads"),
        broken(4, invariant="liveness", what="nobody leads"),
        run_of(5, outcome="error", what="Wrong: line 7", script="{}"),
        run_of(6),
    ]
    groups = clusters.groups(frame(spark, rows)).cache()
    assert {(row["invariant"], row["failures"]) for row in told(groups)} == {
        ("agreement", 2),
        ("agreement", 1),
        ("liveness", 1),
        ("error", 1),
    }
    slices = spark.createDataFrame([(1, "Crash, Write", "{}", 9), (3, "Crash, Write", "{}", 9)], clusters.SLICES.ddl)
    made = {(row["invariant"], row["slice"]): row for row in told(clusters.clusters(groups, slices))}
    assert made[("agreement", "Crash, Write")]["seeds"] == [1, 2, 3]
    assert made[("agreement", "Crash, Write")]["failures"] == 3
    assert made[("liveness", "not shrunk: nobody leads")]["failures"] == 1
    assert ("error", "not shrunk: Wrong: line #") in made


def test_one_bug_is_one_group(spark: Any) -> None:
    """With other nodes, sessions and watches in each run, and nothing made smaller."""
    watched = ["nothing", "data /a/x", "child /b/x, data /a, data /b, recursive /a/y"]
    rows = [
        broken(
            seed,
            what=f"client {seed}, session {seed:#x}: the event {event} of zxid 0x{seed} came, and it watched {what}",
        )
        for seed, (event, what) in enumerate(product(["children /a", "data /b/x", "deleted /a/y"], watched), 1)
    ]
    groups = clusters.groups(frame(spark, rows))
    (made,) = told(clusters.clusters(groups, spark.createDataFrame([], clusters.SLICES.ddl)))
    assert (made["failures"], made["seed"]) == (9, 1)


def test_shrunk_failure_still_fails_and_is_drawn(tmp_path: Path) -> None:
    name = "M12"
    found = hunt(BY_NAME[name])
    assert found.script is not None
    row = {"seed": 7, "invariant": found.invariant, "script": json.dumps(to_json(found.script))}
    made = clusters.smaller(row, "cores", name, 60, tmp_path / "diagrams")
    small = loads(made["small"])
    assert 0 < len(small.faults) + len(small.ops) < len(found.script.faults) + len(found.script.ops)
    assert made["slice"] != clusters.NOTHING
    with planted(BY_NAME[name].edits):
        assert world("cores").run(small).invariant == found.invariant
    assert "zab-harness replay" in (tmp_path / "diagrams/7.html").read_text()


# -- the whole -----------------------------------------------------------------------------------------


def plan(runs: int, mutant: str | None = None) -> Plan:
    return Plan(runs, faults=3, ops=20, length_ms=600, mutant=mutant)


def test_killed_task_restarts_and_finished_ones_stay(spark: Any, tmp_path: Path) -> None:
    made = Campaign.at(tmp_path, plan(12), size=3)
    finish(made.work, Chunk(0, 3))
    written = (made.layout.table("runs") / Chunk(0, 3).name).stat().st_mtime_ns
    died = tmp_path / "died"

    def unlucky(work: Work, chunk: Chunk) -> Done:
        if chunk.first == 6 and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return finish(work, chunk)

    assert made.run(in_spark(spark, unlucky)).runs == 12
    assert died.exists()
    assert (made.layout.table("runs") / Chunk(0, 3).name).stat().st_mtime_ns == written


def test_campaign_fails_with_the_reason_of_a_task_that_never_succeeds(spark: Any, tmp_path: Path) -> None:
    made = Campaign.at(tmp_path, plan(6), size=3)

    def full(work: Work, chunk: Chunk) -> Done:
        if chunk.first:
            raise OSError(28, "No space left on device")
        return finish(work, chunk)

    with pytest.raises(Stopped, match="No space left on device"):
        made.run(in_spark(spark, full))
    assert made.run(in_spark(spark)).runs == 6


def test_from_runs_to_tables(spark: Any, tmp_path: Path) -> None:
    made = Campaign.at(tmp_path, plan(24, "commit-without-quorum"), sample=1, size=8)
    done = made.run(in_spark(spark))
    assert done.invalid == 24
    torn = made.layout.table("runs") / Chunk(16, 24).name
    torn.write_bytes(torn.read_bytes()[:-9])
    found = analyze(spark, made.layout, sliced=1)
    assert found.invalid
    assert found.count("runs") == 16
    assert found.tables["clusters"][0]["failures"] >= 8
    assert not found.tables["clusters"][0]["slice"].startswith("not shrunk")
    (drawn,) = (made.layout.analysis / "diagrams").glob("*.html")
    reasons = {row["reason"] for row in found.tables["quarantine"]}
    assert "rows of a run that is not in the table of runs" in reasons
    assert sum(row["histories"] for row in found.tables["verdicts"]) == 16
    put_aside = spark.read.parquet(str(made.layout.analysis / "quarantine"))
    assert put_aside.where(f"source = '{torn}'").count() == 1
    struck = {row["kind"] for row in found.tables["strikes"]}
    assert struck
    assert main(["report", str(tmp_path)]) == 0
    page = (made.layout.analysis / "report.html").read_text()
    assert all(kind in page for kind in struck)
    assert f'href="diagrams/{drawn.name}"' in page
    assert main(["compare", str(tmp_path), str(tmp_path)]) == 0


def test_faults_of_brokers_and_their_recoveries_are_counted(spark: Any, tmp_path: Path) -> None:
    brokers = Plan(6, 9, voters=(1,), machine="partitions", faults=10, ops=40, length_ms=1_500)
    made = Campaign.at(tmp_path, brokers, size=3)
    assert made.run(in_spark(spark)).runs == 6
    loaded = load(spark, made.layout)
    assert told(loaded.quarantine) == []
    assert {row["outcome"] for row in told(loaded.runs)} == {"valid"}
    struck = {row["kind"] for row in told(sums.strikes(loaded.runs)) if row["phase"] == "all in sync"}
    assert {"KillBroker", "CutBroker", "WipeBroker"} <= struck
    recovered = {row["kind"]: row for row in told(sums.recoveries(loaded.runs))}
    assert recovered["KillBroker"]["write_times"] > 0
    (kinds,) = told(discovery.unseen(discovery.kinds(loaded.runs)))
    assert kinds["kinds"] < 6, "some runs are alike"


def test_misuse_of_the_commands_is_exit_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        (["analyze", str(tmp_path)], "this folder has no campaign"),
        (["fuzz", "--runs", "1", "--master", "local[1]"], "--output"),
    ):
        assert main(arguments) == 2
        assert said in capsys.readouterr().err
