from __future__ import annotations

from zab.core.zxid import Epoch
from zab.service.serving_times import ServingTimes


def test_serving_begins_anew_after_a_pause_and_in_a_new_epoch() -> None:
    times = ServingTimes(100)
    seen = [times.serving_ms(150)]
    for epoch, now, serving in ((1, 200, True), (1, 300, True), (1, 400, False), (1, 500, True), (2, 600, True)):
        times.role_changed(Epoch(epoch), now, serving=serving, leading=False)
        seen.append(times.serving_ms(1_000))
    assert seen == [0, 800, 800, 0, 500, 400]
    assert (times.started_ms, times.leading_since_ms) == (100, 100)


def test_leading_begins_anew_in_a_new_epoch_only() -> None:
    times = ServingTimes(100)
    seen = []
    for epoch, now, leading in ((1, 200, True), (1, 300, False), (1, 400, True), (3, 500, True)):
        times.role_changed(Epoch(epoch), now, serving=leading, leading=leading)
        seen.append(times.leading_since_ms)
    assert seen == [200, 200, 200, 500]
