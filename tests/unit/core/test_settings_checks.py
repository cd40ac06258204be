"""Settings that make no sense are refused where they are made."""

from __future__ import annotations

from typing import Any

import pytest

from zab.core.errors import ConfigError
from zab.core.ready import Settings
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
    ],
)
def test_wrong_value_is_reported_with_the_allowed_ones(kind: Any, wrong: dict[str, object]) -> None:
    ((name, value),) = wrong.items()
    with pytest.raises(ConfigError, match=f"{kind.__name__}.{name} = {value!r}: .* allowed"):
        kind(**wrong)


def test_zero_is_allowed_where_it_has_a_meaning() -> None:
    assert Settings(finalize_wait_ms=0).finalize_wait_ms == 0
    assert Limits(linger_ms=0).linger_ms == 0
