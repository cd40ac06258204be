"""Settings that make no sense are refused where they are made."""

from __future__ import annotations

from typing import Any

import pytest

from zab.core.errors import ConfigError
from zab.core.ready import Settings
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.service.limits import Limits


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (Settings, {"tick_ms": 1}),
        (Settings, {"tick_ms": True}),
        (Settings, {"init_limit": "10"}),
        (Settings, {"notification_ms_min": 61_000}),
        (Settings, {"notification_backoff_reset": 1}),
        (Settings, {"counter_max": 1 << 32}),
        (Limits, {"frame_bytes_max": 99}),
        (Limits, {"links_max": 0}),
        (Limits, {"redial_ms_min": 1001}),
        (Limits, {"snapshots_kept": 1.5}),
        (ClientPortSettings, {"tick_ms": 0}),
        (ClientPortSettings, {"tick_ms": "x"}),
        (ClientPortSettings, {"frame_bytes_max": -1}),
        (ClientPortSettings, {"connections_max": 0}),
        (ClientPortSettings, {"read_only_after_ms": -1}),
        (ClientPortSettings, {"timeout_ticks_min": 50}),
        (ClientPortSettings, {"session_ms_min": 0}),
        (ClientPortSettings, {"session_ms_max": "1"}),
        (ClientPortSettings, {"reconfig_enabled": 1}),
    ],
)
def test_wrong_value_is_reported_with_the_allowed_ones(kind: Any, wrong: dict[str, object]) -> None:
    ((name, value),) = wrong.items()
    with pytest.raises(ConfigError, match=f"{kind.__name__}.{name} = {value!r}: (must be .*|at most .* is allowed)$"):
        kind(**wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"words": "ruok"}, "words = 'ruok': a value of type frozenset is required"),
        ({"words": frozenset({"ruok", "nope"})}, r"words: unknown words \['nope'\]; the known words are \["),
        ({"super_digest": 7}, "super_digest: a value of type str is required"),
        ({"tls": "key.pem"}, "tls = 'key.pem': a value of type TlsPortSettings is required"),
        ({"throttle": None}, "throttle = None: a value of type ThrottleSettings is required"),
        ({"session_ms_min": 2, "session_ms_max": 1}, "session_ms_min = 2: at most session_ms_max = 1 is allowed"),
        ({"unsent_bytes_max": 2, "unsent_bytes_cut": 1}, "unsent_bytes_max = 2: at most unsent_bytes_cut = 1 is"),
    ],
)
def test_wrong_setting_of_the_client_ports_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"ClientPortSettings\.{message}"):
        ClientPortSettings(**wrong)


def test_zero_is_allowed_where_it_has_a_meaning() -> None:
    assert Settings(finalize_wait_ms=0).finalize_wait_ms == 0
    assert Limits(linger_ms=0).linger_ms == 0
