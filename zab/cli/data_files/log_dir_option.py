"""The option for a log in a directory of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def log_dir_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--log-dir",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="The dataLogDir, if the log has a directory of its own.",
    )(function)
