"""A mix of machines, worlds and profiles. Processor time goes to the combinations that yielded most.

Each combination of a machine, a world and a profile is a `Kind` of run. It has a base share of the processor time, so
that slow and faithful kinds are not starved. The rest of the time follows what the kinds have yielded for their cost:
coverage probes and pairs of overlapping faults that were new, and failures.

No choice depends on a clock: costs are counted in events. Choices are made in rounds of `ROUND` runs. The shares of a
round follow from all rounds except the previous one, which may still be running. So a campaign consists of the same
runs for any number of processes, on any machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import define, evolve, field, frozen

from harness.faults import MACHINES
from harness.probes import PREFIX
from harness.profiles import BY_NAME as PROFILES
from harness.profiles import of_machine
from harness.run.plan import Plan, world_for
from harness.run.tally import Tally
from harness.script.names import is_users

ROUND: Final = 64
"""The runs of a round, and the most that may be in progress."""
BASE: Final = 0.4
"""The part of the processor time that base shares divide."""
FADING: Final = 0.9
"""The weight of yields and costs after each further round."""
FAILURE: Final = 5.0
"""The yield of a new kind of failure. That of a new coverage probe, or of a new pair of faults, is 1."""
REPEATED: Final = 0.5
"""The yield of a failure of a known kind."""
PRIOR_RUNS: Final = 2
"""The weight, in runs, of the assumption that a kind yields as much as the average."""
MIXED_WORLDS: Final = ("cores", "stack")

_COSTS: Final = {"cores": (3_000, 85), "stack": (3_500, 330)}
"""Events of a usual run, and microseconds of processor time per event: fixed averages."""


@define
class Kind:
    """One kind of run: its share of the processor time, its cost, and its findings."""

    plan: Plan
    base: float
    """Its base share of the processor time."""
    virtual_time: float = 0.0
    """The expected cost of its runs, each divided by the share at that time. The kind with the least is next."""
    chosen: int = 0
    total: Tally = field(factory=Tally)
    probes: int = 0
    pairs: int = 0
    learned: int = 0
    """The finished runs on which choices depend; `cost` is the cost of these."""
    cost: float = 0.0
    recent_yield: float = 0.0
    recent_cost: float = 0.0

    @property
    def name(self) -> str:
        return self.plan.profile or "usual"

    @property
    def expected_cost(self) -> float:
        events, each = _COSTS.get(self.plan.world, _COSTS["stack"])
        return self.cost / self.learned if self.learned else float(events * each)

    def as_json(self) -> dict[str, object]:
        return {
            "machine": self.plan.machine,
            "world": self.plan.world,
            "profile": self.plan.profile,
            "runs": self.total.runs,
            "core_seconds": self.total.core_seconds,
            "probes": self.probes,
            "pairs": self.pairs,
            "failures": len(self.total.failures),
        }


@frozen
class Choice:
    """A run: the place of its kind in the mix, its number among the runs of that kind, and its plan."""

    place: int
    number: int
    plan: Plan


@define
class Mix:
    kinds: Sequence[Kind]
    _finished: deque[tuple[int, Tally]] = field(factory=deque)
    """The finished runs that do not influence choices yet, in the order of their choice."""
    _learned: int = 0
    _seen: set[tuple[object, ...]] = field(factory=set)

    def choices(self, runs: int) -> Iterator[Choice]:
        """Yield the runs to do. Each round needs the results of the rounds before the previous one."""
        shares: list[float] = []
        for number in range(runs):
            if number % ROUND == 0:
                self._learn(number - ROUND)
                shares = self._shares()
            place = min(range(len(self.kinds)), key=lambda each: (self.kinds[each].virtual_time, each))
            kind = self.kinds[place]
            kind.virtual_time += kind.expected_cost / shares[place]
            kind.chosen += 1
            yield Choice(place, kind.chosen - 1, kind.plan)

    def add(self, choice: Choice, result: Tally) -> None:
        """Add the result of a run. Results come in the order of the choices."""
        self.kinds[choice.place].total += result
        self._finished.append((choice.place, result))

    def finish(self) -> None:
        """Count the yields of the last rounds, too."""
        self._learn(self._learned + len(self._finished))

    def _learn(self, until: int) -> None:
        """Count the yields of runs up to this number."""
        for kind in self.kinds:
            kind.recent_yield *= FADING
            kind.recent_cost *= FADING
        while self._learned < until:
            place, result = self._finished.popleft()
            self._learned += 1
            kind = self.kinds[place]
            cost = float(result.events * _COSTS.get(kind.plan.world, _COSTS["stack"])[1])
            kind.learned += 1
            kind.cost += cost
            kind.recent_cost += cost
            kind.recent_yield += self._yield(kind, result)

    def _yield(self, kind: Kind, result: Tally) -> float:
        machine = kind.plan.machine
        probes = self._new((machine, name) for name in result.counts if name.startswith(PREFIX))
        pairs = self._new((machine, *pair) for pair in sorted(result.overlaps))
        failures = self._new((machine, "failure", each.invariant) for each in result.failures)
        kind.probes += probes
        kind.pairs += pairs
        repeated = len(result.failures) - failures
        return probes + pairs + FAILURE * failures + REPEATED * repeated

    def _new(self, found: Iterator[tuple[object, ...]]) -> int:
        before = len(self._seen)
        self._seen.update(found)
        return len(self._seen) - before

    def _shares(self) -> list[float]:
        """Return each kind's share: its base share, and a part that grows with its yield for its cost."""
        cost = sum(kind.recent_cost for kind in self.kinds)
        average = sum(kind.recent_yield for kind in self.kinds) / cost if cost else 0.0
        wanted = []
        for kind in self.kinds:
            prior = PRIOR_RUNS * kind.expected_cost
            rate = (kind.recent_yield + average * prior) / (kind.recent_cost + prior)
            wanted.append(kind.base * (rate / average if average else 1.0))
        whole = sum(wanted)
        return [BASE * kind.base + (1 - BASE) * each / whole for kind, each in zip(self.kinds, wanted, strict=True)]


