"""The test harness: it injects faults into the rest of this tree, and checks its invariants.

The harness may import every package of this tree, and no package of this tree may import the harness.
`harness.campaign` tests a state machine of the caller, and `harness.replay` runs one script against it.
`harness.application` runs a whole program of the caller, in several instances, on simulated servers. The command
`zab-harness` does all else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.embed.model import Model
    from harness.embed.report import Report
    from harness.embed.runs import campaign, replay
    from harness.program.fleet import Fleet
    from harness.program.node import Node
    from harness.program.runs import application

__all__ = ["Fleet", "Model", "Node", "Report", "application", "campaign", "replay"]
_OF_PROGRAMS = ("Fleet", "Node", "application")


def __getattr__(name: str) -> object:
    """Load the runtime on first use: code that only reads scripts does not need it."""
    if name in __all__:
        if name in _OF_PROGRAMS:
            from harness.program import runs as programs

            return getattr(programs, name)
        from harness.embed import runs

        return getattr(runs, name)
    raise AttributeError(f"module 'harness' has no attribute {name!r}")
