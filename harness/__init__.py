"""What breaks the rest on purpose, and says whether it broke.

It may import every package of this tree, and no package of this tree may import it. `harness.campaign` tests a
state machine of the caller's own, and `harness.replay` runs one script of it; all else is behind the command,
`zab-harness`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.embed.model import Model
    from harness.embed.report import Report
    from harness.embed.runs import campaign, replay

__all__ = ["Model", "Report", "campaign", "replay"]


def __getattr__(name: str) -> object:
    """Loaded when asked for: whoever reads a script needs no runtime."""
    if name in __all__:
        from harness.embed import runs

        return getattr(runs, name)
    raise AttributeError(f"module 'harness' has no attribute {name!r}")
