"""Read a story file, run it, and compare its outcome with the expected text.

A file is a sequence of acts, separated by blank lines: `#` comments and commands, a line `----`, and the outcome.
"""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from tests.scenario.story import Story

RULE = "----"
BROKEN = "!!!!"


@frozen
class Act:
    """One act: `script` is its text and commands, `expected` their outcome."""

    script: tuple[str, ...]
    expected: tuple[str, ...] | None


def read(text: str) -> list[Act]:
    acts = []
    for block in text.strip("\n").split("\n\n"):
        lines = block.strip("\n").split("\n")
        if RULE in lines:
            at = lines.index(RULE)
            acts.append(Act(tuple(lines[:at]), tuple(lines[at + 1 :])))
        else:
            acts.append(Act(tuple(lines), None))
    return acts


def play(acts: list[Act], author: bool = False) -> list[Act]:
    """Return the same acts with their actual outcome. A failing command is reported in its place."""
    story = Story()
    played = []
    for act in acts:
        told: list[str] = []
        commands = [line for line in act.script if line.strip() and not line.startswith("#")]
        for line in commands:
            try:
                said = story.tell(line)
            except Exception as error:
                error.add_note(f"in the command: {line}")
                if not author:
                    raise
                said = f"{BROKEN} {line}: {type(error).__name__}: {error}"
            told += said.split("\n") if said else []
        played.append(Act(act.script, tuple(told) if commands else None))
    return played


def write(acts: list[Act]) -> str:
    blocks = []
    for act in acts:
        lines = [*act.script]
        if act.expected is not None:
            lines += [RULE, *act.expected]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def stories() -> list[Path]:
    return sorted((Path(__file__).parent / "stories").rglob("*.scenario"))
