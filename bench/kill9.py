"""`kill -9` again and again under load, then a look at what is left (`harness.worlds.processes.kill_rounds`)."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.report import Result, publish, spread
from harness.worlds.processes.kill_rounds import Rounds, run_rounds


def tell(words: str) -> None:
    print(f"\r{words:<60}", end="", file=sys.stderr, flush=True)


def run(rounds: int, seed: int, victims: tuple[str, ...], data: Path) -> bool:
    found = run_rounds(Rounds(rounds, seed, victims), data / "kill9", tell)
    print(file=sys.stderr)
    errors = sorted(found.errors)
    rows: list[dict[str, object]] = [
        {"what": "kills", "number": sum(found.kills.values())},
        {"what": "values acknowledged", "number": len(found.places)},
        {"what": "values in the history", "number": found.values},
        {"what": "outcome unknown", "number": found.unknown},
        {"what": "errors at writers", "number": len(errors)},
        {"what": "seconds", "number": found.seconds},
        *({"what": f"kill to next answer, {key}, s", "number": value} for key, value in spread(found.first_s).items()),
        *({"what": f"longest silence, {key}, s", "number": value} for key, value in spread(found.gap_s).items()),
        {"what": "violations", "number": len(found.wrong)},
    ]
    result: Result = {
        "seed": seed,
        "rounds": rounds,
        "victims": victims,
        "kills": dict(found.kills),
        "acknowledged": len(found.places),
        "values": found.values,
        "unknown": found.unknown,
        "errors": errors,
        "first_s": spread(found.first_s),
        "gap_s": spread(found.gap_s),
        "seconds": found.seconds,
        "violations": found.wrong,
    }
    publish("kill9", result, rows)
    for each in (*errors, *found.wrong):
        print(each)
    return not found.wrong
