"""The effect of a killed server on clients, and the time in which a returned server catches up."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import trio

from bench.million import Client
from bench.workers import Worker, cpu_s
from bench.zookeeper.ensembles import SIDS, Side, hosts
from bench.zookeeper.phases import CONNECTIONS, Phase
from bench.zookeeper.rounds import HEARD_S, PHASE_S, Answer, Measured, say
from zab.core.errors import WireError
from zab.store.operations import Op
from zab.wire.client.requests import encode_request

PACED_US: Final = 1_000
"""While a server catches up, each of the others' clients begins a write so often at most: both sides the same work."""
WRITERS_S: Final = 90
LOOK_S: Final = 0.01
HUNG_S: Final = 5.0


def failed(client: Worker, sides: Sequence[Side], phases: Sequence[Phase], operations: int, runs: int) -> Measured:
    works: dict[str, Callable[[Worker, Side, Phase, int], Answer]] = {
        "catch-up": _catch_up,
        "leader": _killed,
        "follower": _killed,
    }
    measured: Measured = {}
    for number in range(runs):
        for phase in phases:
            for side in sides if number % 2 else sides[::-1]:
                answer = works[phase.do](client, side, phase, phase.operations(operations))
                measured.setdefault((phase.name, side.label), []).append(answer)
                figures = {key: value for key, value in answer.items() if isinstance(value, float)}
                say(f"{number + 1}/{runs} {phase.name} {side.label}: " + _told(figures))
    return measured


def _told(figures: dict[str, float]) -> str:
    return ", ".join(f"{key} {value:.4g}" for key, value in figures.items())


def _victim(side: Side, role: str) -> int:
    leader = side.leader()
    return leader if role == "leader" else next(sid for sid in SIDS if sid != leader)


def _killed(client: Worker, side: Side, phase: Phase, operations: int) -> Answer:
    """A writer at each server, one write after the other. What those at the other servers notice is the ensemble's own
    doing. That of the killed one must look for another: the stock client sleeps by chance before, for up to a second.
    """
    client.ask("write", WRITERS_S, label=side.label, hosts=side.hosts, every_us=0)
    client.ask("again", WRITERS_S, label=side.label)
    victim = _victim(side, phase.do)
    side.kill(victim)
    answer = client.ask("gaps", WRITERS_S, label=side.label, patience_s=WRITERS_S - 10)
    side.start(victim)
    side.wait()
    gaps = dict(zip(SIDS, answer["gaps_ms"], strict=True))
    own = gaps.pop(victim)
    return {"gap_ms": max(gaps.values()), "own_gap_ms": own, "gaps_ms": answer["gaps_ms"], "victim": victim}


def _catch_up(client: Worker, side: Side, phase: Phase, behind: int) -> Answer:
    """From the start of its process, until it has for a client of its own what was committed when that one asked."""
    victim = _victim(side, "follower")
    others = hosts(port for sid, port in side.ports.items() if sid != victim)
    label = f"{side.label}, two servers"
    side.kill(victim)
    client.ask("open", HEARD_S, label=label, hosts=others, connections=CONNECTIONS)
    client.ask(
        "run", HEARD_S, label=label, phase="set", operations=behind, size=phase.size, outstanding=phase.outstanding,
        patience_s=PHASE_S,
    )  # fmt: skip
    client.ask("close", HEARD_S, label=label)
    client.ask("write", WRITERS_S, label=label, hosts=others, every_us=PACED_US)
    client.ask("again", WRITERS_S, label=label)
    began = time.monotonic()
    side.start(victim)
    trio.run(_caught_up, side.ports[victim])
    seconds = time.monotonic() - began
    writers = client.ask("gaps", WRITERS_S, label=label, patience_s=WRITERS_S - 10)
    side.wait()
    return {
        "seconds": seconds,
        "behind": behind,
        "cpu_s": cpu_s(side.pids[victim]),
        "writes_meanwhile": writers["writes"],
        "longest_gap_ms": max(writers["gaps_ms"]),
    }


async def _caught_up(port: int) -> None:
    """A raw client, because the stock one sleeps by chance before it tries again."""
    with trio.fail_after(PHASE_S):
        while True:
            with trio.move_on_after(HUNG_S):
                try:
                    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                        client = Client(stream)
                        await client.connect()
                        await client.ask([encode_request(Op.SYNC, 1, ("/bench",))])
                        await client.ask([encode_request(Op.GET_DATA, 2, ("/bench", False))])
                        return
                except (OSError, trio.BrokenResourceError, RuntimeError, WireError):
                    pass
            await trio.sleep(LOOK_S)
