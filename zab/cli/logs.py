"""What goes to stderr, for people or for machines."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import click

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")


class AsJson(logging.Formatter):
    """One object a line: time, level, event, and what the event tells, in its own types where JSON has them."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", None) or record.getMessage(),
        }
        for key, value in getattr(record, "fields", {}).items():
            said.setdefault(key, value if isinstance(value, int | float | bool | None) else str(value))
        if record.exc_info:
            said["traceback"] = self.formatException(record.exc_info)
        return json.dumps(said)


class AsText(logging.Formatter):
    """A line that begins with the local date and time, to the millisecond and with its zone."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # logging's name
        return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")


def log_to_stderr(level: str, form: str = "text") -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(AsJson() if form == "json" else AsText("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])


def level_option(default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--log-level", type=click.Choice(LEVELS), default=default, show_default=True, help="What goes to stderr."
    )


def format_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--log-format",
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
        help="For people, `event key=value`; or for machines, a JSON object a line.",
    )(function)
