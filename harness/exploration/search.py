"""The search: breadth first over the states of a model, so that a counterexample is short."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence

from attrs import define, field, frozen

from harness.checkers import Violation
from harness.exploration.model import Label, Model, State
from harness.exploration.servers import IDS
from harness.trace import brief

REPORT_SECONDS = 1.0


@define
class Progress:
    """The numbers of a search so far."""

    states: int = 1
    transitions: int = 0
    depth: int = 0
    """The length of the longest shortest path to a state, in steps."""
    frontier: int = 1
    """The number of states that are not expanded yet."""
    terminal: int = 0
    """The number of states without any step."""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    node_steps: int = 0
    """The number of server steps that ran real code; others were known already."""
    judge_steps: int = 0


@frozen
class Found:
    """The result of a search."""

    progress: Progress
    exhausted: bool
    """True if every reachable state within the bounds was visited."""
    violation: Violation | None = None
    steps: tuple[str, ...] = ()
    """The steps of the counterexample, for readers."""
    labels: tuple[Label, ...] = ()


@define
class Search:
    """One search of one model.

    Each visited state costs its fingerprint and the numbers of its parent and step. Only the frontier keeps states.
    A state with the fingerprint of another one is not expanded: docs/exploration.md describes the risk.
    """

    model: Model
    seconds: float | None = None
    states_max: int | None = None
    report: Callable[[Progress], None] = lambda progress: None
    progress: Progress = field(factory=Progress)
    terminals: set[int] = field(factory=set)
    """The fingerprints of the states without any step."""
    _parents: array[int] = field(factory=lambda: array("L", [0]))
    _taken: array[int] = field(factory=lambda: array("L", [0]))
    """The number of the step that led from its parent to each state."""
    _labels: dict[Label, int] = field(factory=dict)

    def run(self) -> Found:
        model, progress = self.model, self.progress
        began = reported = time.monotonic()
        initial = model.initial()
        seen = {model.fingerprint(initial)}
        frontier: list[tuple[int, State]] = [(0, initial)]
        while frontier:
            progress.depth += 1
            following: list[tuple[int, State]] = []
            for place, (number, state) in enumerate(frontier):
                steps = 0
                for move in model.moves(state):
                    steps += 1
                    label = self._labels.setdefault(move.label, len(self._labels))
                    if move.violation is not None:
                        self._count(began, len(seen), steps, 0)
                        return self._counterexample(number, move.label, move.violation)
                    fingerprint = model.fingerprint(move.state)
                    if fingerprint not in seen:
                        following.append((len(seen), move.state))
                        seen.add(fingerprint)
                        self._parents.append(number)
                        self._taken.append(label)
                if not steps:
                    progress.terminal += 1
                    self.terminals.add(model.fingerprint(state))
                now = time.monotonic()
                waiting = len(frontier) - place - 1 + len(following)
                progress.transitions += steps
                if now - reported >= REPORT_SECONDS:
                    reported = now
                    self._count(began, len(seen), 0, waiting)
                    self.report(progress)
                is_late = self.seconds is not None and now - began >= self.seconds
                if is_late or (self.states_max is not None and len(seen) >= self.states_max):
                    self._count(began, len(seen), 0, waiting)
                    return Found(progress, exhausted=not waiting)
            frontier = following
        progress.depth -= 1
        self._count(began, len(seen), 0, 0)
        return Found(progress, exhausted=True)

    def _count(self, began: float, states: int, transitions: int, frontier: int) -> None:
        progress = self.progress
        progress.states, progress.frontier = states, frontier
        progress.transitions += transitions
        progress.seconds, progress.cpu_seconds = time.monotonic() - began, time.process_time()
        progress.node_steps, progress.judge_steps = self.model.servers.steps, self.model.judge.steps

    def _counterexample(self, number: int, last: Label, violation: Violation) -> Found:
        by_number = list(self._labels)
        labels = [last]
        while number:
            labels.append(by_number[self._taken[number]])
            number = self._parents[number]
        labels.reverse()
        steps = replay(self.model, labels)
        return Found(self.progress, False, violation, tuple(steps), tuple(labels))


def replay(model: Model, labels: Sequence[Label]) -> list[str]:
    """Take these steps from the initial state, and describe them."""
    state = model.initial()
    found = []
    for label in labels:
        move = next(move for move in model.moves(state) if move.label == label)
        found.append(f"{describe(model, label)}{_change(model, state, move.state, label)}")
        state = move.state
    return found


def describe(model: Model, label: Label) -> str:
    kind, place, other, message = label
    text = f"server {IDS[place]} {kind}" + (f" {IDS[other]}" if other >= 0 else "")
    if message < 0:
        return text
    content = model.servers.messages.values[message]
    return f"{text}: {content if isinstance(content, str) else brief(content)}"


def _change(model: Model, before: State, after: State, label: Label) -> str:
    """Describe the server after the step, if its role or its positions changed."""
    old, new = (model.servers.summary(state[label[1]]) for state in (before, after))
    return "" if old == new else f"  [{new}]"
