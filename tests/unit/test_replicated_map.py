"""The machine of docs/examples/replicated_map.py; integration tests run the whole example in processes."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

import pytest

from zab.core.errors import Refused
from zab.core.zxid import Epoch, make
from zab.service.replicated_machine import View

ReplicatedMap = run_path(str(Path(__file__).resolve().parents[2] / "docs/examples/replicated_map.py"))["ReplicatedMap"]
VIEW = View(make(1, 1), Epoch(1), 0, ())


def test_machine_sets_adds_and_deletes() -> None:
    machine = ReplicatedMap()
    replies = [
        machine.apply(make(1, number), machine.prepare(line, VIEW))
        for number, line in enumerate([b"set /a some words", b"add /n 5", b"add /n -7", b"add /a 1", b"delete /n"], 1)
    ]
    assert replies == ["zxid=1/1", "5", "-2", "1", "zxid=1/5"]
    assert machine.items == {"/a": "1"}


@pytest.mark.parametrize("line", [b"set", b"set /a", b"add /a", b"add /a x", b"delete", b"delete /a b", b"get /a", b""])
def test_malformed_request_is_refused(line: bytes) -> None:
    with pytest.raises(Refused):
        ReplicatedMap().prepare(line, VIEW)


def test_snapshot_is_complete_and_independent_of_the_machine() -> None:
    machine, other = ReplicatedMap(), ReplicatedMap()
    for number in range(2500):
        machine.apply(make(1, number + 1), b"set /%d %d" % (number, number))
    chunks = machine.snapshot()
    before = dict(machine.items)
    machine.apply(make(1, 9999), b"set /0 changed")
    other.restore(chunks)
    assert other.items == before
