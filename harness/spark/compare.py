"""The differences between two campaigns: new, vanished and remaining failures, and changed numbers."""

from __future__ import annotations

from typing import Any, Final

from attrs import asdict, field, frozen

from harness.spark.analysis import RECOVERED, Analysis, Row
from harness.spark.shapes import shape
from zab.core.plurals import counted

NOTABLE: Final = 0.1
"""The relative change from which a number counts as changed."""
FEWEST: Final = {"p50": 10, "p99": 100}
"""The least number of values for which each quantile is meaningful."""
OUTCOMES: Final = {"invalid": "invalid", "unknown": "unknown", "error": "errors"}


@frozen
class Number:
    value: float
    of: int
    """The number of runs, outages or faults behind the value."""
    fewest: int = 1
    """The number of these below which the value is chance."""


@frozen
class Moved:
    what: str
    before: float
    after: float
    of: tuple[int, int]
    """The numbers of runs, outages or faults behind both values."""
    chance: bool = False
    """True if one of the values is based on too few."""


@frozen
class Difference:
    settings: tuple[str, ...]
    """The settings in which the campaigns differ, with both values."""
    new: tuple[Row, ...]
    gone: tuple[Row, ...]
    ongoing: tuple[Row, ...]
    """The remaining clusters. `failures_before` is the number of failed runs of the first campaign."""
    situations_new: tuple[str, ...]
    situations_gone: tuple[str, ...]
    moved: tuple[Moved, ...]
    runs: dict[str, tuple[int, int]] = field(factory=dict)
    """The numbers of runs, and of each bad outcome, in both campaigns."""
    situations: dict[str, int] = field(factory=dict)
    """The number of runs with each situation that occurred in only one campaign."""
    unknown: tuple[int, int] = (0, 0)
    """The numbers of unknown runs and histories in both campaigns."""

    @property
    def worse(self) -> bool:
        """True if the second campaign has a new kind of failure, or if only the second has unknown results."""
        before, after = self.unknown
        return bool(self.new) or (after > 0 and not before)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def compare(before: Analysis, after: Analysis) -> Difference:
    old, new = (made.tables["clusters"] for made in (before, after))
    known = [(row, [each for each in old if _same(row, each)]) for row in new]
    seen, sees = ({row["name"]: row["runs"] for row in made.tables["probes"]} for made in (before, after))
    plans = [{**made.meta["plan"], "code": made.meta["code"], "runs": made.count("runs")} for made in (before, after)]
    return Difference(
        tuple(f"{name}: {was} -> {plans[1].get(name)}" for name, was in plans[0].items() if was != plans[1].get(name)),
        tuple(row for row, was in known if not was),
        tuple(each for each in old if not any(_same(row, each) for row in new)),
        tuple({**row, "failures_before": sum(each["failures"] for each in was)} for row, was in known if was),
        tuple(sorted(sees.keys() - seen.keys())),
        tuple(sorted(seen.keys() - sees.keys())),
        tuple(_moved(_numbers(before), _numbers(after))),
        {name: (before.count(name), after.count(name)) for name in ("runs", *OUTCOMES)},
        {name: (sees | seen)[name] for name in sorted(sees.keys() ^ seen.keys())},
        (before.unknown, after.unknown),
    )


def _same(one: Row, other: Row) -> bool:
    """Return True if two clusters violate one invariant, and have the same slice or the same message.

    The slice is found with one seed of a cluster. Another seed of the same bug may need other faults.
    """
    return bool(
        one["invariant"] == other["invariant"] and (one["slice"] == other["slice"] or _says(one) & _says(other))
    )


def _says(row: Row) -> set[str]:
    return {shape(each) for each in (row["what"], *row["says"])}


