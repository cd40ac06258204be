"""`kill -9` again and again under load, then a look at everything that is left.

Writers in all members write unique values, one at a time each, and put every acknowledgement into a file
that survives them. At the end all members are stopped and started again from what is on their disks, and
then the following must hold, or the campaign has failed:

* all members hold the same list of values;
* every acknowledged value is in it, at the place that its acknowledgement named;
* no value is in it twice;
* the values of one writer are in the order in which it wrote them;
* what is in it beyond that was in flight when its server was killed, one write for each writer at most.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

from bench.members import Members, members
from bench.report import Result, publish, spread
from bench.workers import Answer, ask_all

WRITERS: Final = 4
PAUSE_S: Final = 0.002
"""Pause between the writes of one writer: the failover is tested, and every value is kept to the end."""
AGAIN_S: Final = 60.0
LOAD_S: Final = (0.1, 0.8)
DOWN_S: Final = (0.0, 0.5)


@frozen
class Claims:
    """The writers' records: the zxid of each acknowledged value, and values with unknown outcome."""

    places: Mapping[str, int]
    unknown: frozenset[str]


def read_claims(paths: Sequence[Path]) -> Claims:
    places: dict[str, int] = {}
    unknown: set[str] = set()
    for path in paths:
        for line in path.read_text().split("\n")[:-1]:  # behind the last newline nothing was said to the end
            value, _, place = line.partition(" ")
            if place == "?":
                unknown.add(value)
            else:
                places[value] = int(place)
    return Claims(places, frozenset(unknown))


def judge(histories: Mapping[int, Sequence[str]], claims: Claims) -> list[str]:
    """Return the violations, at most a handful of each kind."""
    wrong: list[str] = []

    def complain(kind: str, found: Sequence[object]) -> None:
        if found:
            wrong.append(f"{len(found)} {kind}: {', '.join(str(each) for each in found[:5])}")

    servers = sorted(histories)
    history = histories[servers[0]]
    for sid in servers[1:]:
        if list(histories[sid]) != list(history):
            both = zip(histories[sid], history, strict=False)
            at = next((place for place, (one, other) in enumerate(both) if one != other), None)
            lengths = f"{len(history)} and {len(histories[sid])} values"
            wrong.append(f"servers {servers[0]} and {sid} differ, {lengths}, first at {at}")
    counts = Counter(history)
    complain("values doubled", [value for value, count in counts.items() if count > 1])
    complain("acknowledged values lost", [value for value in claims.places if value not in counts])
    complain(
        "acknowledged values elsewhere than told",
        [value for value, place in claims.places.items() if value in counts and history[place : place + 1] != [value]],
    )
    newest: dict[str, int] = {}
    disordered = []
    for value in history:
        writer, _, sequence = value.rpartition(".")
        if int(sequence) <= newest.get(writer, 0):
            disordered.append(value)
        newest[writer] = max(newest.get(writer, 0), int(sequence))
    complain("values out of order", disordered)
    told: Counter[str] = Counter(value.rpartition(".")[0] for value in (*claims.places, *claims.unknown))
    complain(
        "values that nobody wrote",
        [value for value in counts if int(value.rpartition(".")[2]) > told[_writer(value)] + 1],
    )
    return wrong


def _writer(value: str) -> str:
    return value.rpartition(".")[0]


@frozen
class Campaign:
    rounds: int
    seed: int
    victims: tuple[str, ...] = ("leader",)
    load_s: tuple[float, float] = LOAD_S
    down_s: tuple[float, float] = DOWN_S


@frozen
class Outcome:
    wrong: list[str]
    acknowledged: int
    unknown: int
    errors: list[str]
    values: int
    kills: Mapping[str, int]
    first_s: list[float]
    gap_s: list[float]
    seconds: float


