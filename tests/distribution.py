"""Distribute the tests of a run to its workers, so that no long test begins when everything else has ended.

pytest-xdist gives each worker one part of the list of tests, all of the same length. A worker that has ended its part
takes over half of what another has not begun, from the end. So each part begins with the longest tests, and ends with
short unit tests. Tests of one module stay together, as they share fixtures; unit tests may be split.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, Protocol, TypeVar

LONGEST: Final = (
    "tests/integration/test_harness_cluster.py",
    "tests/integration/test_pipeline.py",
    "tests/project/test_docs.py",
    "tests/cost/test_broker_cost.py",
    "tests/integration/test_world_of_brokers.py",
    "tests/integration/test_packages.py",
    "tests/integration/test_spark.py",
    "tests/cost/test_broker_floods.py",
    "tests/integration/test_world_of_processes.py",
    "tests/unit/harness/test_checker_mutation.py",
    "tests/simulation/test_profiles.py",
    "tests/cost/test_broker_edges.py",
    "tests/integration/test_move.py",
    "tests/simulation/test_stack_brokers.py",
    "tests/integration/test_kafka_kill9.py",
    "tests/cost/test_store.py",
    "tests/integration/test_kafkajs.py",
    "tests/differential/test_differential.py",
    "tests/integration/testing/test_pytest_plugin.py",
    "tests/integration/replica/test_tutorial.py",
    "tests/unit/storage/test_crash_everywhere.py",
    "tests/unit/storage/test_rot.py",
)
"""The modules with the longest tests, longest first. A name too many or too few costs time and nothing else."""
SHORT: Final = "tests/unit/"
"""The modules of this folder are short if they are not among the longest."""


class Item(Protocol):
    @property
    def nodeid(self) -> str: ...


T = TypeVar("T", bound=Item)


def module_of(item: Item) -> str:
    return item.nodeid.partition("::")[0]


def is_short(module: str) -> bool:
    return module.startswith(SHORT) and module not in LONGEST


def distribute(items: Sequence[T], workers: int) -> list[T]:
    """Return the tests in an order in which each worker's part begins with long modules and ends with unit tests."""
    modules = [list(group) for _, group in groupby(items, module_of)]
    modules.sort(key=lambda module: _rank(module_of(module[0])))
    short = [item for module in modules if is_short(module_of(module[0])) for item in module]
    parts: list[list[T]] = [[] for _ in range(workers)]
    sizes = list(_sizes(len(items), workers))
    for number, module in enumerate(each for each in modules if not is_short(module_of(each[0]))):
        fitting = [at for at in range(workers) if len(parts[at]) + len(module) <= sizes[at]]
        chosen = min(fitting or range(workers), key=lambda at: (at - number) % workers)
        parts[chosen] += module
    taken = 0
    for part, size in zip(parts, sizes, strict=True):
        wanted = max(0, size - len(part))
        part += short[taken : taken + wanted]
        taken += wanted
    return [item for part in parts for item in part] + short[taken:]


def _rank(module: str) -> int:
    return LONGEST.index(module) if module in LONGEST else len(LONGEST)


def _sizes(count: int, workers: int) -> Iterable[int]:
    """Yield the lengths of the parts, as pytest-xdist computes them."""
    for remaining in range(workers, 0, -1):
        size = count // remaining
        count -= size
        yield size
