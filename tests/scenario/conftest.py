"""Options of the scenario tests: `pytest tests/scenario --rewrite` writes the actual outcome into the stories.

Review the diff.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="update the expected part of every scenario")
