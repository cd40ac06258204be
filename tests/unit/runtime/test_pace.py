"""Threads that compute beside the loop."""

from __future__ import annotations

import sys

from zab.host.pace import INTERVAL_S, beside_the_loop


def test_dev_ensemble_lasts_as_long_as_one_server_runs() -> None:
    usual = sys.getswitchinterval()
    first, second = beside_the_loop(), beside_the_loop()
    with first:
        assert sys.getswitchinterval() <= INTERVAL_S * 1.01 < usual
        second.__enter__()
    assert sys.getswitchinterval() < usual, "somebody still works"
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == usual
