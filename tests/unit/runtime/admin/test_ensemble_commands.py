from __future__ import annotations

from pathlib import Path

import zab
from zab.runtime.admin.ensemble_commands import configuration
from zab.runtime.store_server.four_letter_listings import conf


async def test_configuration_shows_session_timeouts_in_force(tmp_path: Path) -> None:
    client_ports = zab.ClientPortSettings(session_ms_min=700, session_ms_max=90_000)
    async with zab.open_store(tmp_path / "data", client_ports=client_ports) as store:
        shown = configuration(store._server)
        assert (shown["min_session_timeout"], shown["max_session_timeout"]) == (700, 90_000)
        words = conf(store._server)
        assert "minSessionTimeout=700\n" in words
        assert "maxSessionTimeout=90000\n" in words
