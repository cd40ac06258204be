"""The gauges themselves: steps repeat, and the CPU time of another process is seen."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cost.meter import Cost, TooMuchWork, cpu_ns, steps


def _loop(times: int) -> list[int]:
    return [abs(each) for each in range(times)]


def test_steps_repeat_and_grow_with_the_work() -> None:
    few, many = steps(lambda: _loop(100)), steps(lambda: _loop(1_000))
    assert few == steps(lambda: _loop(100))
    assert 8 * few < many < 12 * few


def test_steps_end_a_call_that_takes_too_many() -> None:
    def swallows() -> None:
        for _ in range(1_000):
            try:
                _loop(1_000)
            except Exception:
                pass

    with pytest.raises(TooMuchWork, match="more than 5000 steps"):
        steps(swallows, 5_000)


def test_cpu_time_of_another_process_counts_ended_threads() -> None:
    program = (
        "import threading\n"
        "thread = threading.Thread(target=lambda: sum(range(3_000_000)))\n"
        "thread.start(); thread.join(); print(flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = cpu_ns(process.pid)
        process.stdout.readline()
        assert cpu_ns(process.pid) - first > 10_000_000
        process.kill()


def test_cost_names_the_bound_that_is_exceeded() -> None:
    cost = Cost(work=12.0, stall=3.0, answers=7)
    cost.check("fine", work_max=12, stall_max=3)
    with pytest.raises(AssertionError, match="a stall of at most 2"):
        cost.check("slow", stall_max=2)
