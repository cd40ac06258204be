from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.admin.summary import RECENT_MAX, Summary
from zab.core.errors import WireError
from zab.runtime.admin.report import (
    REPORT_BYTES_MAX,
    TEXT_CHARS_MAX,
    TEXTS_MAX,
    Report,
    decode_report,
    decode_reports,
    encode_report,
    encode_reports,
)

FULL = Report(3, "3.9.5", "follower", True, True, 7, 8, 9, 10, 2, warnings=("the disk is slow",))


def test_reports_survive_the_wire() -> None:
    assert decode_report(encode_report(FULL)) == FULL
    assert decode_reports(encode_reports([(0, FULL), (1500, Report())])) == [(0, FULL), (1500, Report())]


def test_unknown_fields_are_dropped_and_missing_ones_get_defaults() -> None:
    assert decode_report(msgpack.packb({"server": 2, "mood": "good"})) == Report(server=2)


def test_texts_have_bounds_on_both_sides() -> None:
    long = Report(warnings=("x" * 1000,) * 20)
    assert decode_report(encode_report(long)).warnings == ("x" * TEXT_CHARS_MAX,) * TEXTS_MAX
    assert len(decode_report(msgpack.packb({"warnings": ["x" * 1000]})).warnings[0]) == TEXT_CHARS_MAX
    assert len(encode_report(long)) < REPORT_BYTES_MAX


@pytest.mark.parametrize("value", [{"server": "one"}, {"serving": 1}, {"warnings": [1]}, [1], 5])
def test_settings_of_another_kind_are_refused(value: object) -> None:
    with pytest.raises(WireError):
        decode_report(msgpack.packb(value))
    with pytest.raises(WireError):
        decode_reports(msgpack.packb([[0, msgpack.packb(value)]]))


@given(st.binary(max_size=200))
def test_noise_yields_only_wire_errors(noise: bytes) -> None:
    for decode in (decode_report, decode_reports):
        try:
            decode(noise)
        except WireError:
            pass


def test_a_summary_counts_all_and_spreads_the_last() -> None:
    summary = Summary()
    assert (summary.mean, summary.quantiles((0.5,))) == (0.0, [0.0])
    for value in range(1, RECENT_MAX + 101):
        summary.add(float(value))
    assert (summary.count, summary.least, summary.most) == (RECENT_MAX + 100, 1.0, RECENT_MAX + 100.0)
    assert summary.quantiles((0.0, 0.5, 1.0)) == [101.0, 101.0 + RECENT_MAX // 2, RECENT_MAX + 100.0]
