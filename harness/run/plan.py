"""The scripts of a campaign: their seeds, sizes and machine, and the world in which they run."""

from __future__ import annotations

import shlex
from inspect import iscoroutinefunction

from attrs import frozen

from harness.faults import MACHINES, Script
from harness.profiles import drawn
from harness.script.checks import ScriptError
from harness.script.names import is_users
from harness.worlds import WORLDS, World, world


@frozen
class Plan:
    """Seeds from `base` on, each with the next of `voters` as its number of voters."""

    runs: int
    base: int = 0
    voters: tuple[int, ...] = (3, 5)
    observers: int | None = None
    faults: int = 20
    ops: int = 100
    length_ms: int = 3_000
    world: str = "cores"
    machine: str = MACHINES[0]
    mutant: str | None = None
    together: int = 1
    profile: str = ""
    """A profile of `harness.profiles`, which has sizes of its own; `all`; or "" for usual scripts."""

    def replay_line(self, seed: int, voters: int) -> str:
        """Return the command that repeats one run."""
        usual = Plan(1)
        words = [f"zab-harness replay --seed {seed} --servers {voters}"]
        for name in ("world", "observers", "faults", "ops", "length_ms", "machine", "mutant", "together", "profile"):
            if getattr(self, name) != getattr(usual, name):
                words.append(f"--{name.replace('_', '-')} {shlex.quote(str(getattr(self, name)))}")
        return " ".join(words)

    def script(self, number: int) -> Script:
        seed = self.base + number
        return drawn(
            self.profile,
            seed,
            voters=self.voters[seed % len(self.voters)],
            observers=self.observers,
            faults=self.faults,
            ops=self.ops,
            length_ms=self.length_ms,
            machine=self.machine,
            together=self.together,
        )


def world_for(machine: str, name: str | None = None) -> World:
    """Return the world of this name, or the usual one, for a script of the machine; import a user's `module:Class`."""
    if not is_users(machine):
        return world(name or WORLDS[0])
    if name not in (None, "stack"):
        raise ScriptError(f"the world {name} cannot run {machine}: your own machine runs in the world stack")
    from harness.embed import lookup  # it loads the runtime, which other machines do not need

    if not iscoroutinefunction(lookup.callable_named(machine)):
        return lookup.world_of(machine)
    from harness.program import lookup as programs

    return programs.world_named(machine)
