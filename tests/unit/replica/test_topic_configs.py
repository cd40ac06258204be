"""The settings of topics over those of the broker."""

from __future__ import annotations

from itertools import permutations

import pytest

from replica.core.partitions.log_config import LogConfig
from replica.runtime.configuration.topic_configs import TopicConfigs
from replica.runtime.logs import Log

DEFAULTS = LogConfig.of({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "10"})
LEAST, MOST = ("min.compaction.lag.ms", "20"), ("max.compaction.lag.ms", "30")


@pytest.mark.parametrize("order", [*permutations([LEAST, MOST, ("retention.ms", "7")])])
def test_settings_that_fit_together_apply_in_any_order(order: list[tuple[str, str]]) -> None:
    configs = TopicConfigs(DEFAULTS, Log(1))
    configs.set("t", dict(order))
    assert configs["t"] == LogConfig.of(dict(order), DEFAULTS)


async def test_invalid_setting_is_ignored_and_the_others_apply() -> None:
    configs = TopicConfigs(DEFAULTS, Log(1))
    configs.set(
        "t", {"retention.ms": "7", "max.compaction.lag.ms": "1", "segment.bytes": "x", "of.a.newer.broker": "y"}
    )
    assert configs["t"] == LogConfig.of({"retention.ms": "7"}, DEFAULTS)