# -- the choice of kinds ---------------------------------------------------------------------------------


def mix_of(plan: Plan, machines: Sequence[str], worlds: Sequence[str], profile: str | None, favoured: str = "") -> Mix:
    """Return the mix of these machines and worlds. Each pair has an equal base share.

    `profile`: None mixes usual scripts, which have half of the share of their pair, with all profiles of the machine. A
    `favoured` profile, which may be of another machine, has as much as the usual scripts.
    """
    pairs = [(machine, world) for machine in machines for world in worlds]
    kinds = []
    for machine, world in pairs:
        there = evolve(plan, machine=machine, world=world)
        names = [each.name for each in of_machine(machine)] if profile is None else []
        weights = {name: 1 / len(names) for name in names}
        weights = {"" if profile is None else profile: 1.0, **weights}
        if favoured:
            weights[favoured] = 1.0
        base = 1 / len(pairs) / sum(weights.values())
        for place, (name, weight) in enumerate(weights.items()):
            kind = Kind(evolve(there, profile=name), base * weight)
            if weight < 1:  # kinds with small shares begin one after the other
                kind.virtual_time = kind.expected_cost / kind.base * place / len(weights)
            kinds.append(kind)
    return Mix(kinds)


def machines_and_worlds(
    machine: str | None, world: str | None, profile: str | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what a campaign mixes if some of the three are given. A given world limits the machines that are mixed."""
    if machine is None and profile is not None and profile in PROFILES:
        machine = PROFILES[profile].machine
    if world is not None:
        return world_for(MACHINES[0], world).machines if machine is None else (machine,), (world,)
    machines = MACHINES if machine is None else (machine,)
    return machines, ("stack",) if machine is not None and is_users(machine) else MIXED_WORLDS


# -- the report ------------------------------------------------------------------------------------------

BEST: Final = 3


def table(mix: Mix) -> list[str]:
    """Return the lines of a table: the processor time, the yield and the best scripts of each machine and world."""
    rows = [("machine", "world", "runs", "core s", "share", "probes", "pairs", "failed", "most from")]
    core_seconds = sum(kind.total.core_seconds for kind in mix.kinds) or 1e-9
    for machine, world in dict.fromkeys((kind.plan.machine, kind.plan.world) for kind in mix.kinds):
        kinds = [kind for kind in mix.kinds if (kind.plan.machine, kind.plan.world) == (machine, world)]
        took = sum(kind.total.core_seconds for kind in kinds)
        best = sorted(kinds, key=lambda kind: -_found(kind))[:BEST]
        rows.append(
            (
                machine,
                world,
                str(sum(kind.total.runs for kind in kinds)),
                f"{took:.1f}",
                f"{100 * took / core_seconds:.0f} %",
                str(sum(kind.probes for kind in kinds)),
                str(sum(kind.pairs for kind in kinds)),
                str(sum(len(kind.total.failures) for kind in kinds)),
                ", ".join(f"{kind.name} ({_found(kind)} in {kind.total.runs})" for kind in best if _found(kind)),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            word.ljust(width) if column in (0, 1, 8) else word.rjust(width)
            for column, (word, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _found(kind: Kind) -> int:
    return kind.probes + kind.pairs + len(kind.total.failures)
