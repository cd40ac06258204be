"""Sum a campaign up: validate its rows, judge stored histories again, add up, and write a report.

DIR is what `fuzz --output` was given. The report is DIR/campaign=.../analysis/report.html; the tables are beside it,
as Parquet and in analysis.json. Exit status 1: a promise was broken, or could not be decided.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from harness.cli.common import HELD, VIOLATED, Misuse, natural
from harness.spark.analysis import Analysis, is_small
from harness.spark.layout import Layout, LayoutError, appearing, find
from zab.core.plurals import counted, noun


def add(parser: argparse.ArgumentParser) -> None:
    campaign_arguments(parser)
    master_arguments(parser)
    parser.add_argument(
        "--shrink",
        type=natural,
        default=8,
        metavar="N",
        help="make one failure of each of N groups smaller (default 8)",
    )
    parser.add_argument("--json", action="store_true", help="print all tables as JSON")


def campaign_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="where campaigns are, or one of them")
    parser.add_argument("--campaign", metavar="NAME", help="which one, by the beginning of its name")


def master_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--master",
        default="local[*]",
        help="Spark's master: local[*] (the default), spark://host:port, yarn, k8s://...",
    )
    parser.add_argument("--memory", default="2g", help="of the JVM of this process (default 2g)")


def act(arguments: argparse.Namespace) -> int:
    from harness.spark.analyze import analyze
    from harness.spark.campaign import reason
    from harness.spark.session import refusals, session

    layout = located(arguments.folder, arguments.campaign)
    settings = {"spark.driver.memory": arguments.memory}
    try:
        layout.meta()
        small = is_small(layout)
        with session(arguments.master, f"analyze {layout.name}", quick=small, settings=settings) as spark:
            made = analyze(spark, layout, sliced=arguments.shrink, told=_told)
    except LayoutError as error:
        raise Misuse(str(error)) from error
    except OSError as error:
        raise Misuse(f"{error}; what was stored of the campaign is as it was") from error
    except refusals() as error:
        raise Misuse(f"Spark: {reason(error)}; what was stored of the campaign is as it was") from error
    finally:
        _told("")
    path = write_page(layout, made)
    if arguments.json:
        print(json.dumps({"meta": made.meta, "tables": made.tables}))
    else:
        print(summary(made))
        print(f"report: {path}")
    return HELD if made.held else VIOLATED


def left(arguments: argparse.Namespace) -> str:
    """Report the partial result of a command that was stopped."""
    return f"what was stored of the campaign in {arguments.folder} is as it was; the same command analyses it"


def located(folder: Path, name: str | None) -> Layout:
    try:
        return find(folder.resolve(), name)
    except LayoutError as error:
        raise Misuse(str(error)) from error


def write_page(layout: Layout, made: Analysis) -> Path:
    from harness.spark.page import page

    path = layout.analysis / "report.html"
    with appearing(path) as draft:
        draft.write_text(page(made, layout.analysis))
    return path


def _told(words: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{words}")
        sys.stderr.flush()


def summary(made: Analysis) -> str:
    lines = []
    for row in made.tables["totals"]:
        lines.append(
            f"{row['runs']:,} {noun(row['runs'], 'run')} of the {row['machine']} in {row['world']} "
            f"with {counted(row['voters'], 'voter')}: "
            f"{row['violated']} violated, "
            f"{row['undecided']} undecided, {counted(row['error'], 'error')}; "
            f"{row['runs_per_core_minute']:,.0f} a core-minute"
        )
    for row in made.tables["verdicts"]:
        lines.append(f"judged again: {row['histories']:,} {row['verdict']} {row['promise'] or ''}".rstrip())
    for row in made.tables["given_up"]:
        lines.append(f"UNDECIDED {row['what']}\n  {made.plan.replay_line(row['seed'], row['voters'])}")
    twice = made.tables["again"]
    if twice:
        lines.append(f"run twice: {sum(row['same'] for row in twice)} of {len(twice)} the same")
    for row in made.tables["unseen"]:
        if row["chance_of_new"] is not None:
            lines.append(f"{row['kinds']:,} kinds of runs; the next is new with a chance of {row['chance_of_new']:.3f}")
    for row in made.tables["quarantine"]:
        lines.append(f"put aside: {row['count']:,} of {row['source']}: {row['reason']}")
    for row in made.tables["clusters"]:
        lines.append(
            f"VIOLATED {row['promise']} in {row['failures']:,} {noun(row['failures'], 'run')}; "
            f"needed for it: {row['slice']}"
        )
        lines.append(f"  {row['what']}\n  {made.plan.replay_line(row['seed'], row['voters'])}")
    return "\n".join(lines)
