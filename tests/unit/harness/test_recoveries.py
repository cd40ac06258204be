"""How long it took until all was well again, by the kind of the fault."""

from __future__ import annotations

from harness.draw import script_from_seed
from harness.faults import Crash, Script, Write
from harness.history import History, Invoke, Reply, Request, Response, SessionEvent
from harness.outcome import Recovery
from harness.recoveries import Hit, recoveries
from harness.worlds.cores.world import run

MS = 1_000


def test_from_the_end_of_the_fault_to_the_leader_and_to_the_first_write() -> None:
    hits = [Hit("Crash", 100 * MS, 300 * MS)]
    assert recoveries(hits, [(120, 450)], [90 * MS, 470 * MS], None) == (Recovery("Crash", 300, 150, 170),)


def test_outage_that_ended_before_the_fault_ended_took_no_time() -> None:
    hits = [Hit("Isolate", 100 * MS, 900 * MS)]
    assert recoveries(hits, [(120, 450)], [500 * MS], None) == (Recovery("Isolate", 900, 0, None),)


def test_fault_without_effect_has_no_recovery() -> None:
    hits = [Hit("Pause", 100 * MS, 200 * MS)]
    assert recoveries(hits, [(0, 50), (300, 400)], [201 * MS], None) == (Recovery("Pause", 200, None, 1),)


def test_sessions_are_back_when_the_last_of_them_is() -> None:
    write = Request("set", "/a", b"1")
    history = History(
        (
            SessionEvent(50 * MS, 1, 7, "connected", 1, 100),
            SessionEvent(50 * MS, 2, 8, "connected", 1, 100),
            SessionEvent(110 * MS, 1, 7, "disconnected", 1, 100),
            SessionEvent(120 * MS, 2, 8, "disconnected", 1, 100),
            SessionEvent(240 * MS, 1, 7, "connected", 2, 100),
            SessionEvent(260 * MS, 2, 8, "expired", 2, 100),
            Invoke(270 * MS, 1, 7, 1, 2, Request("get", "/a")),
            Response(280 * MS, 1, 7, 1, Reply()),
            Invoke(280 * MS, 1, 7, 2, 2, write),
            Response(290 * MS, 1, 7, 2, Reply("BAD_VERSION")),
            Invoke(290 * MS, 1, 7, 3, 2, write),
            Response(300 * MS, 1, 7, 3, Reply(zxid=9)),
        )
    )
    assert recoveries([Hit("Crash", 100 * MS, 200 * MS)], [], [], history) == (Recovery("Crash", 200, None, 100, 60),)


def test_a_leader_that_crashed_is_replaced_in_a_run() -> None:
    script = Script(
        1, ops=tuple(Write(at) for at in range(300, 3_000, 50)), length_ms=3_000, faults=(Crash(1_000, 300, 3),)
    )
    (found,) = run(script).recoveries
    assert (found.kind, found.at_ms) == ("Crash", 1_300)
    assert found.leader_ms is not None
    assert found.write_ms is not None
    assert found.sessions_ms is None


def test_clients_of_the_store_come_back_in_a_run() -> None:
    outcome = run(script_from_seed(2, machine="store"))
    assert outcome.valid
    assert any(each.sessions_ms is not None for each in outcome.recoveries)
