"""A description of an exception: its type, the function and line that raised it, and its message."""

from __future__ import annotations

import traceback
from pathlib import Path


def described(error: BaseException) -> str:
    """Describe an exception, or the first one of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {frames[-1].name} ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{where}: {error}"
