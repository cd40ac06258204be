"""Where a script can be run. A world names what it cannot do of a script; the rest it does, and judges."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, Protocol

from attrs import evolve, frozen

from harness import faults
from harness.outcome import Outcome
from harness.script.checks import ScriptError

OF_CLIENTS: Final = (faults.Connect, faults.Ask, faults.Leave, faults.Vanish)
ALIEN: Final = {
    "list": (faults.Invoke, *OF_CLIENTS, *faults.BROKER_OPS, *faults.PARTITION_OPS),
    "store": (faults.Invoke, faults.Write, *faults.BROKER_OPS, *faults.PARTITION_OPS),
    "controller": (faults.Invoke, faults.Write, *OF_CLIENTS, *faults.PARTITION_OPS),
    "partitions": (faults.Invoke, faults.Write, *OF_CLIENTS),
}
"""By the machine of a script: what can only be asked of another one."""
ALIEN_TO_USERS: Final = (*OF_CLIENTS, *faults.BROKER_OPS, *faults.PARTITION_OPS)
"""The same for a machine of the user's own."""


class Run(Protocol):
    def __call__(self, script: faults.Script, *, trace: bool = False) -> Outcome: ...


@frozen
class World:
    """A world as the commands see it."""

    name: str
    about: str
    can: Callable[[faults.Fault | faults.Op], bool]
    run: Run
    machines: tuple[str, ...] = faults.MACHINES
    """What can be replicated there."""
    regroups: bool = True
    """Whether members change where quorums are of groups."""
    recorded: bool = True
    """Whether every act of a server is written down, so that a picture of it is true."""

    def machines_of(self, kind: type) -> tuple[str, ...]:
        """In whose scripts it may stand here."""
        return tuple(name for name in self.machines if not issubclass(kind, ALIEN[name]))

    def playable(self, script: faults.Script) -> Playable:
        if script.machine not in self.machines:
            where = f"the world of {self.name}"
            raise ScriptError(f"script.machine: {where} has {', '.join(self.machines)}, and no {script.machine}")
        alien: tuple[type, ...] = ALIEN.get(script.machine, ALIEN_TO_USERS)
        if script.groups and not self.regroups:
            alien = (*alien, faults.Reconfigure)

        def can(item: faults.Fault | faults.Op) -> bool:
            return not isinstance(item, alien) and self.can(item)

        return Playable(
            evolve(
                script,
                faults=tuple(fault for fault in script.faults if can(fault)),
                ops=tuple(op for op in script.ops if can(op)),
            ),
            tuple(sorted({type(item).__name__ for item in script.items if not can(item)})),
        )


@frozen
class Playable:
    script: faults.Script
    """Without what this world cannot do."""
    skipped: tuple[str, ...]
    """The kinds that were taken out, by name."""


WORLDS: Final = ("cores", "stack", "processes")


def world(name: str) -> World:
    """Loaded when asked for: the real runtime is not needed to turn the cores, nor Trio to read a script."""
    found: Any = import_module(f"harness.worlds.{name}.world").WORLD
    assert isinstance(found, World)
    return found
