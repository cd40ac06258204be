"""Histories of brokers' clients: handwritten examples, random legal histories, and corruptions."""

from __future__ import annotations

from tests.histories.records import gone, passing, shared

__all__ = ["gone", "passing", "shared"]
