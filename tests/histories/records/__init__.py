"""Histories of clients of brokers: told by hand, made by a broker that keeps its promises, and made by lies."""

from __future__ import annotations

from tests.histories.records import gone, passing, shared

__all__ = ["gone", "passing", "shared"]
