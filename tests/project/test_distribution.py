"""The order of tests for several workers: nothing is lost, and long tests begin first."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.distribution import LONGEST, SHORT, distribute, module_of

ROOT = Path(__file__).resolve().parents[2]


def made_of(**counts: int) -> list[SimpleNamespace]:
    return [
        SimpleNamespace(nodeid=f"tests/{module.replace('__', '/')}.py::test_{number}")
        for module, count in counts.items()
        for number in range(count)
    ]


ITEMS = made_of(cost__a=30, integration__b=5, integration__test_spark=1, project__test_docs=40, unit__c=200, unit__d=90)


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7])
def test_every_test_is_in_exactly_one_part(workers: int) -> None:
    found = distribute(ITEMS, workers)
    assert sorted(item.nodeid for item in found) == sorted(item.nodeid for item in ITEMS)


def test_parts_begin_with_the_longest_modules_and_end_with_unit_tests() -> None:
    found = distribute(ITEMS, 2)
    first, second = found[: len(ITEMS) // 2], found[len(ITEMS) // 2 :]
    assert module_of(first[0]) == "tests/project/test_docs.py"
    assert module_of(second[0]) == "tests/integration/test_spark.py"
    assert module_of(first[-1]).startswith(SHORT)
    assert module_of(second[-1]).startswith(SHORT)


def test_long_unit_tests_begin_early() -> None:
    found = distribute([*ITEMS, *made_of(unit__storage__test_rot=20)], 1)
    assert module_of(found[0]) == "tests/project/test_docs.py"
    assert [module_of(item) for item in found].index("tests/unit/storage/test_rot.py") < 80


def test_modules_stay_together() -> None:
    found = [module_of(item) for item in distribute(ITEMS, 4)]
    for name in {name for name in found if not name.startswith(SHORT)}:
        first = found.index(name)
        assert found[first : first + found.count(name)] == [name] * found.count(name)


def test_order_is_the_same_in_every_worker() -> None:
    assert distribute(ITEMS, 3) == distribute(ITEMS, 3)


def test_longest_modules_exist() -> None:
    assert [name for name in LONGEST if not (ROOT / name).exists()] == []
