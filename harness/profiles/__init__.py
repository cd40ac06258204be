"""All profiles; see `harness.profiles.profile`."""

from __future__ import annotations

from typing import Any, Final

from harness.draw import script_from_seed
from harness.faults import Script
from harness.profiles import consensus, controller, partitions, store, zookeeper
from harness.profiles.profile import Profile

__all__ = ["ALL", "BY_NAME", "PROFILES", "Profile", "drawn", "of_machine", "profile_of"]

PROFILES: Final = (*consensus.PROFILES, *store.PROFILES, *controller.PROFILES, *partitions.PROFILES)
BY_NAME: Final = {profile.name: profile for profile in (*PROFILES, *consensus.SET_APART, *zookeeper.SET_APART)}

ALL: Final = "all"
"""The name for all profiles of a machine. In turn they generate half of the scripts; the others are usual ones."""


def of_machine(machine: str) -> list[Profile]:
    return [profile for profile in PROFILES if profile.machine == machine]


def profile_of(name: str, seed: int, machine: str) -> Profile | None:
    """Return the profile that generates the script of this seed, or None for a usual script.

    Two consecutive seeds have the same profile, so that ensembles of both sizes run each profile.
    """
    if name != ALL:
        return BY_NAME[name]
    there = of_machine(machine)
    return there[seed // 4 % len(there)] if there and seed // 2 % 2 else None


def drawn(name: str, seed: int, *, voters: int, machine: str, **sizes: Any) -> Script:
    """Return the script of a seed: a usual one of these sizes, or the one of the named profile."""
    profile = profile_of(name, seed, machine) if name else None
    if profile is None:
        return script_from_seed(seed, voters=voters, machine=machine, **sizes)
    return profile.script(seed, voters=voters, machine=machine)
