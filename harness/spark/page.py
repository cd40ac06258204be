"""The report of a campaign: one self-contained page for people. The tables beside it are for programs.

The page begins with the verdict. Failures are open, and everything else is folded, so a healthy campaign fits on one
screen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from harness.spark import plots
from harness.spark.analysis import POINTS, Analysis, Row
from harness.spark.chance import corrected
from zab.core.plurals import noun

Columns = dict[str, str]
"""The title of each column, by its name in a row."""
LINES_MAX: Final = 60
FAILURES_OPEN: Final = 8
"""The number of failures that are shown without a click."""
_OPEN: Final = frozenset({"Failures", "Unknown", "Rejected rows"})
_ABOUT: Final = {
    "Faults": "how often each kind struck, and in which phase",
    "Unavailability": "how long no quorum served",
    "Recovery": "how long a recovery took, by the kind of the fault",
    "Coverage": "how many kinds of runs and situations occurred",
    "Cost": "runs, messages and synchronizations",
}
"""The folded sections, each with its content."""
LIKELIER: Final = (
    "The association of faults with failures. Lines are 95 % intervals of single pairs. Red lines are significant at "
    "5 %, by Holm's correction for all pairs of a fault and an invariant: at most one report of twenty has a red line "
    "by chance"
)


def page(made: Analysis, folder: Path) -> str:
    """Return the page. `folder` is the folder of the page; the page links only to files that exist there."""
    kind, verdict = _verdict(made)
    sections = {
        "Failures": _failures(made, folder),
        "Unknown": _unsure(made),
        "Rejected rows": _rejected(made),
        "Faults": _faults(made),
        "Unavailability": _availability(made),
        "Recovery": _recoveries(made),
        "Coverage": _discovery(made),
        "Cost": _work(made),
    }
    shown = {title: inside for title, inside in sections.items() if inside}
    parts = [
        f'<h1 class="{kind}">{escape(verdict)}.</h1>',
        _about(made),
        _tiles(made),
        _contents(shown),
        *(_section(title, inside) for title, inside in shown.items()),
    ]
    text = Template(files("harness.spark").joinpath("page.html").read_text())
    return text.substitute(title=escape(verdict), body="\n".join(part for part in parts if part))


# -- pieces --------------------------------------------------------------------------------------------


def number(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool | str) or not isinstance(value, int | float):
        return escape(str(value))
    if isinstance(value, int) or abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def table(rows: Sequence[Row], columns: Columns, caption: str) -> str:
    if not rows:
        return ""
    numeric = {name for name in columns if all(isinstance(row[name], int | float | None) for row in rows)}
    head = "".join(f'<th{_right(name in numeric)} scope="col">{escape(words)}</th>' for name, words in columns.items())
    lines = [
        "<tr>" + "".join(f"<td{_right(name in numeric)}>{number(row[name])}</td>" for name in columns) + "</tr>"
        for row in rows[:LINES_MAX]
    ]
    more = "" if len(rows) <= LINES_MAX else f'<p class="faint">{len(rows) - LINES_MAX} more are in the tables.</p>'
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table>{more}"
    )


def _right(numeric: bool) -> str:
    return ' class="n"' if numeric else ""


def _together(*parts: str) -> str:
    return "\n".join(part for part in parts if part)


def _section(title: str, inside: str) -> str:
    """Return an open section for problems, and a folded one for everything else."""
    at = f'id="{_anchor(title)}"'
    if title in _OPEN:
        return f"<section {at}><h2>{escape(title)}</h2>\n{inside}</section>"
    return f"<details {at}><summary><h2>{escape(title)}</h2> {_ABOUT[title]}</summary>\n{inside}</details>"


def _contents(sections: Mapping[str, str]) -> str:
    links = "".join(f'<li><a href="#{_anchor(title)}">{escape(title)}</a></li>' for title in sections)
    return f"<nav><ol>{links}</ol></nav>" if sections else ""


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>" if svg else ""


# -- the contents --------------------------------------------------------------------------------------


def _runs(number: int) -> str:
    return f"{number:,} {noun(number, 'run')}"


def _verdict(made: Analysis) -> tuple[str, str]:
    """Return the class of the verdict for the style sheet, and the sentence without its full stop."""
    runs, invalid, errors = (made.count(name) for name in ("runs", "invalid", "error"))
    others = sum(not row["same"] for row in made.tables["again"])
    again = sum(row["histories"] for row in made.tables["verdicts"] if row["verdict"] == "invalid")
    if not runs:
        return "odd", "No runs"
    if made.valid:
        return "good", f"Valid: every invariant held in all {_runs(runs)}"
    unsure = f"{made.unknown:,} are unknown" if made.unknown else ""
    if not made.invalid:
        return "odd", f"Unknown: no invariant was violated in {_runs(runs)}, but {unsure}"
    words = [
        f"{invalid:,} of {_runs(runs)} violated an invariant" if invalid else "",
        f"the harness itself failed in {errors:,}" if errors else "",
        f"{others:,} had another result when run a second time" if others else "",
        f"{again:,} stored histories are invalid when checked again" if again else "",
        unsure,
    ]
    return "bad", f"Invalid: {'; '.join(word for word in words if word)}"


def _tiles(made: Analysis) -> str:
    seconds = sum(row["core_seconds"] for row in made.tables["totals"])
    unseen = made.tables["unseen"][0] if made.tables["unseen"] else {}
    chance = unseen.get("chance_of_new")
    twice = made.tables["again"]
    tiles = {
        "runs": number(made.count("runs")),
        "invalid": number(made.count("invalid")),
        "unknown": number(made.unknown),
        "errors of the harness": number(made.count("error")),
        "runs a core-minute": number(60 * made.count("runs") / seconds if seconds else None),
        "chance of a new kind of run": "-" if chance is None else f"{100 * chance:.1f} %",
        "run twice with equal results": f"{sum(row['same'] for row in twice):,} of {len(twice):,}",
        "rejected rows": number(sum(row["count"] for row in made.tables["quarantine"])),
    }
    inside = "".join(f"<div><dt>{escape(name)}</dt><dd>{value}</dd></div>" for name, value in tiles.items())
    return f'<dl class="tiles">{inside}</dl>'


def _failures(made: Analysis, folder: Path) -> str:
    lines = []
    for row in made.tables["clusters"][:LINES_MAX]:
        links = " ".join(_seed(seed, folder) for seed in row["seeds"])
        rerun = made.plan.replay_line(row["seed"], row["voters"])
        lines.append(
            f'<tr><td class="n">{row["failures"]:,}</td><td><strong>{escape(row["invariant"])}</strong><br>'
            f"{escape(row['what'][:400])}<br><code>{escape(rerun)}</code></td>"
            f"<td>{escape(row['slice'])}</td><td>{links}</td></tr>"
        )
    if not lines:
        return ""
    head = '<th class="n">runs</th><th>invariant, failure, and replay command</th><th>needed items</th><th>seeds</th>'
    bodies = [
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(some)}</tbody></table>"
        for some in (lines[:FAILURES_OPEN], lines[FAILURES_OPEN:])
        if some
    ]
    rest = len(lines) - FAILURES_OPEN
    if rest > 0:
        bodies[1] = f"<details><summary>{rest} more kinds of failures</summary>{bodies[1]}</details>"
    words = "Failures of one invariant that need the same kinds of faults and operations are one line."
    likely = plots.odds(corrected(made.tables["odds"]))
    return _together(f'<p class="faint">{words}</p>', *bodies, figure(likely, LIKELIER))


def _seed(seed: int, folder: Path) -> str:
    """Return the seed, with a link to its space-time diagram if that exists."""
    path = f"diagrams/{seed}.html"
    return f'<a href="{path}">{seed}</a>' if (folder / path).exists() else str(seed)


def _unsure(made: Analysis) -> str:
    columns = {"seed": "seed", "what": "why", "steps": "steps spent", "core_seconds": "core seconds"}
    return _together(
        table(
            made.tables["given_up"],
            {"seed": "seed", "voters": "voters", "what": "why"},
            "Runs that exceeded their budget",
        ),
        table(made.tables["unknown"], columns, "Stored histories whose check exceeded its budget"),
        '<p class="faint">None of these counts as valid.</p>' if made.unknown else "",
    )


def _faults(made: Analysis) -> str:
    columns = {
        "kind": "fault",
        "runs": "runs with it",
        "elections": "elections in such a run",
        "elections_per_fault": "elections a fault",
    }
    return _together(
        figure(
            plots.strikes(made.tables["strikes"]),
            "The number of faults of each kind, by the phase of the ensemble or of the target",
        ),
        table(made.tables["elections"], columns, "Elections"),
    )


def _availability(made: Analysis) -> str:
    columns = {
        "voters": "voters",
        "runs": "valid runs",
        "share_unavailable": "share of time without service",
        "p50": "ms a run, median",
        "p99": "99 %",
        "recovered_p50": "ms of the final recovery, median",
        "recovered_p99": "99 %",
        "recovered_max": "longest",
    }
    return _together(
        figure(
            plots.outages(made.tables["outages"]),
            "Outages by the kind of the last fault before; their number is in brackets",
        ),
        table(made.tables["waiting"], columns, "Whole runs"),
    )


def _recoveries(made: Analysis) -> str:
    again = {"leader": "served again", "write": "write", "sessions": "sessions"}
    columns = {"kind": "fault", "faults": "times"}
    for what, words in again.items():
        columns |= {f"{what}_times": f"{words}: times", f"{what}_p50": "median", f"{what}_p99": "99 %"}
        columns[f"{what}_max"] = "longest"
    words = (
        "The time in ms from the end of a fault until a quorum served again, if none did; until the first write was "
        "acknowledged, for faults of brokers by all replicas in sync; and until all disconnected clients had their "
        "sessions and watches again."
    )
    lines = table(made.tables["recoveries"], columns, "By the kind of the fault")
    return _together(f'<p class="faint">{words}</p>' if lines else "", lines)


def _discovery(made: Analysis) -> str:
    if not made.tables["unseen"] or not made.count("runs"):
        return ""
    found = made.tables["unseen"][0]
    words = (
        f"{number(found['kinds'])} kinds of runs were seen, {number(found['once'])} of them once. The chance "
        f"that the next run is of a new kind is {number(found['chance_of_new'])} (Good and Turing); there are at least "
        f"{number(found['kinds_at_least'])} kinds (Chao). The first nine tenths predict a chance of "
        f"{number(found['foretold'])} for the last tenth; it was {number(found['came'])}."
    )
    columns = {"name": "situation", "times": "times", "runs": "runs", "first_seed": "first seed"}
    situations = table(made.tables["probes"], columns, "Situations that occurred")
    return _together(
        f"<p>{words}</p>",
        figure(
            plots.discovery(made.tables["curve"], made.count("runs"), POINTS),
            "Runs of one kind have the same situations, and similar numbers of elections and outages",
        ),
        f"<details><summary>Situations</summary>{situations}</details>" if situations else "",
    )


def _work(made: Analysis) -> str:
    totals = {
        "world": "world",
        "machine": "machine",
        "voters": "voters",
        "runs": "runs",
        "committed": "transactions",
        "elections": "epochs",
        "simulated_ms": "simulated ms",
        "runs_per_core_minute": "runs a core-minute",
        "simulated_per_core_second": "simulated s a core-second",
    }
    words = {
        "voters": "voters",
        "messages": "messages",
        "per_operation": "for each operation, in valid runs",
        "per_transaction": "for each transaction",
    }
    return _together(
        table(made.tables["totals"], totals, "Runs"),
        table(made.tables["messages"], words, "Messages between servers"),
        table(
            made.tables["synchronizations"],
            {"voters": "voters", "form": "form", "times": "times"},
            "Forms of synchronization that leaders chose",
        ),
        table(
            made.tables["verdicts"],
            {"verdict": "verdict", "invariant": "invariant", "histories": "histories", "core_seconds": "core seconds"},
            "Stored histories, checked again",
        ),
    )


def _rejected(made: Analysis) -> str:
    columns = {"source": "where", "reason": "why", "count": "rows"}
    return table(made.tables["quarantine"], columns, "Rows that are not counted elsewhere on this page")


def _about(made: Analysis) -> str:
    meta = made.meta
    code = f"code {meta.get('code')}, settings {meta.get('config')}, Python {meta.get('python')}"
    words = f"Campaign {meta.get('campaign', 'without a name')}: {code}"
    return f'<p class="faint">{escape(words)}. The tables are beside this page, as Parquet and in analysis.json.</p>'
