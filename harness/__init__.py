"""The test harness: it injects faults into the rest of this tree, and checks its invariants.

The harness may import every package of this tree, and no package of this tree may import the harness.
`harness.campaign` tests a state machine of the caller, and `harness.replay` runs one script against it. The command
`zab-harness` does all else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.embed.model import Model
    from harness.embed.report import Report
    from harness.embed.runs import campaign, replay

__all__ = ["Model", "Report", "campaign", "replay"]


def __getattr__(name: str) -> object:
    """Load the runtime on first use: code that only reads scripts does not need it."""
    if name in __all__:
        from harness.embed import runs

        return getattr(runs, name)
    raise AttributeError(f"module 'harness' has no attribute {name!r}")
