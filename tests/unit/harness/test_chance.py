"""Of many pairs some are far from the middle by chance: what is left when that is counted, worked out by hand."""

from __future__ import annotations

import re

import pytest

from harness.spark.chance import corrected, holm, two_sided


def test_the_tails_of_the_normal() -> None:
    assert two_sided(0) == 1
    assert two_sided(1.959964) == two_sided(-1.959964) == pytest.approx(0.05, rel=1e-5)
    assert two_sided(2.575829) == pytest.approx(0.01, rel=1e-5)


def test_holm_by_hand() -> None:
    """0.01 counts four times, 0.02 three times, 0.03 twice, which is no more than the one before, and 0.5 once."""
    assert holm([0.03, 0.5, 0.01, 0.02]) == pytest.approx([0.06, 0.5, 0.04, 0.06])
    assert holm([0.4, 0.9]) == pytest.approx([0.8, 0.9])
    assert holm([0.6, 0.6]) == [1, 1], "no chance is more than certain"
    assert holm([]) == []


def pair(kind: str, ratio: float, low: float, high: float) -> dict[str, object]:
    """Of one promise."""
    made = {"invariant": "agreement", "kind": kind, "failed_with": 3, "failed_without": 0}
    return {**made, "odds_ratio": ratio, "low": low, "high": high}


def test_one_pair_of_many_that_is_outside_its_interval_is_chance() -> None:
    """Twice as likely, with a standard error of 0.3: by itself 0.0209, and among three pairs 0.0626.

    ln 2 / 0.3 = 2.3105, beyond which are 2.086 % of the normal, on both sides together.
    """
    from harness.spark.plots import RED, odds  # matplotlib: only if the test runs

    among = [pair("Crash", 2.0, 1.1109, 3.6006), pair("Pause", 1.0, 0.5, 2.0), pair("Delay", 1.0, 0.5, 2.0)]
    (alone,) = corrected(among[:1])
    assert alone["chance"] == pytest.approx(0.02086, rel=1e-2)
    made = corrected(among)
    assert [row["chance"] for row in made] == pytest.approx([3 * 0.02086, 1, 1], rel=1e-2)
    assert RED in odds([alone])
    assert RED not in odds(made)
    assert re.search("among 3 pairs", odds(made))
    assert RED not in odds(corrected([pair("Crash", 0.5, 0.4, 0.6)])), "what keeps from failing is no cause of it"
