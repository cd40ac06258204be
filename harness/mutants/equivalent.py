"""Mistakes that are none: what they change, nobody can see. Each with the reason."""

from __future__ import annotations

from typing import Final

EQUIVALENT: Final[dict[str, str]] = {}
