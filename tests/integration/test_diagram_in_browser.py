"""The space-time diagram in a real headless browser: its content, and the effect of clicks and the wheel."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.draw import script_from_seed
from harness.faults import Isolate, Script, Timing, Write
from harness.mutants.edit import planted
from harness.mutants.table import BY_NAME
from harness.report.diagram import page
from harness.worlds.cores.world import run

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1400,900",
    "--virtual-time-budget=2000",
    "--enable-logging=stderr",
)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium to look at the page with: apt install chromium")


def browse(text: str, folder: Path, does: str = "") -> str:
    """The document after its script, and then what a person `does`, as a script. An error in either fails the test."""
    allowed = text.replace("</body>", f"<script>{does}</script></body>")
    path = folder / "page.html"
    path.write_text(allowed)
    command = [BROWSER or "", *FLAGS, f"--user-data-dir={folder}/profile", "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    trouble = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not trouble, trouble
    return re.sub(r"<script.*?</script>", "", done.stdout, flags=re.S)


@pytest.fixture(scope="module")
def healthy() -> str:
    timing = Timing(delay_us_min=1_000, delay_us_max=1_000, fsync_us_min=1_000, fsync_us_max=1_000)
    ops = tuple(Write(at) for at in range(300, 1_400, 100))
    outcome = run(Script(1, length_ms=1_500, timing=timing, ops=ops, faults=(Isolate(500, 500),)), trace=True)
    return page(outcome, "zab-harness replay --script x.json", summary=("server 3 led",))


def test_a_partition_is_drawn(healthy: str, tmp_path: Path) -> None:
    document = browse(healthy, tmp_path, "show(0, 1);")
    for words in ("server 1", "leads epoch 1", "leads epoch 2", "isolate leader for 500 ms", "the end", "server 3 led"):
        assert words in document, words
    assert document.count('class="message"') > 100
    assert document.count('class="arrow lost"') > 3
    assert "zab-harness replay --script x.json" in document


def test_no_two_times_at_the_axis_read_the_same(tmp_path: Path) -> None:
    """Also where less than a millisecond is between them."""
    outcome = run(script_from_seed(3, ops=30, faults=3, length_ms=1_000), trace=True)
    does = """
    const read = [];
    for (const even of [true, false]) {
      view.even = even;
      measure();
      for (let first = 10; first + 6 < times.length; first += Math.ceil(times.length / 20)) {
        const left = times[first], right = times[first + 6];
        view.from = place(left); view.to = place(right);
        read.push([...grid(left, right).matchAll(/middle">([^<]*)</g)].map(found => found[1]).join(" "));
      }
    }
    document.title = read.join("; ");
    """
    title = re.search("<title>(.*?)</title>", browse(page(outcome, "x"), tmp_path, does), re.S)
    assert title is not None
    axes = [words.split() for words in title[1].split(";")]
    assert len(axes) > 20
    assert sum(map(len, axes)) > 100
    for times in axes:
        assert len(times) == len(set(times)), times


def test_it_can_be_filtered_zoomed_and_asked(healthy: str, tmp_path: Path) -> None:
    document = browse(
        healthy,
        tmp_path,
        """
        show(0, 1);
        const count = () => stage.querySelectorAll(".message").length, seen = [count()];
        document.getElementById("kind-election").click(); seen.push(count());
        document.getElementById("lane-0").click(); seen.push(count());
        document.getElementById("lane-0").click();
        document.getElementById("kind-heartbeat").click(); seen.push(count());
        const box0 = stage.getBoundingClientRect();
        const turned = {deltaY: -900, clientX: box0.left + 900, bubbles: true, cancelable: true};
        stage.dispatchEvent(new WheelEvent("wheel", turned));
        seen.push(count());
        const before = view.from;
        stage.dispatchEvent(new PointerEvent("pointerdown", {clientX: 600, bubbles: true}));
        dispatchEvent(new PointerEvent("pointermove", {clientX: 500}));
        dispatchEvent(new PointerEvent("pointerup", {}));
        const moved = view.from > before;
        const pointed = new MouseEvent("mousemove", {clientX: 600, clientY: 300, bubbles: true});
        stage.querySelector(".message").dispatchEvent(pointed);
        document.body.dataset.seen = seen.join(" ");
        document.body.dataset.moved = moved;
        """,
    )
    found = re.search(r'data-seen="([\d ]+)"', document)
    assert found is not None
    whole, without_votes, without_lane, with_heartbeats, zoomed = map(int, found[1].split())
    assert whole > without_votes > without_lane > 0
    assert with_heartbeats > without_votes
    assert 0 < zoomed < with_heartbeats
    assert 'data-moved="true"' in document
    tip = re.search(r'<div id="tip"[^>]*>(.*?)</div>', document, re.S)
    assert tip is not None
    assert re.search(r"server \d to server \d, at [\d.]+ ms", tip[1])


def test_of_a_broken_promise_the_causes_are_shown_and_the_rest_on_demand(tmp_path: Path) -> None:
    with planted(BY_NAME["newer-history-ignored"].edits):
        seed = next(seed for seed in range(50) if not run(script_from_seed(seed)).valid)
        outcome = run(script_from_seed(seed), trace=True)
    document = browse(
        page(outcome, "again"),
        tmp_path,
        """
        const inView = () => {
          show(0, 1);
          return Number(document.getElementById("capped").textContent.match(/(\\d+) items/)[1]);
        };
        const led = inView();
        document.getElementById("led").click();
        document.body.dataset.seen = led + " " + inView();
        """,
    )
    assert outcome.invariant is not None
    assert f"Violated: {outcome.invariant}" in document
    assert "the invariant is violated here" in document
    found = re.search(r'data-seen="(\d+) (\d+)"', document)
    assert found is not None
    assert 0 < int(found[1]) < int(found[2])


def test_large_diagram_is_drawn_in_part_with_a_notice(tmp_path: Path) -> None:
    outcome = run(script_from_seed(8, voters=5, ops=800, faults=0, length_ms=6_000), trace=True)
    assert outcome.trace is not None
    assert len(outcome.trace.acts) > 8_000
    document = browse(page(outcome, "again"), tmp_path)
    said = re.search(r"(\d+) of (\d+) items in view are drawn: zoom in", document)
    assert said is not None
    assert int(said[1]) <= 2_500 < int(said[2])
