"""The text of Prometheus."""

from __future__ import annotations

from zab.admin.exposition import COUNTER, GAUGE, SUMMARY, MetricSample, exposition


def test_counters_keep_names_that_do_not_end_in_total() -> None:
    found = exposition([MetricSample("packets_sent", COUNTER, "replies", 3), MetricSample("a_total", COUNTER, "b", 4)])
    assert found.decode().splitlines() == [
        "# HELP packets_sent replies",
        "# TYPE packets_sent counter",
        "packets_sent 3.0",
        "# HELP a_total b",
        "# TYPE a_total counter",
        "a_total 4.0",
    ]


def test_samples_of_one_metric_stand_together() -> None:
    found = exposition([
        MetricSample("lag", GAUGE, "of each", 1, {"server": "1"}),
        MetricSample("other", GAUGE, "of all", 2.5),
        MetricSample("lag", GAUGE, "of each", 7, {"server": "2"}),
    ])  # fmt: skip
    assert found.decode().splitlines() == [
        "# HELP lag of each",
        "# TYPE lag gauge",
        'lag{server="1"} 1.0',
        'lag{server="2"} 7.0',
        "# HELP other of all",
        "# TYPE other gauge",
        "other 2.5",
    ]


def test_parts_of_a_summary() -> None:
    found = exposition([
        MetricSample("fsynctime", SUMMARY, "of the log", 0.25, {"quantile": "0.5"}),
        MetricSample("fsynctime", SUMMARY, "of the log", 12, suffix="_sum"),
        MetricSample("fsynctime", SUMMARY, "of the log", 40, suffix="_count"),
    ])  # fmt: skip
    assert found.decode().splitlines() == [
        "# HELP fsynctime of the log",
        "# TYPE fsynctime summary",
        'fsynctime{quantile="0.5"} 0.25',
        "fsynctime_sum 12.0",
        "fsynctime_count 40.0",
    ]
