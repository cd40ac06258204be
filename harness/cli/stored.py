"""The commands that read stored campaigns: `analyze`, `report`, `compare`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from harness.cli import options
from harness.cli.root import INVALID, VALID, command
from harness.spark import compare as comparison
from harness.spark.analysis import Analysis, is_small, stored
from harness.spark.layout import Layout, LayoutError, appearing, find
from zab.cli.kit.failures import Misused
from zab.cli.kit.verb_group import Arguments
from zab.core.plurals import counted, noun


@command(
    "analyze",
    *options.CAMPAIGN,
    options.option("--master", "The master of Spark: local[*], spark://host:port, yarn, k8s://...", None, "local[*]"),
    options.option("--memory", "The memory of the JVM of this process.", None, "2g"),
    options.option("--shrink", "Shrink one failure of each of the N greatest groups.", options.NATURAL, 8),
    options.json_output("Print all tables as JSON."),
    stored=lambda arguments: f"the stored campaign in {arguments.folder} is unchanged; the same command analyses it",
)
def analyze(arguments: Arguments) -> int:
    """Analyse a stored campaign: validate its rows, check stored histories again, aggregate, and write a report.

    DIR is the folder of `fuzz --output`. The report is DIR/campaign=.../analysis/report.html; the tables are beside it,
    as Parquet and in analysis.json. Exit status 1: an invariant is violated, or a run or history is unknown.
    """
    from harness.spark.analyze import analyze
    from harness.spark.campaign import reason
    from harness.spark.session import refusals, session

    layout = located(arguments.folder, arguments.campaign)
    settings = {"spark.driver.memory": arguments.memory}
    try:
        layout.meta()
        small = is_small(layout)
        with session(arguments.master, f"analyze {layout.name}", quick=small, settings=settings) as spark:
            made = analyze(spark, layout, sliced=arguments.shrink, on_stage=_show_stage)
    except LayoutError as error:
        raise Misused(str(error)) from error
    except OSError as error:
        raise Misused(f"{error}; the stored campaign is unchanged") from error
    except refusals() as error:
        raise Misused(f"Spark: {reason(error)}; the stored campaign is unchanged") from error
    finally:
        _show_stage("")
    path = write_page(layout, made)
    tables = {"meta": made.meta, "tables": made.tables}
    print(json.dumps(tables) if arguments.json else f"{summary(made)}\nreport: {path}")
    return VALID if made.valid else INVALID


@command("report", *options.CAMPAIGN, options.json_output("Print the path of the page, and the verdict, as JSON."))
def report(arguments: Arguments) -> int:
    """Write the report of a campaign again, from the results of `analyze`, with the pictures that exist now."""
    layout = located(arguments.folder, arguments.campaign)
    made = _analysis(layout)
    path = write_page(layout, made)
    outcomes = {name: made.count(name) for name in ("runs", "valid", "invalid", "error")}
    told = {"page": str(path), "valid": made.valid, "unknown": made.unknown, "runs": outcomes}
    print(json.dumps(told) if arguments.json else path)
    return VALID


@command(
    "compare",
    options.argument("before", type=options.FILE, metavar="BEFORE"),
    options.argument("after", type=options.FILE, metavar="AFTER"),
    options.json_output(),
)
def compare(arguments: Arguments) -> int:
    """List what changed between two analysed campaigns: new, vanished and remaining failures, and changed numbers.

    Exit status 1: the second campaign has a kind of failure that the first lacks, or only the second has unknown runs
    or histories.
    """
    before, after = (_analysis(located(path, None)) for path in (arguments.before, arguments.after))
    made = comparison.compare(before, after)
    print(json.dumps(made.as_json()) if arguments.json else comparison.text(made))
    return INVALID if made.worse else VALID


def _analysis(layout: Layout) -> Analysis:
    try:
        return stored(layout)
    except LayoutError as error:
        raise Misused(str(error)) from error


def located(folder: Path, name: str | None) -> Layout:
    try:
        return find(folder.resolve(), name)
    except LayoutError as error:
        raise Misused(str(error)) from error


def write_page(layout: Layout, made: Analysis) -> Path:
    from harness.spark.page import page

    path = layout.analysis / "report.html"
    with appearing(path) as draft:
        draft.write_text(page(made, layout.analysis))
    return path


def _show_stage(words: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{words}")
        sys.stderr.flush()


def summary(made: Analysis) -> str:
    lines = []
    for row in made.tables["totals"]:
        lines.append(
            f"{row['runs']:,} {noun(row['runs'], 'run')} of {row['machine']} in the world {row['world']} "
            f"with {counted(row['voters'], 'voter')}: "
            f"{row['invalid']} invalid, {row['unknown']} unknown, {counted(row['error'], 'error')}; "
            f"{row['runs_per_core_minute']:,.0f} a core-minute"
        )
    for row in made.tables["verdicts"]:
        lines.append(f"judged again: {row['histories']:,} {row['verdict']} {row['invariant'] or ''}".rstrip())
    for row in made.tables["given_up"]:
        lines.append(f"UNKNOWN {row['what']}\n  {made.plan.replay_line(row['seed'], row['voters'])}")
    twice = made.tables["again"]
    if twice:
        lines.append(f"run twice: {sum(row['same'] for row in twice)} of {len(twice)} with equal results")
    for row in made.tables["unseen"]:
        if row["chance_of_new"] is not None:
            lines.append(f"{row['kinds']:,} kinds of runs; the next is new with a chance of {row['chance_of_new']:.3f}")
    for row in made.tables["quarantine"]:
        lines.append(f"in quarantine: {row['count']:,} of {row['source']}: {row['reason']}")
    for row in made.tables["clusters"]:
        lines.append(
            f"VIOLATED {row['invariant']} in {row['failures']:,} {noun(row['failures'], 'run')}; "
            f"it needs: {row['slice']}"
        )
        lines.append(f"  {row['what']}\n  {made.plan.replay_line(row['seed'], row['voters'])}")
    return "\n".join(lines)
