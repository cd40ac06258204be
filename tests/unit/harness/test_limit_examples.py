"""What there is quotas and time for, in stories by hand: each is judged as it should be."""

from __future__ import annotations

import pytest

from tests.histories.limits import quotas, server_deletions, silence


@pytest.mark.parametrize("case", quotas.EXAMPLES.values(), ids=quotas.EXAMPLES)
def test_a_story_of_room(case: quotas.Example) -> None:
    assert case.violations(False) == []
    assert case.violations_without_prepared(False) == []
    assert case.invariant in [each.invariant for each in case.violations(True)]
    if case.outside:
        assert case.invariant in [each.invariant for each in case.violations_without_prepared(True)]


@pytest.mark.parametrize("case", silence.EXAMPLES.values(), ids=silence.EXAMPLES)
def test_a_story_of_silence(case: silence.Example) -> None:
    assert case.violations(False) == []
    assert {each.invariant for each in case.violations(True)} == {case.invariant}


@pytest.mark.parametrize("case", server_deletions.EXAMPLES.values(), ids=server_deletions.EXAMPLES)
def test_a_story_of_what_goes_by_itself(case: server_deletions.Example) -> None:
    assert case.violations(False) == []
    (violations,) = case.violations(True)
    assert violations.startswith(f"{case.invariant}: ")
