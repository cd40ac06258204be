"""What changed from one campaign to another? Failures that are new, gone or still there; and numbers that moved."""

from __future__ import annotations

from typing import Any, Final

from attrs import asdict, frozen

from harness.spark.analysis import RECOVERED, Analysis, Row

NOTABLE: Final = 0.1
"""A number that moved by less than a tenth is the same number."""


@frozen
class Moved:
    what: str
    before: float
    after: float


@frozen
class Difference:
    settings: tuple[str, ...]
    """In which the two differ: then they need not agree."""
    new: tuple[Row, ...]
    gone: tuple[Row, ...]
    ongoing: tuple[Row, ...]
    situations_new: tuple[str, ...]
    situations_gone: tuple[str, ...]
    moved: tuple[Moved, ...]
    undecided: tuple[int, int] = (0, 0)
    """How many runs and stored histories could not be decided."""

    @property
    def worse(self) -> bool:
        """Another kind of failure, or the first things that could not be decided."""
        before, after = self.undecided
        return bool(self.new) or (after > 0 and not before)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def compare(before: Analysis, after: Analysis) -> Difference:
    old, new = ({(row["promise"], row["slice"]): row for row in made.tables["clusters"]} for made in (before, after))
    seen, sees = ({row["name"] for row in made.tables["probes"]} for made in (before, after))
    plans = [{**made.meta["plan"], "code": made.meta["code"], "runs": made.count("runs")} for made in (before, after)]
    return Difference(
        tuple(f"{name}: {was} -> {plans[1].get(name)}" for name, was in plans[0].items() if was != plans[1].get(name)),
        tuple(row for key, row in new.items() if key not in old),
        tuple(row for key, row in old.items() if key not in new),
        tuple(row for key, row in new.items() if key in old),
        tuple(sorted(sees - seen)),
        tuple(sorted(seen - sees)),
        tuple(_moved(_numbers(before), _numbers(after))),
        (before.undecided, after.undecided),
    )


def _numbers(made: Analysis) -> dict[str, float]:
    tables = made.tables
    runs = made.count("runs") or 1
    found = {f"share of runs {name}": made.count(name) / runs for name in ("violated", "undecided", "error")}
    for row in tables["totals"]:
        who = f"{row['machine']} in {row['world']}, {row['voters']} voters"
        found[f"runs a core-minute, {who}"] = row["runs_per_core_minute"]
        found[f"epochs a run, {who}"] = row["elections"] / row["runs"]
        found[f"transactions a run, {who}"] = row["committed"] / row["runs"]
    for row in tables["messages"]:
        found[f"messages a transaction, {row['voters']} voters"] = row["per_transaction"] or 0.0
    for row in tables["outages"]:
        found[f"outage after {row['kind']}, median ms"] = row["p50"]
        found[f"outage after {row['kind']}, 99 % ms"] = row["p99"]
    for row in tables["recoveries"]:
        for what, words in RECOVERED.items():
            if row[f"{what}_times"]:
                found[f"{words} after {row['kind']}, median ms"] = row[f"{what}_p50"]
                found[f"{words} after {row['kind']}, 99 % ms"] = row[f"{what}_p99"]
    for row in tables["waiting"]:
        found[f"share of time without service, {row['voters']} voters"] = row["share_unavailable"]
        found[f"well again at the end, 99 % ms, {row['voters']} voters"] = row["recovered_p99"]
    for row in tables["unseen"]:
        found["chance that the next run is of a new kind"] = row["chance_of_new"] or 0.0
    return found


def _moved(before: dict[str, float], after: dict[str, float]) -> list[Moved]:
    moved = [
        Moved(name, was, after[name])
        for name, was in before.items()
        if name in after and abs(after[name] - was) > NOTABLE * max(abs(was), abs(after[name]))
    ]
    return sorted(moved, key=lambda each: -abs(each.after - each.before) / max(abs(each.before), abs(each.after)))


def text(made: Difference) -> str:
    lines = [f"other {words}" for words in made.settings]
    for title, rows in (("NEW", made.new), ("still there", made.ongoing), ("gone", made.gone)):
        lines += [
            f"{title}: {row['promise']} ({row['failures']} runs, e.g. seed {row['seed']}; needs {row['slice']})"
            for row in rows
        ]
    if any(made.undecided):
        lines.append("UNDECIDED: {} -> {}".format(*made.undecided))
    if made.situations_new:
        lines.append(f"situations only in the second: {', '.join(made.situations_new)}")
    if made.situations_gone:
        lines.append(f"situations only in the first: {', '.join(made.situations_gone)}")
    lines += [f"{each.what}: {each.before:.4g} -> {each.after:.4g}" for each in made.moved]
    return "\n".join(lines or ["nothing changed"])
