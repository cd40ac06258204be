"""What is drawn of a run is what happened in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.cli import main
from harness.draw import script_from_seed
from harness.faults import Crash, Isolate, OneWay, Partition, Script, Timing, Write
from harness.outcome import Outcome
from harness.report.diagram import page, read
from harness.report.diagram.picture import Picture, Shade
from harness.report.diagram.slice import causes
from harness.worlds import world

REGULAR = Timing(delay_us_min=1_000, delay_us_max=1_000, fsync_us_min=1_000, fsync_us_max=1_000)


def played(script: Script, where: str = "cores") -> tuple[Outcome, Picture]:
    outcome = world(where).run(script, trace=True)
    assert outcome.trace is not None
    return outcome, read(outcome.trace, script.servers)


def partitioned() -> Script:
    ops = tuple(Write(at) for at in range(300, 1_400, 100))
    return Script(1, length_ms=1_500, timing=REGULAR, ops=ops, faults=(Isolate(500, 500),))


@pytest.mark.parametrize("where", ["cores", "stack"])
def test_a_leader_is_isolated_and_followed_by_another(where: str) -> None:
    outcome, picture = played(partitioned(), where)
    assert outcome.valid
    leads = sorted((band.begin, band.lane, band.label) for band in picture.bands if band.state == "leads")
    assert [(lane, label) for _, lane, label in leads] == [(2, "leads epoch 1"), (1, "leads epoch 2")]
    assert picture.shades == (Shade(500_000, 1_000_000, (2,), "isolate leader for 500 ms"),)
    last = {band.lane: band.state for band in picture.bands}
    assert last == {0: "follows", 1: "leads", 2: "follows"}


def test_message_is_received_by_its_target_after_its_sending() -> None:
    _, picture = played(partitioned())
    heard = [message for message in picture.messages if message.received is not None]
    assert len(heard) > 100
    for message in heard:
        assert message.received is not None
        said, ear = picture.events[message.sent], picture.events[message.received]
        assert (said.lane, ear.lane) == (message.source, message.target)
        assert said.at < ear.at
        assert said.label == ear.label
    streams: dict[tuple[int, int, str], list[int]] = {}
    for message in heard:
        assert message.received is not None
        if message.family == "broadcast":
            streams.setdefault((message.source, message.target, message.family), []).append(message.received)
    assert all(order == sorted(order) for order in streams.values()), "nothing overtakes anything on a stream"


def test_proposals_of_isolated_leader_are_lost() -> None:
    _, picture = played(partitioned())
    lost = [m for m in picture.messages if m.lost and m.source == 2 and m.label.startswith("Propose")]
    assert lost
    assert all(500_000 <= picture.events[m.sent].at <= 1_000_000 for m in lost)


def test_a_crashed_server_is_down_until_it_starts() -> None:
    _, picture = played(Script(1, length_ms=900, timing=REGULAR, faults=(Crash(300, 200, 1),)))
    down = [band for band in picture.bands if band.lane == 0 and band.state == "down" and band.begin]
    assert [(band.begin, band.end) for band in down] == [(300_000, 500_000)]


def test_affected_servers_are_shaded() -> None:
    faults = (OneWay(300, 50, 1, 2), Partition(400, 50, ((1,), (2, 3))), Crash(500, 50, 3))
    _, picture = played(Script(1, length_ms=600, timing=REGULAR, faults=faults))
    assert [shade.lanes for shade in picture.shades] == [(0, 1), (), (2,)]
    assert [shade.end - shade.begin for shade in picture.shades] == [50_000] * 3


def test_a_write_to_the_disk_lasts_until_it_is_reported() -> None:
    _, picture = played(partitioned())
    assert {write.end - write.begin for write in picture.disk_writes if write.end is not None} >= {1_000}


def test_clients_have_lines_of_their_own() -> None:
    outcome, picture = played(script_from_seed(3, machine="store", ops=20, faults=2))
    clients = {lane for lane, each in enumerate(picture.lanes) if not each.server}
    assert len(clients) >= 2
    asked = [m for m in picture.messages if m.family == "clients" and m.source in clients]
    told = [m for m in picture.messages if m.family == "clients" and m.target in clients]
    assert len(asked) >= len(told) > 5
    assert outcome.valid


def test_causes_go_backwards_over_words_and_over_what_a_server_did_before() -> None:
    _, picture = played(partitioned())
    cut = next(number for number, event in enumerate(picture.events) if event.at > 800_000)
    until = Picture(
        picture.lanes,
        picture.events[:cut],
        tuple(m for m in picture.messages if m.sent < cut and (m.received or 0) < cut),
        (), (), (), 800_000, 0,
    )  # fmt: skip
    found = causes(until, "server 3 did something")
    by_lane = {lane: [n for n, event in enumerate(until.events) if event.lane == lane] for lane in range(3)}
    assert set(by_lane[2]) <= found, "all that it did itself"
    followers = [until.events[number].at for number in found if until.events[number].lane != 2]
    assert followers
    assert max(followers) < 560_000, "nothing that others did since it was isolated"
    assert causes(until, "nobody is named") == frozenset(range(cut))


def test_the_page_is_one_file_that_asks_for_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.html"
    assert main(["show", "--seed", "1", "--mutant", "ack-before-durable", "--output", str(path)]) == 1
    assert f"drawn in {path}" in capsys.readouterr().out
    text = path.read_text()
    assert "Violated: durable before acknowledged" in text
    assert "--mutant ack-before-durable" in text
    assert "default-src 'none'" in text
    assert not re.findall(r"(?:src|href)=|url\((?!#)|@import|https?://", text)
    assert "<!--" not in text.replace("<!doctype", "")


def test_texts_of_script_are_escaped_in_page() -> None:
    outcome, _ = played(partitioned())
    made = page(outcome, "echo '</script><b>'", title="<em>", summary=("a </script> b",))
    assert "<em>" not in made
    assert made.count("</script>") == 2


@pytest.mark.parametrize("command", ["run", "replay", "shrink"])
def test_other_commands_draw_too(command: str, tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    main([command, "--seed", "0", "--mutant", "commit-without-quorum", "--diagram", str(path)])
    assert "Violated: " in path.read_text()


def test_fuzz_draws_the_first_failure(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    size = ["--runs", "3", "--jobs", "1", "--servers", "3", "--ops", "20", "--faults", "2"]
    assert main(["fuzz", *size, "--mutant", "commit-without-quorum", "--diagram", str(path)]) == 1
    assert "Violated: " in path.read_text()


def test_a_campaign_has_a_picture_of_its_first_failure(tmp_path: Path) -> None:
    size = ["--runs", "3", "--jobs", "1", "--servers", "3", "--ops", "20", "--faults", "2", "--master", "none"]
    assert main(["fuzz", *size, "--mutant", "commit-without-quorum", "--no-shrink", "--output", str(tmp_path)]) == 1
    (path,) = tmp_path.rglob("first-failure.html")
    assert "Violated: " in path.read_text()


def test_unwritable_output_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--seed", "3", "--ops", "5", "--output", str(tmp_path / "no" / "a.html")]) == 2
    assert "No such file" in capsys.readouterr().err
