"""From what was measured to what is told: ratios, goals, and rows for people. Nothing here measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from bench.report import median
from bench.zookeeper.phases import ROWS, Phase
from bench.zookeeper.rounds import Answer, Measured

OURS: Final = "ours"
SIDES: Final = {
    "apache": "Apache ZooKeeper, by the same client",
    "etcd": "etcd: another protocol, another client",
    "pysyncobj": "PySyncObj, inside the processes of both",
    "kazoo": "clients in Python, at one server of ours",
}
"""Whom we are compared with, in the order in which it is told."""


@frozen
class Compared:
    """Medians of both sides, and the median of the ratios of their runs, ours to theirs."""

    phase: Phase
    side: str
    ours: float
    theirs: float
    ratio: float

    @property
    def better(self) -> float:
        """How many times ours is better: whatever is measured, more than 1 is good for us."""
        return 1 / self.ratio if self.phase.measure.less_is_better else self.ratio

    @property
    def goal(self) -> float | None:
        """For `better`."""
        goal = self.phase.goal
        return 1 / goal if goal is not None and self.phase.measure.less_is_better else goal

    @property
    def met(self) -> bool | None:
        return None if self.goal is None else self.better >= self.goal


def compare(measured: Measured) -> list[Compared]:
    """Return the phases that both sides of a comparison ran, in the order of `ROWS`."""
    found = []
    for side in SIDES:
        for name, phase in ROWS.items():
            if (name, OURS) not in measured or (name, side) not in measured:
                continue
            key = phase.measure.key
            ours = [float(answer[key]) for answer in measured[name, OURS]]
            theirs = [float(answer[key]) for answer in measured[name, side]]
            ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
            found.append(Compared(phase, side, median(ours), median(theirs), median(ratios)))
    return found


def from_document(document: Mapping[str, Any]) -> Measured:
    """Read the figures that `publish` wrote."""
    return {(each["phase"], each["side"]): each["runs"] for each in document["measured"]}


# -- rows ----------------------------------------------------------------------------------------------

_MORE: Final[tuple[tuple[str, str], ...]] = (
    ("p50 ms", "p50_ms"),
    ("p99 ms", "p99_ms"),
    ("CPU s", "cpu_s"),
    ("CPU ms/1000", "cpu_ms_per_1000"),
    ("MiB", "rss_mib"),
)


def rows(compared: Sequence[Compared], measured: Measured) -> list[dict[str, object]]:
    """All figures, for a wide screen."""
    return [
        {
            "phase": each.phase.name,
            "side": each.side,
            "ours": each.ours,
            "theirs": each.theirs,
            "unit": each.phase.measure.unit,
            "ratio": each.ratio,
            "of": each.phase.measure.of,
            "goal": _goal(each),
            **{
                f"{who} {title}": _middle(measured[each.phase.name, side], key)
                for title, key in _MORE
                for who, side in (("ours", OURS), ("theirs", each.side))
            },
        }
        for each in compared
    ]


def _middle(answers: Sequence[Answer], key: str) -> float | str:
    return median([answer[key] for answer in answers]) if all(key in answer for answer in answers) else ""


def _goal(each: Compared) -> str:
    if each.goal is None:
        return ""
    bound = "at most" if each.phase.measure.less_is_better else "at least"
    return f"{bound} {each.phase.goal:g}: {'met' if each.met else 'missed'}"


def missed(compared: Sequence[Compared]) -> list[str]:
    return [
        f"{each.phase.title} ({each.ratio:.2f}, goal {each.phase.goal:g})" for each in compared if each.met is False
    ]


# -- a page --------------------------------------------------------------------------------------------


def page(document: Mapping[str, Any]) -> str:
    """Tables in Markdown, for the documentation."""
    measured = from_document(document)
    compared = compare(measured)
    lines = [header(document), ""]
    for side, title in SIDES.items():
        chosen = [each for each in compared if each.side == side]
        if not chosen:
            continue
        lines += [f"| {title} | Ours | Theirs | Ratio | Goal | CPU ms/1,000: ours, theirs | MiB: ours, theirs |"]
        lines += ["|---|---:|---:|---:|---|---:|---:|"]
        for each in chosen:
            answers = [measured[each.phase.name, who] for who in (OURS, side)]
            cells = [f"{each.phase.title}", _figure(each.ours, each), _figure(each.theirs, each)]
            cells += [f"{each.ratio:.2f}", _goal(each), _both(answers, "cpu_ms_per_1000"), _both(answers, "rss_mib")]
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    lines += [*_notes(measured), ""]
    return "\n".join(lines)


def header(document: Mapping[str, Any]) -> str:
    machine = document["machine"]
    versions = {"Python": machine["python"], **document["peers"]}
    return (
        f"{document['at'][:10]}, {machine['cores']} cores, load {machine['load_before']:.1f} at the end, "
        f"{', '.join(f'{name} {version}' for name, version in versions.items())}; "
        f"{document['runs']} rounds of {document['operations']:,} operations, medians"
    )


def _figure(value: float, each: Compared) -> str:
    unit = each.phase.measure.unit
    return f"{value:,.0f}{unit}" if unit == "/s" else f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def _both(sides: Sequence[Sequence[Answer]], key: str) -> str:
    found = [_middle(answers, key) for answers in sides]
    return ", ".join(f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in found if isinstance(value, float))


def _notes(measured: Measured) -> list[str]:
    """The fields without a column."""
    said = []
    for role in ("leader", "follower"):
        gaps = {side: measured.get((f"{role}-killed", side), []) for side in (OURS, "apache")}
        if all(gaps.values()):
            told = "; ".join(
                f"{side} {max(each['gap_ms'] for each in answers):,.0f} ms at most, "
                f"{_middle(answers, 'own_gap_ms'):,.0f} ms for the writer of the killed (median)"
                for side, answers in gaps.items()
            )
            said.append(f"- The {role} killed, rounds: {len(gaps[OURS])}. The longest gap: {told}.")
    for name in ("memory", "memory-million"):
        for side in (OURS, "apache"):
            for each in measured.get((name, side), []):
                live = f", {each['live_bytes_per_node']:,.0f} of them live" if "live_bytes_per_node" in each else ""
                said.append(
                    f"- {each['nodes']:,} nodes of 100 bytes, {side}: {each['server_mib']:,.0f} MiB a server, "
                    f"{each['empty_mib']:,.0f} before; {each['bytes_per_node']:,.0f} bytes a node{live}."
                )
    for side in (OURS, "apache"):
        for each in measured.get(("catch-up", side), []):
            said.append(
                f"- {each['behind']:,} behind, {side}: {each['seconds']:.2f} s with its start, {each['cpu_s']:.2f} s "
                f"of CPU; {each['writes_meanwhile']:,} writes meanwhile, longest gap {each['longest_gap_ms']:,.0f} ms."
            )
    return said
