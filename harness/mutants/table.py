"""The planted bugs, read from the files of `bugs`. An entry of such a file:

    name: the bug, as one sentence
      machine=store; world=stack; voters=3,5; profile=two reigns
    @@ module:function
    -a piece of its source
    +the piece that replaces it

The settings and the lines with `+` are optional, and there may be several edits. Names that begin with `M` are rows of
the catalogue of bugs that ZooKeeper had; the others are mistakes that any implementation can make.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Final

from harness.mutants.edit import Edit, Mutant

_BUGS: Final = files("harness.mutants").joinpath("bugs")
_FILES: Final = (
    "epochs", "synchronization", "broadcast", "membership", "storage", "drivers", "requests", "replies", "connections",
    "limits", "controller", "brokers", "replication", "isr", "blind",
)  # fmt: skip
_VOTERS: Final = {
    ("cores", "controller"): "3",
    ("stack", "controller"): "3",
    ("cores", "partitions"): "1",
    ("stack", "partitions"): "3",
}
"""The default sizes of ensembles, by world and machine; of others 3 and 5."""


def _lines(name: str) -> list[str]:
    return [line for line in _BUGS.joinpath(name).read_text().splitlines() if line and not line.startswith("#")]


def parse(lines: list[str]) -> Iterator[Mutant]:
    starts = [place for place, line in enumerate(lines) if line[0] not in " @-+"]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        name, _, bug = lines[start].partition(": ")
        settings: dict[str, str] = {}
        edits: list[tuple[str, tuple[list[str], list[str]]]] = []
        for line in lines[start + 1 : end]:
            if line.startswith("  "):
                settings |= {key: value for key, _, value in (each.partition("=") for each in line.strip().split("; "))}
            elif line.startswith("@@ "):
                edits.append((line[3:], ([], [])))
            else:
                edits[-1][1][line[0] == "+"].append(line[1:])
        world, machine = settings.get("world", "cores"), settings.get("machine", "list")
        voters = settings.get("voters", _VOTERS.get((world, machine), "3,5"))
        yield Mutant(
            name,
            bug,
            tuple(Edit(where, "\n".join(old), "\n".join(new)) for where, (old, new) in edits),
            tuple(int(each) for each in voters.split(",")),
            world,
            machine,
            settings.get("profile", ""),
        )


MUTANTS: Final = tuple(mutant for name in _FILES for mutant in parse(_lines(f"{name}.diff")))
IMPOSSIBLE: Final = {name: why for name, _, why in (line.partition(": ") for line in _lines("impossible.txt"))}
"""The bugs that cannot be planted in this design, or have no observable effect, with the reasons."""
BY_NAME: Final = {mutant.name: mutant for mutant in MUTANTS}
assert len(BY_NAME) == len(MUTANTS), "two mutants have one name"
PROFILES: Final = {mutant.name: mutant.profile for mutant in MUTANTS if mutant.profile}
"""The profile of `harness.profiles` that leads to the bug's situation, if usual scripts seldom reach it."""
