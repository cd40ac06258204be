"""A script is written and read as text and as JSON, whatever is in it, and a mistake is found by its place."""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.faults import FAULTS, OPS, Fault, Knobs, Op, Replication, Script, Timing
from harness.script.checks import CHOICES, LEAST, SERVER_FIELDS
from harness.script.faults import KINDS
from harness.script.values import Together
from harness.script.workload import request_text
from harness.script.writing import phrase
from harness.scripts import ScriptError, check, describe, dumps, from_json, loads, to_json
from harness.strategies import scripts

ROOT = Path(__file__).resolve().parents[4]
EVERY: tuple[type[Fault | Op], ...] = (*FAULTS, *OPS)


def value(name: str, hint: Any) -> st.SearchStrategy[Any]:
    """Any that makes sense, not only such as are drawn for a run."""
    if name in CHOICES:
        return st.sampled_from(CHOICES[name])
    if name in SERVER_FIELDS:
        return st.integers(-1, 30) | st.none() if hint == int | None else st.integers(-1, 30)
    if name == "groups":
        return st.lists(st.lists(st.integers(0, 30), max_size=4).map(tuple), min_size=1, max_size=4).map(tuple)
    if name == "steps":
        return st.lists(anything(typing.get_args(hint)[0]), min_size=1, max_size=3).map(tuple)
    if name == "path":
        return st.just("") | st.text(st.characters(exclude_categories=["Cs"]), max_size=8).map("/".__add__)
    if name == "user":
        return st.integers(0, 9)
    if name == "request":
        return st.binary(max_size=8).map(request_text)
    if name == "acl":
        return st.sampled_from(["", "auth:rwcda", "u1:r, world:rc"])
    if name == "limits":
        return st.sampled_from(["", "countHardLimit=4", "count=3,bytes=-1=;byteHardLimit=100"])
    least = max(LEAST.get(name, 1), -(10**6))
    return st.integers(2 if name == "value" else least, 100)


def anything(kind: type) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(kind)
    made = st.builds(kind, **{each.name: value(each.name, hints[each.name]) for each in attrs.fields(kind)})
    return made.filter(concerns_somebody)


def concerns_somebody(item: Any) -> bool:
    """Nothing is between a server and itself, and where there are groups somebody is in one."""
    itself = hasattr(item, "target") and item.target == getattr(item, "source", None)
    return not itself and any(getattr(item, "groups", ((1,),)))


def whole(items: list[Fault | Op]) -> Script:
    items = sorted(items, key=lambda item: item.at)
    ops: Any = tuple(item for item in items if isinstance(item, OPS))
    faults: Any = tuple(item for item in items if isinstance(item, FAULTS))
    return Script(3, voters=30, ops=ops, faults=faults)


@pytest.mark.parametrize("kind", EVERY, ids=phrase)
def test_every_kind_is_read_as_it_is_written(kind: type) -> None:
    @settings(max_examples=15)
    @given(st.lists(anything(kind), max_size=4))
    def there_and_back(items: list[Fault | Op]) -> None:
        script = whole(items)
        check(script)
        assert loads(describe(script)) == script
        assert describe(loads(describe(script))) == describe(script)
        assert loads(dumps(script)) == script
        assert from_json(to_json(script)) == script

    there_and_back()


@settings(max_examples=20)
@given(scripts() | scripts(machine="store"))
def test_whole_scripts_are_read_as_they_are_written(script: Script) -> None:
    assert loads(describe(script)) == script
    assert loads(dumps(script)) == script


def test_every_kind_of_fault_is_drawn() -> None:
    assert {kind.make for kind in KINDS} == set(FAULTS)
    for kind in KINDS:
        together = [value.options[0] for value in kind.fields.values() if isinstance(value, Together)]
        drawn = {*kind.fields, *(name for option in together for name in option)}
        # `zab-harness crash-points` counts calls up.
        assert drawn == {each.name for each in attrs.fields(FAULTS[KINDS.index(kind)])} - {"at", "calls"}


def test_every_kind_of_fault_has_a_scenario() -> None:
    told = " ".join(path.read_text() for path in (ROOT / "tests" / "simulation").glob("test_faults_*.py"))
    assert [phrase(kind) for kind in FAULTS if phrase(kind) not in told] == []


# -- by hand -------------------------------------------------------------------------------------------


