"""What the knobs of a script are called where a node is made."""

from __future__ import annotations

from harness.faults import Knobs
from zab.core.ready import Settings


def settings_of(knobs: Knobs) -> Settings:
    return Settings(
        tick_ms=knobs.tick_ms,
        init_limit=knobs.init_limit,
        sync_limit=knobs.sync_limit,
        finalize_wait_ms=knobs.finalize_wait_ms,
        notification_ms_min=knobs.notification_ms_min,
        notification_ms_max=knobs.notification_ms_max,
        observer_delay_ms_max=knobs.notification_ms_min,
        dial_retry_ms=knobs.dial_retry_ms,
        outstanding_max=knobs.outstanding_max,
        window_entries=knobs.window_entries,
        log_sync_entries_max=knobs.log_sync_entries_max,
        counter_max=knobs.counter_max,
        veto_retry_ms=knobs.init_limit * knobs.tick_ms,
    )
