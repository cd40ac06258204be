"""The part of a trace that concerns a verdict."""

from __future__ import annotations

import pytest

from harness.cli import main
from harness.report.concerned import concerned
from harness.trace import Act

FAULT: Act = (1_000, 0, "fault", 0, "crash")


def asked(at: int, client: int, call: int) -> Act:
    return at, 0, "client", client, f"client {client} call {call}"


def test_acts_of_the_named_servers_and_faults_remain() -> None:
    acts: list[Act] = [(10, 1, "applies", 0, "1/1"), FAULT, (20, 2, "applies", 0, "1/1"), (30, 3, "saves", 0, "1/2")]
    assert concerned(acts, "server 2 applies another transaction", 10) == ([FAULT, acts[2]], 2)
    assert concerned(acts, "servers [1, 3] differ", 10) == ([acts[0], FAULT, acts[3]], 3)
    assert concerned(acts, "servers [1, 3] differ", 1) == ([acts[3]], 3)
    assert concerned(acts, "servers [1, 3] differ", 0) == ([], 3)


def test_verdict_that_names_nothing_leaves_all_but_bytes() -> None:
    acts: list[Act] = [(10, 1, "applies", 0, "1/1"), (20, 2, "receives from", 1, "12 bytes")]
    assert concerned(acts, "nobody serves", 10) == ([acts[0]], 1)


def test_named_call_is_shown_however_long_ago_it_was() -> None:
    acts = [asked(number, 1 + number % 2, number) for number in range(100)]
    found, number = concerned(acts, "client 1: the reply to call 8 is wrong", 4)
    assert number == 50
    assert found == [acts[2], acts[4], acts[6], acts[8]]


def test_zxid_in_hexadecimal_is_found_as_epoch_and_counter() -> None:
    acts: list[Act] = [(number, 1, "applies", 0, f"1/{number}") for number in range(1, 90)]
    assert concerned(acts, "the state at 0x100000007 differs", 1) == ([acts[6]], 89)
    assert concerned([*acts, FAULT], "session 0x38bcfe568040001: lost", 5) == ([FAULT], 1)
    session: Act = (5, 0, "client", 1, f"client 1 session {0x38BCFE568040001}")
    assert concerned([*acts, session], "session 0x38bcfe568040001: lost", 5) == ([session], 1)


def test_partition_and_path_are_whole_names() -> None:
    acts: list[Act] = [(1, 0, "client", 9, "partition t1-0"), (2, 0, "client", 9, "partition t1-01")]
    assert concerned(acts, "t1-0 holds another record", 5) == ([acts[0]], 1)
    acts = [(1, 0, "client", 9, "path /a"), (2, 0, "client", 9, "path /a/b")]
    assert concerned(acts, "the node /a has another value", 5) == ([acts[0]], 1)


def test_replay_shows_the_reply_that_overtook_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["replay", "--seed", "1", "--mutant", "reply-overtakes-event", "--machine", "store", "--trace", "12"]
    assert main(command) == 1
    shown = capsys.readouterr().out
    assert "12 of 255 events that concern the verdict; --every-act shows the last of all events" in shown
    assert shown.index("call 86 reply") < shown.index("event data path /a zxid 1/43")
    assert main([*command, "--every-act"]) == 1
    assert "events that concern" not in capsys.readouterr().out