def test_a_page_by_hand() -> None:
    script = loads("""
        # The order of lines does not matter.
        at 1.2 s isolate leader for 500 ms      # a comment
        knobs tick_ms=50, window_entries 4
        at 300 write
        voters 5
        at 0.8 s when "quorum acked" crash nth 2
        at 2s fail disk 3 full
        length 2.5 s
        at 900 ms partition 1 2 | 3 leader for 0.1 s
        at 10 ms ask create "/a b" ephemeral size 3 + set /c version 0
        machine store
    """)
    assert (script.seed, script.voters, script.length_ms, script.machine) == (0, 5, 2_500, "store")
    assert script.knobs == Knobs(tick_ms=50, window_entries=4)
    assert script.timing == Timing()
    assert [(fault.at, type(fault).__name__) for fault in script.faults] == [
        (800, "When"),
        (900, "Partition"),
        (1_200, "Isolate"),
        (2_000, "FailDisk"),
    ]
    assert describe(script).splitlines()[-6:] == [
        'at    10 ms  ask client 1 create "/a b" ephemeral size 3 + set /c version 0',
        "at   300 ms  write count 1 size 8",
        'at   800 ms  when anyone "quorum acked" crash lose for 200 ms nth 2',
        "at   900 ms  partition 1 2 | 3 leader for 100 ms",
        "at  1200 ms  isolate leader for 500 ms",
        "at  2000 ms  fail disk 3 full down 200 ms nth 1",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sed 7", "line 1, column 1: 'sed' is not known here: did you mean 'seed'?"),
        ("seed x", "line 1, column 6: expected a number, not 'x'"),
        ("seed", "line 1, column 5: expected a number, but the line ends here"),
        ("voters 3 4", "line 1, column 10: expected the end of the line, not '4'"),
        ("\nat noon crash", "line 2, column 4: expected a time, like 300 ms or 1.2 s, not 'noon'"),
        ("at 0.0001 s crash", "line 1, column 4: 0.0001 s is not a whole number of milliseconds"),
        ("at 3 ms", "line 1, column 8: expected a fault or an operation, like crash"),
        ("at 3 ms crush", "line 1, column 9: 'crush' is not known here: did you mean 'crash'?"),
        ("at 3 ms clock drft", "line 1, column 9: 'clock drft' is not known here: did you mean 'clock drift'?"),
        ("at 3 ms crash lead", "line 1, column 15: 'lead' is not known here: did you mean"),
        ("at 3 ms crash down soon", "line 1, column 20: expected a time"),
        ("at 3 ms crash 1 2", "line 1, column 17: server is given twice"),
        ("at 3 ms crash 99", "line 1, column 15: crash.server: there is no server 99"),
        ("length 1 s\nat 3 ms crash 9", "line 2, column 15: server: there is no server 9; there are 1, 2, 3"),
        ("length 1 s\nat 9 ms crash\nat 2 s write", "line 3, column 4: at: the run ends at 1000"),
        ("voters 99", "line 1, column 1: voters: expected from 1 to 30 servers"),
        ("timing delay_us_min 9000", "line 1, column 8: timing.delay_us_min: 9000 is more than delay_us_max"),
        ("seed -1", "line 1, column 1: seed: -1 is not from 0 to"),
        ("seed " + "9" * 5_000, "line 1, column 6: the number 99999999999999999999... is too large"),
        ("at " + "9" * 5_000 + " ms crash", "line 1, column 4: the number 99999999999999999999... is too large"),
        ("at 3 ms crash " + "9" * 5_000, "line 1, column 15: the number 99999999999999999999... is too large"),
        ("9" * 5_000, "line 1, column 1: '99999999999"),
        (
            '{"version": 2, "seed": 1,\n "faults": [{"kind": "Crash", "at": 5, "server": 9}]}',
            "line 2, column 50: script.faults[0].server: there is no server 9",
        ),
        ('{"version": 2,\n "seed": -1}', "line 2, column 10: script.seed: -1 is not from 0 to"),
        ('{"version": 2,\n "ops": [{"kind": "Sneeze"}]}', "line 2, column 19: script.ops[0].kind: 'Sneeze' is none of"),
        ('{"version": 2,\n "timing": {}}', "line 1, column 1: script.seed: missing"),
        ('{"version": 2,\n "seed": ' + "9" * 5_000 + "}", "line 2, column 10: the number is too large"),
        ("at 3 ms one way from somebody", "line 1, column 22: expected a server (leader, follower or its number)"),
        ("at 3 ms delay from 1 to 1", "line 1, column 22: to: 1 is the source, too"),
        ("at 3 ms partition for 9 ms", "line 1, column 9: partition.groups: all groups are empty"),
        ("at 3 ms reconfigure add", "line 1, column 9: reconfigure lacks server"),
        ("at 3 ms ask create a", "line 1, column 20: 'a' is not known here: expected one of a path"),
        ("at 3 ms ask crate /a", "line 1, column 13: 'crate' is not known here: did you mean 'create'?"),
        ('at 3 ms when "quorum acked', "line 1, column 14: the quotation mark is not closed"),
        ('at 3 ms when "\\q"', "line 1, column 14: "),
        ("at 3 ms when moment sometimes", "line 1, column 21: 'sometimes' is not known here"),
        ("timing delay 3", "line 1, column 8: 'delay' is not known here: did you mean 'delay_us_"),
        ("at 9 s crash", "line 1, column 4: at: the run ends at 3000"),
        ("at 1 s loss percent 101", "line 1, column 13: loss.percent: 101 is too large; the limit is 100"),
        ("length 2.5 parsecs", "line 1, column 12: expected ms or s after 2.5, not 'parsecs'"),
        ("voters 3\nknobs tick_ms 1", "line 2, column 15: knobs.tick_ms: 1 is too small; the least value is 2"),
        ("knobs window_entries 0", "line 1, column 22: knobs.window_entries: 0 is too small; the least value is 1"),
        ("knobs counter_max 99999999999", "knobs.counter_max: 99999999999 is too large; the limit is 4294967295"),
        ("timing loss_percent 101", "line 1, column 21: timing.loss_percent: 101 is too large; the limit is 100"),
        (
            "timing fsync_us_min 9, fsync_us_max 8",
            "line 1, column 8: timing.fsync_us_min: 9 is more than fsync_us_max, which is 8",
        ),
        (
            "at 1 s setting 1 tick_ms value 1",
            "line 1, column 26: setting.value: 1 is too small; the least value is 2",
        ),
        ("at 1 s write count 100000000", "line 1, column 14: write.count: 100000000 is too large; the limit is 10000"),
        (
            "at 1 s write size 2000000000",
            "line 1, column 14: write.size: 2000000000 is too large; the limit is 1048576",
        ),
        (
            "at 1 s write count 99 size 999999",
            "script.ops: all writes together have 99,001,485 bytes; the limit is 67,108,864",
        ),
        ("seed 7\nvoters 3\nseed 8", "line 3, column 1: seed is given twice, first in line 1"),
        ("knobs tick_ms 50\nknobs tick_ms 60", "line 2, column 7: tick_ms is given twice, first in line 1"),
        ('{"version": 2, "version": 1}', "one object has 'version' twice: 2 and 1"),
        ("null", "script: expected an object, not NoneType"),
        ("12", "script: expected an object, not int"),
        ("at 1 s crash 1 isolate", "line 1, column 16: 'isolate' is not known here"),
    ],
)
def test_a_mistake_is_found_by_its_place(text: str, said: str) -> None:
    with pytest.raises(ScriptError) as caught:
        loads(text)
    assert said in str(caught.value)


def test_a_mark_in_front_of_the_first_byte_means_nothing() -> None:
    assert loads("\ufeffseed 7") == loads("seed 7")
    assert loads('\ufeff{"version": 2, "seed": 7}') == loads("seed 7")


def test_a_script_from_before_producers_had_patience_reads_as_it_was_meant() -> None:
    line = '{"kind": "Replication", "at": 0, "durability": "each"}'
    old = f'{{"version": 2, "seed": 7, "machine": "partitions", "brokers": 3, "ops": [{line}]}}'
    assert loads(old).ops == (Replication(0, "each", timeout_ms=300),)
    assert loads("seed 7\nmachine partitions\nbrokers 3\nat 0 ms replication each lag 300 ms").ops == loads(old).ops


WORDS = ("at", "3", "ms", "crash", "|", "+", ",", "=", "#", "leader", "ask", '"', "\\", "/a", "1.5", "s", "for")


@settings(max_examples=50)
@given(st.text(max_size=60) | st.lists(st.sampled_from(WORDS)).map(" ".join))
def test_noise_is_a_script_or_refused(text: str) -> None:
    try:
        check(loads(text))
    except ScriptError:
        pass
