"""The log of a command on stderr, as text or as JSON, and its options."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import click

from zab.host.logs import TextFormatter, shown

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")


class JsonFormatter(logging.Formatter):
    """Format a record as a JSON object: time, level, event, its fields, and the traceback of an exception.

    The fields have JSON's types where these fit.
    """

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


def log_to_stderr(level: str, form: str = "text") -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler])


def log_event(event: str, level: int = logging.INFO, /, **fields: str) -> None:
    """Log an event of the whole process."""
    line = " ".join(f"{key}={shown(value)}" for key, value in fields.items())
    logging.getLogger("zab").log(level, "%s %s", event, line, extra={"event": event, "fields": fields})


def level_option(default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--log-level",
        type=click.Choice(LEVELS),
        default=default,
        show_default=True,
        help="The lowest level that is logged to stderr.",
    )


def format_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--log-format",
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
        help="text: lines like `event key=value`; json: one JSON object per line, for programs.",
    )(function)
