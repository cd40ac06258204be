"""Delta debugging on the steps of a script: take out halves, quarters, and so on, for as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from tests.differential.script import Ask, Script, Together
from zab.store.operations import Op

RUNS_MAX = 400


def shrunk(script: Script, fails: Callable[[Script], bool]) -> Script:
    runs = 0

    def still(candidate: Script) -> bool:
        nonlocal runs
        runs += 1
        return runs <= RUNS_MAX and fails(candidate)

    while True:
        before = script
        script = _fewer_steps(script, still)
        script = _smaller_steps(script, still)
        if script == before:
            return script


def _fewer_steps(script: Script, still: Callable[[Script], bool]) -> Script:
    size = max(1, len(script) // 2)
    while True:
        at = len(script) - size
        while at > -size:
            candidate = script[: max(at, 0)] + script[at + size :]
            if len(candidate) < len(script) and still(candidate):
                script = candidate
            at -= size
        if size == 1:
            return script
        size = max(1, size // 2)


def _smaller_steps(script: Script, still: Callable[[Script], bool]) -> Script:
    """Pipelines and multis, part by part."""
    for index, step in enumerate(script):
        match step:
            case Together(asks):
                for ask in reversed(asks):
                    fewer = tuple(each for each in asks if each is not ask)
                    left = (Together(fewer),) if len(fewer) > 1 else fewer
                    candidate = (*script[:index], *left, *script[index + 1 :])
                    if still(candidate):
                        return candidate
            case Ask(op=Op.MULTI | Op.MULTI_READ, fields=tuple() as parts):
                for part in reversed(range(len(parts))):
                    smaller = evolve(step, fields=parts[:part] + parts[part + 1 :])
                    candidate = (*script[:index], smaller, *script[index + 1 :])
                    if still(candidate):
                        return candidate
            case _:
                pass
    return script
