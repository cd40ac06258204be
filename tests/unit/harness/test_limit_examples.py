"""Examples of limits: each has the expected verdict."""

from __future__ import annotations

import pytest

from tests.histories.limits import quotas, server_deletions, silence


@pytest.mark.parametrize("example", quotas.EXAMPLES.values(), ids=quotas.EXAMPLES)
def test_quota_example(example: quotas.Example) -> None:
    assert example.violations(False) == []
    assert example.violations_without_prepared(False) == []
    assert example.invariant in [each.invariant for each in example.violations(True)]
    if example.outside:
        assert example.invariant in [each.invariant for each in example.violations_without_prepared(True)]


@pytest.mark.parametrize("example", silence.EXAMPLES.values(), ids=silence.EXAMPLES)
def test_session_timeout_example(example: silence.Example) -> None:
    assert example.violations(False) == []
    assert {each.invariant for each in example.violations(True)} == {example.invariant}


@pytest.mark.parametrize("example", server_deletions.EXAMPLES.values(), ids=server_deletions.EXAMPLES)
def test_server_deletion_example(example: server_deletions.Example) -> None:
    assert example.violations(False) == []
    (violations,) = example.violations(True)
    assert violations.startswith(f"{example.invariant}: ")