def fight(campaign: Campaign, directory: Path, tell: bool = False) -> Outcome:
    chance = random.Random(campaign.seed)
    began = time.monotonic()
    claims: list[Path] = []
    kills: Counter[str] = Counter()
    first_s, gap_s, errors = [], [], []
    incarnations: Counter[int] = Counter()

    def begin_writing(ensemble: Members, sid: int) -> None:
        incarnations[sid] += 1
        name = f"{sid}.{incarnations[sid]}"
        claims.append(ensemble.directory / f"claims-{name}")
        ensemble.workers[sid].ask("clients", name=name, path=str(claims[-1]), writers=WRITERS, pause_s=PAUSE_S)

    with members(directory, machine="tape") as ensemble:
        for sid in ensemble.sids:
            begin_writing(ensemble, sid)
        for number in range(campaign.rounds):
            time.sleep(chance.uniform(*campaign.load_s))
            leader = ensemble.leader()
            victim = chance.choice(campaign.victims)
            sid = leader if victim == "leader" else chance.choice([each for each in ensemble.sids if each != leader])
            killed_at = time.monotonic()
            ensemble.workers[sid].kill()
            kills[victim] += 1
            told = _again(ensemble, sid, killed_at)
            first_s.append(min(each["first_s"] for each in told))
            gap_s.append(max(each["gap_s"] for each in told))
            errors += [error for each in told for error in each["errors"]]
            time.sleep(chance.uniform(*campaign.down_s))
            ensemble.start(sid)
            ensemble.serving()
            begin_writing(ensemble, sid)
            if tell:
                said = f"round {number + 1}: {victim} {sid}, {first_s[-1]:.3f} s"
                print(f"\r{said:<40}", end="", file=sys.stderr, flush=True)
        if tell:
            print(file=sys.stderr)
        stopped = ask_all(ensemble.workers.values(), "stop_clients", AGAIN_S + 10, patience_s=AGAIN_S)
        stuck = [
            f"server {sid}: {each['left']} writes are never answered" for sid, each in _numbered(ensemble, stopped)
        ]
        ensemble.stop_all()
        ensemble.start_all()
        histories = {sid: _dump(ensemble, sid) for sid in ensemble.sids}
    told_by_all = read_claims(claims)
    return Outcome(
        wrong=judge(histories, told_by_all) + stuck,
        acknowledged=len(told_by_all.places),
        unknown=len(told_by_all.unknown),
        errors=sorted(set(errors)),
        values=len(histories[ensemble.sids[0]]),
        kills=kills,
        first_s=first_s,
        gap_s=gap_s,
        seconds=time.monotonic() - began,
    )


def _numbered(ensemble: Members, answers: Sequence[Answer]) -> list[tuple[int, Answer]]:
    return [(sid, each) for sid, each in zip(ensemble.workers, answers, strict=True) if each["left"]]


def _again(ensemble: Members, killed: int, since: float) -> list[Answer]:
    survivors = [worker for sid, worker in ensemble.workers.items() if sid != killed]
    told = ask_all(survivors, "gap", AGAIN_S + 10, since=since, within_s=AGAIN_S)
    if any(each["first_s"] is None for each in told):
        raise RuntimeError(f"{AGAIN_S:g} s after server {killed} was killed a survivor still cannot write: {told}")
    return told


def _dump(ensemble: Members, sid: int) -> list[str]:
    """Return the history from disk. Without writers, the committed history is complete as soon as the server serves."""
    path = ensemble.directory / f"history-{sid}"
    ensemble.workers[sid].ask("dump", path=str(path))
    content = path.read_text()
    return content.split("\n") if content else []


def run(rounds: int, seed: int, victims: tuple[str, ...], data: Path) -> bool:
    outcome = fight(Campaign(rounds, seed, victims), data / "kill9", tell=True)
    rows: list[dict[str, object]] = [
        {"what": "kills", "number": sum(outcome.kills.values())},
        {"what": "values acknowledged", "number": outcome.acknowledged},
        {"what": "values in the history", "number": outcome.values},
        {"what": "outcome unknown", "number": outcome.unknown},
        {"what": "errors at writers", "number": len(outcome.errors)},
        {"what": "seconds", "number": outcome.seconds},
        *(
            {"what": f"kill to next answer, {key}, s", "number": value}
            for key, value in spread(outcome.first_s).items()
        ),
        *({"what": f"longest silence, {key}, s", "number": value} for key, value in spread(outcome.gap_s).items()),
        {"what": "violations", "number": len(outcome.wrong)},
    ]
    result: Result = {
        "seed": seed,
        "rounds": rounds,
        "victims": victims,
        "kills": dict(outcome.kills),
        "acknowledged": outcome.acknowledged,
        "values": outcome.values,
        "unknown": outcome.unknown,
        "errors": outcome.errors,
        "first_s": spread(outcome.first_s),
        "gap_s": spread(outcome.gap_s),
        "seconds": outcome.seconds,
        "violations": outcome.wrong,
    }
    publish("kill9", result, rows)
    for each in (*outcome.errors, *outcome.wrong):
        print(each)
    return not outcome.wrong
