"""The HTML file of a run: the picture as data, the code that draws it, the verdict, the summary and the script."""

from __future__ import annotations

import html
import json
from collections import Counter
from importlib.resources import files
from typing import Final

from harness.outcome import Outcome
from harness.report.diagram.picture import Picture
from harness.report.diagram.read import read
from harness.report.diagram.slice import causes
from harness.scripts import describe
from zab.core.plurals import counted

_HERE: Final = files(__package__)


def page(outcome: Outcome, rerun: str, *, title: str = "", summary: tuple[str, ...] = ()) -> str:
    """Return the page. `rerun` is the command that repeats the run; `summary` has sentences about it, or is empty."""
    assert outcome.trace is not None, "only a traced run can be drawn"
    picture = read(outcome.trace, outcome.script.servers)
    found = frozenset(range(len(picture.events))) if outcome.valid else causes(picture, outcome.what)
    broken = "Unknown" if outcome.unknown else f"Violated: {outcome.invariant}"
    heading = title or ("Every invariant holds" if outcome.valid else broken)
    verdict = outcome.what if not outcome.valid else _numbers(outcome)
    parts = {
        "TITLE": html.escape(heading),
        "SIGN": "valid" if outcome.valid else "invalid",
        "VERDICT": html.escape(verdict),
        "SUMMARY": "".join(f"<li>{html.escape(line.strip())}</li>" for line in summary),
        "FACTS": html.escape(_facts(outcome, picture, len(found))),
        "SCRIPT": html.escape(describe(outcome.script)),
        "RERUN": html.escape(rerun),
        "STYLE": _HERE.joinpath("page.css").read_text(),
        "CODE": _HERE.joinpath("page.js").read_text(),
        "DATA": _data(outcome, picture, found),
    }
    whole = _HERE.joinpath(
        "page.html"
    ).read_text()  # the data are inserted last, so that none of their text is replaced
    for name in ("STYLE", "TITLE", "SIGN", "VERDICT", "SUMMARY", "FACTS", "SCRIPT", "RERUN", "CODE", "DATA"):
        whole = whole.replace(f"<!--{name}-->", parts[name])
    return whole


def _numbers(outcome: Outcome) -> str:
    made, epochs = counted(outcome.committed, "transaction"), counted(outcome.elections, "epoch")
    if outcome.script.nodes:
        return f"{counted(outcome.acknowledged, 'act')} of the nodes; {made} committed in {epochs}."
    return f"{made} committed in {epochs}; all servers equal in the end."


def _facts(outcome: Outcome, picture: Picture, led: int) -> str:
    acts = len(picture.events)
    facts = [counted(outcome.script.voters, "voter"), f"{outcome.at_ms} ms of virtual time", counted(acts, "event")]
    if outcome.script.nodes:
        facts.insert(0, counted(outcome.script.nodes, "node"))
    if outcome.script.observers:
        facts.insert(1, counted(outcome.script.observers, "observer"))
    if not outcome.valid and acts:
        facts.append(f"{led} of them ({100 * led // acts} %) may have led to the verdict")
    if picture.omitted:
        facts.append(f"the first {picture.omitted} events are left out")
    return ", ".join(facts)


def _data(outcome: Outcome, picture: Picture, found: frozenset[int]) -> str:
    """Return the picture as JSON. It may have thousands of events: objects are lists, and each text is there once."""
    texts: dict[str, int] = {}

    def text(words: str) -> int:
        return texts.setdefault(words, len(texts))

    events = [
        [e.at, e.lane, text(e.family), text(e.label), text(e.text), int(number in found)]
        for number, e in enumerate(picture.events)
    ]
    made = {
        "end": picture.end,
        "valid": outcome.valid,
        "what": outcome.what,
        "lanes": [[lane.name, int(lane.server)] for lane in picture.lanes],
        "events": events,
        "messages": [
            [m.source, m.target, m.sent, m.received, int(m.lost), text(m.family), text(m.label)]
            for m in picture.messages
        ],
        "bands": [[b.lane, b.begin, b.end, b.state, b.label] for b in picture.bands],
        "shades": [[s.begin, s.end, list(s.lanes), s.label] for s in picture.shades],
        "writes": [[w.lane, w.begin, w.end, text(w.label)] for w in picture.disk_writes],
        "families": dict(Counter(e.family for e in picture.events)),
        "texts": list(texts),
    }
    return json.dumps(made, separators=(",", ":")).replace("<", "\\u003c")
