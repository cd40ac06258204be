"""The table of partitions and its index by topic always agree."""

from __future__ import annotations

from random import Random

import pytest

from replica.core.partition_table import PartitionTable


def test_index_agrees_with_the_table_after_random_changes() -> None:
    random, table, plain = Random(3), PartitionTable[tuple[str, int], int](), dict[tuple[str, int], int]()
    for number in range(3_000):
        key = f"t{random.randrange(4)}", random.randrange(6)
        match random.randrange(4):
            case 0:
                assert table.pop(key, None) == plain.pop(key, None)
            case 1 if key in plain:
                del table[key], plain[key]
            case _:
                table[key] = plain[key] = number
        assert table == plain
        for topic in ("t0", "t1", "t2", "t3", "other"):
            wanted = {each: value for each, value in plain.items() if each[0] == topic}
            assert list(zip(table.of(topic), table.values_of(topic), strict=True)) == list(wanted.items())


def test_pop_of_missing_partition_raises_without_default() -> None:
    table = PartitionTable[tuple[str, int], int]()
    with pytest.raises(KeyError):
        table.pop(("t", 0))
    table["t", 0] = 1
    assert table.pop(("t", 0)) == 1
    assert list(table.of("t")) == []
