"""The world of a script: one of the harness's own, or the stack with a machine or a program of the user."""

from __future__ import annotations

from inspect import iscoroutinefunction

from harness.script.checks import ScriptError
from harness.script.names import is_users
from harness.worlds import WORLDS, World, world


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
