"""`kill -9` of the controller of three brokers again and again: `harness.worlds.processes.controllers.kill_rounds`."""

from __future__ import annotations

from pathlib import Path

from bench.report import Result, publish, spread
from harness.worlds.processes.controllers.kill_rounds import DEATHS, run_rounds


def run(rounds: int, seed: int, data: Path) -> bool:
    found = run_rounds(rounds, seed, data / "kill9", lambda words: print(words, flush=True))
    settled, kills, wanted = found.settled_s, found.kills, found.wanted
    every = [took for some in settled.values() for took in some]
    moves = {"moves_refused": wanted.refused, "moves_stayed": wanted.stayed}
    result: Result = {"rounds": rounds, "kills": dict(kills), **moves, "settled_s": settled, "wrong": found.wrong}
    rows = [
        {
            "killed in the midst of a": kind,
            "times": kills[kind],
            **{name: f"{value:.1f} s" for name, value in spread(settled[kind]).items()},
        }
        for kind in DEATHS
        if settled[kind]
    ]
    publish("controller-kill9", result, rows)
    if every:
        print("settled again after:", {name: f"{value:.1f} s" for name, value in spread(every).items()})
    print(f"WRONG: {found.wrong}" if found.wrong else f"all as it should be, {sum(kills.values())} times")
    return not found.wrong
