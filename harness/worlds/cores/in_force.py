"""Change constants of the product for the time of one run: those that the script draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module

from attrs import evolve

from harness.script.constants import CONSTANTS, Drawn


@contextmanager
def in_force(drawn: Sequence[Drawn]) -> Iterator[None]:
    """Change the constants inside the block.

    The modules that a run uses must be imported before: a module that is imported inside the block, and imports a
    constant by name, would keep its changed value.
    """
    with ExitStack() as stack:
        for each in drawn:
            constant = CONSTANTS[each.name]
            where, _, path = constant.where.partition(":")
            name, _, setting = path.partition(".")
            value = evolve(getattr(import_module(where), name), **{setting: each.value}) if setting else each.value
            for module in map(import_module, (where, *constant.also)):
                stack.callback(setattr, module, name, getattr(module, name))
                setattr(module, name, value)
        yield
