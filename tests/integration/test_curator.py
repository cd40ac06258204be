"""Curator's framework and recipes, unmodified, at one server that is restarted and at three whose leader is stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from harness import apache_zookeeper
from tests.integration import apache
from tests.integration.stores import PORTS, stores
from tests.integration.test_java_clients import needs_compiler, toured

pytestmark = [
    apache.needs_apache,
    pytest.mark.slow,
    needs_compiler,
    pytest.mark.skipif(
        apache_zookeeper.why_not() is None
        and not list((apache_zookeeper.jars() or Path()).glob("curator-recipes-*.jar")),
        reason="no jars of Curator",
    ),
]

TRIED = 91
"""Things that the tour tries; fewer would mean that it ended early."""


@pytest.mark.parametrize("count", [1, 3])
async def test_the_tour_of_curator(count: int, tmp_path: Path) -> None:
    async with stores(tmp_path, count, client_ports=evolve(PORTS, containers_ms=200)) as running:
        said = await toured("Tour", running)
    assert len(said) == TRIED
