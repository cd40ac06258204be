"""Every request type of the store, at hostile sizes: the steps that it takes are bounded by its bytes.

The state is hostile, too. A request whose steps grow faster than its size, or that walks other clients' data for
each of its parts, exceeds the bound by far.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

import pytest

from tests.cost import store_frames as frames
from tests.cost import store_states as states
from tests.cost.meter import TooMuchWork, steps
from tests.cost.store_steps import PureServer
from tests.cost.zookeeper import encode
from zab.store.operations import Op
from zab.wire.client.requests import SHAPES

SEEDS = range(4)
FRAME_BYTES = 16_000
STEPS_BASE = 30_000
"""More than it takes to walk all of the small state once."""
STEPS_PER_BYTE = 12


def built() -> PureServer:
    made = PureServer()
    made.build(states.nodes(states.SMALL))
    made.build(states.quotas(states.SMALL))
    made.build([states.watches(500)])
    for number in range(60):
        made.serve(encode(Op.AUTH, 0, "digest", b"u%d:p" % number))
    states.guard(lambda operation: made.ask(*operation) == 0)
    return made


def check(server: PureServer, hostile: frames.Hostile) -> None:
    frame = hostile.frame
    steps_max = STEPS_BASE + STEPS_PER_BYTE * len(frame)
    try:
        steps(lambda: server.serve(frame), steps_max)
    except TooMuchWork as error:
        raise AssertionError(f"{hostile.name}, {len(frame)} bytes: {error}") from None


def test_the_schema_has_every_request_type() -> None:
    assert frames.SCHEMA.keys() | {Op.CLOSE_SESSION} == SHAPES.keys()


@pytest.mark.parametrize("seed", SEEDS)
def test_steps_are_bounded_by_the_size_of_the_request(seed: int) -> None:
    server = built()
    for hostile in frames.every(seed, FRAME_BYTES):
        check(server, hostile)


def cpu(call: Callable[[], object]) -> int:
    """The least CPU time of three calls, in nanoseconds."""
    found = []
    for _ in range(3):
        before = time.thread_time_ns()
        call()
        found.append(time.thread_time_ns() - before)
        if found[-1] > 1_000_000_000:
            break
    return min(found)


@pytest.mark.parametrize("scheme", frames.SCHEMES)
def test_regular_expressions_end_in_time(scheme: str) -> None:
    """Regular expressions run in C, without counted steps: the control is a Python loop of some milliseconds."""
    server, chance = PureServer(), Random(1)
    control = cpu(lambda: sum(number for number in range(50_000)))
    for size in (500, 3_900, 16_000):
        for wrong, draw in frames.TEXTS.items():
            entry = frames.int_of(31) + frames.text(scheme) + draw(chance, size)
            body = frames.text("/missing/node") + frames.int_of(-1) + frames.vector([entry]) + frames.int_of(0)
            hostile = frames.Hostile("", Op.CREATE, body)
            assert cpu(lambda: server.serve(hostile.frame)) < 10 * control, (scheme, wrong, size)  # noqa: B023
        for wrong, draw in frames.BUFFERS.items():
            hostile = frames.Hostile("", Op.SASL, draw(chance, size))
            assert cpu(lambda: server.serve(hostile.frame)) < 10 * control, (wrong, size)  # noqa: B023