def _numbers(made: Analysis) -> dict[str, Number]:
    tables = made.tables
    runs = made.count("runs")
    found = {f"share of runs {name}": Number(made.count(name) / (runs or 1), runs) for name in OUTCOMES}
    by_voters: dict[int, int] = {}
    for row in tables["totals"]:
        group, many = f"{row['machine']} in {row['world']}, {counted(row['voters'], 'voter')}", row["runs"]
        by_voters[row["voters"]] = by_voters.get(row["voters"], 0) + many
        found[f"runs a core-minute, {group}"] = Number(row["runs_per_core_minute"], many)
        found[f"epochs a run, {group}"] = Number(row["elections"] / many, many)
        found[f"transactions a run, {group}"] = Number(row["committed"] / many, many)
    for row in tables["messages"]:
        group = counted(row["voters"], "voter")
        found[f"messages a transaction, {group}"] = Number(
            row["per_transaction"] or 0.0, by_voters.get(row["voters"], 0)
        )
    for row in tables["outages"]:
        found |= _quantiles(f"outage after {row['kind']}", row, "", row["outages"])
    for row in tables["recoveries"]:
        for what, words in RECOVERED.items():
            if row[f"{what}_times"]:
                found |= _quantiles(f"{words} after {row['kind']}", row, f"{what}_", row[f"{what}_times"])
    for row in tables["waiting"]:
        group, many = counted(row["voters"], "voter"), row["runs"]
        found[f"share of time without service, {group}"] = Number(row["share_unavailable"], many)
        found[f"final recovery, 99 % ms, {group}"] = Number(row["recovered_p99"], many, FEWEST["p99"])
    for row in tables["unseen"]:
        found["chance that the next run is of a new kind"] = Number(row["chance_of_new"] or 0.0, row["runs"])
    return found


def _quantiles(what: str, row: Row, prefix: str, of: int) -> dict[str, Number]:
    names = {"p50": "median ms", "p99": "99 % ms"}
    return {f"{what}, {words}": Number(row[f"{prefix}{name}"], of, FEWEST[name]) for name, words in names.items()}


def _moved(before: dict[str, Number], after: dict[str, Number]) -> list[Moved]:
    moved = []
    for name, was in before.items():
        now = after.get(name)
        if now is not None and abs(now.value - was.value) > NOTABLE * max(abs(was.value), abs(now.value)):
            chance = min(was.of, now.of) < was.fewest
            moved.append(Moved(name, was.value, now.value, (was.of, now.of), chance))
    return sorted(moved, key=lambda each: -abs(each.after - each.before) / max(abs(each.before), abs(each.after)))


def text(made: Difference) -> str:
    lines = [f"setting {words}" for words in made.settings]
    for title, rows in (("NEW", made.new), ("remaining", made.ongoing), ("gone", made.gone)):
        for row in rows:
            was = 0 if title == "NEW" else row.get("failures_before", row["failures"])
            now = 0 if title == "gone" else row["failures"]
            many = f"in {was} -> {counted(now, 'run')}"
            lines.append(f"{title}: {row['invariant']} ({many}, e.g. seed {row['seed']}; needs {row['slice']})")
    if any(made.unknown):
        lines.append("UNKNOWN: {} -> {}".format(*made.unknown))
    for which, names in (("second", made.situations_new), ("first", made.situations_gone)):
        if names:
            each = ", ".join(f"{name} (in {counted(made.situations[name], 'run')})" for name in names)
            lines.append(f"situations only in the {which}: {each}")
    lines += [
        f"{each.what}: {each.before:.4g} -> {each.after:.4g} (of {each.of[0]} -> {each.of[1]})"
        for each in made.moved
        if not each.chance
    ]
    left_out = sum(each.chance for each in made.moved)
    if left_out:
        lines.append(f"{counted(left_out, 'quantile')} of too few values left out; --json has them")
    outcomes = ", ".join("{} {} -> {}".format(OUTCOMES[name], *made.runs[name]) for name in OUTCOMES)
    return "\n".join(["runs {} -> {}: {}".format(*made.runs["runs"], outcomes), *(lines or ["nothing changed"])])
