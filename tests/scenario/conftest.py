"""`pytest tests/scenario --rewrite` writes what happens into the stories. Read the diff before you believe it."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="update the expected part of every scenario")
