"""What a JVM says of its heap, whatever collects its garbage."""

from __future__ import annotations

import pytest

from bench.zookeeper.memory import heap_used_mib

G1 = """4242:
 garbage-first heap   total 262144K, used 51200K [0x00000000e0000000, 0x0000000100000000)
  region size 1024K, 11 young (11264K), 1 survivors (1024K)
 Metaspace       used 9000K, committed 9200K, reserved 1114112K
  class space    used 1000K, committed 1100K, reserved 1048576K
"""
SERIAL = """4242:
 def new generation   total 78656K, used 10240K [0x0, 0x1, 0x2)
  eden space 69952K,  12% used [0x0, 0x1, 0x2)
 tenured generation   total 174784K, used 20480K [0x0, 0x1, 0x2)
 Metaspace       used 9000K, committed 9200K, reserved 1114112K
"""


@pytest.mark.parametrize(("info", "mib"), [(G1, 50.0), (SERIAL, 30.0), ("4242:\nCommand executed\n" + G1, 50.0)])
def test_all_generations_count_and_the_space_of_classes_does_not(info: str, mib: float) -> None:
    assert heap_used_mib(info) == mib


def test_an_answer_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="says nothing of its use"):
        heap_used_mib("4242:\njava.lang.IllegalArgumentException: Unknown diagnostic command\n")
