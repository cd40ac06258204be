from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

from zab.core.ready import Note
from zab.core.zxid import Epoch, ServerId
from zab.host.logs import KEYS_MAX, LINES_MAX, Log, shown


def log() -> Log:
    return Log(ServerId(3), lambda: Epoch(7))


def test_a_line_is_an_event_and_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    log().say("role", state="LEADING", serving=True)
    log().say("quiet", "debug", why="two words", empty="", sign="a=b")
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", "role server=3 epoch=7 state=LEADING serving=True"),
        ("DEBUG", "quiet server=3 epoch=7 why='two words' empty='' sign='a=b'"),
    ]
    assert {record.name for record in caplog.records} == {"zab"}


def test_a_note_of_the_core_is_a_line_with_its_level(caplog: pytest.LogCaptureFixture) -> None:
    log().note(Note("established", (("epoch", 8), ("initial", "7/3")), "warning"))
    log().note(Note("ignored", (), "debug"))
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "established server=3 epoch=8 initial=7/3")
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"x", "\"b'x'\""),
        ("plain-9", "plain-9"),
        ("Grüße", "Grüße"),
        ("", "''"),
        ("a b", "'a b'"),
        ("a=b", "'a=b'"),
        ("\x1b[2J\x1b[31mEVIL", "'\\x1b[2J\\x1b[31mEVIL'"),
        ("one\nline", "'one\\nline'"),
    ],
)
def test_no_value_is_taken_for_anything_else(value: object, text: str) -> None:
    assert shown(value) == text


def test_remote_events_are_logged_once_and_then_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        voice = log()
        for _ in range(100):
            voice.warn_rate_limited("stranger", "10.0.0.1", why="noise")
        voice.warn_rate_limited("stranger", "10.0.0.2", why="noise")
        await trio.sleep(11)
        voice.warn_rate_limited("stranger", "10.0.0.1", why="noise")
        voice.warn_rate_limited("stranger", "10.0.0.2", why="noise")

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert [record.message for record in caplog.records] == [
        "stranger server=3 epoch=7 why=noise",
        "stranger server=3 epoch=7 why=noise",
        "stranger server=3 epoch=7 why=noise repeated=99",
        "stranger server=3 epoch=7 why=noise",
    ]


async def test_it_remembers_only_so_many() -> None:
    voice = log()
    for number in range(3 * KEYS_MAX):
        voice.warn_rate_limited("stranger", number)
    assert len(voice._limit._logged) <= KEYS_MAX


async def test_repetitions_of_one_key_do_not_use_up_the_lines_of_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    voice = log()
    for _ in range(2 * LINES_MAX):
        voice.warn_rate_limited("stranger", "a", cause="host", client="a")
    voice.warn_rate_limited("stranger", "b", cause="host", client="b")
    assert [record.message for record in caplog.records] == [
        "stranger server=3 epoch=7 client=a",
        "stranger server=3 epoch=7 client=b",
    ]
