"""The worlds in which a script can run.

A world skips the items of a script that it cannot carry out and names their kinds. It runs the rest and judges the run.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, Protocol

from attrs import evolve, frozen

from harness import faults
from harness.outcome import Outcome
from harness.script.checks import ScriptError

CLIENT_OPS: Final = (faults.Connect, faults.Ask, faults.Leave, faults.Vanish)
UNSUPPORTED: Final = {
    "list": (faults.Invoke, *CLIENT_OPS, *faults.BROKER_OPS, *faults.PARTITION_OPS),
    "store": (faults.Invoke, faults.Write, *faults.BROKER_OPS, *faults.PARTITION_OPS),
    "controller": (faults.Invoke, faults.Write, *CLIENT_OPS, *faults.PARTITION_OPS),
    "partitions": (faults.Invoke, faults.Write, *CLIENT_OPS),
}
"""The items that each system under test does not support, by the `machine` of the script."""
UNSUPPORTED_BY_USER_MACHINES: Final = (*CLIENT_OPS, *faults.BROKER_OPS, *faults.PARTITION_OPS)
"""The items that a state machine of the user does not support."""


class Run(Protocol):
    def __call__(self, script: faults.Script, *, trace: bool = False) -> Outcome: ...


@frozen
class World:
    """The interface of a world that the commands use."""

    name: str
    about: str
    can: Callable[[faults.Fault | faults.Op], bool]
    run: Run
    machines: tuple[str, ...] = faults.MACHINES
    """The systems under test that the world supports."""
    regroups: bool = True
    """True if the world can change the membership in a script with quorum groups."""
    recorded: bool = True
    """True if every act of a server is recorded, so that a diagram of the run is complete."""

    def machines_of(self, kind: type) -> tuple[str, ...]:
        """Return the systems under test whose scripts may contain items of this type in this world."""
        return tuple(name for name in self.machines if not issubclass(kind, UNSUPPORTED[name]))

    def playable(self, script: faults.Script) -> Playable:
        if script.machine not in self.machines:
            supported = ", ".join(self.machines)
            raise ScriptError(f"script.machine: the world {self.name} supports {supported}, not {script.machine}")
        if script.knobs.zookeeper_servers and self.name != "processes":
            raise ScriptError(f"script.knobs.zookeeper_servers: real servers need --world processes, not {self.name}")
        unsupported: tuple[type, ...] = UNSUPPORTED.get(script.machine, UNSUPPORTED_BY_USER_MACHINES)
        if script.groups and not self.regroups:
            unsupported = (*unsupported, faults.Reconfigure)

        def can(item: faults.Fault | faults.Op) -> bool:
            return not isinstance(item, unsupported) and self.can(item)

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
    """The script without the items that the world cannot carry out."""
    skipped: tuple[str, ...]
    """The names of the kinds of the removed items, sorted."""


WORLDS: Final = ("cores", "stack", "processes")


def world(name: str) -> World:
    """Import and return a world. The import is lazy: the world of cores needs no real runtime, and a script no Trio."""
    found: Any = import_module(f"harness.worlds.{name}.world").WORLD
    assert isinstance(found, World)
    return found
