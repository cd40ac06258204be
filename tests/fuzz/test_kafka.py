"""The targets of Kafka's protocol: they accept what they should, and noise does nothing else than to be refused."""

from __future__ import annotations

from random import Random

import pytest

from tests.fuzz.kafka_targets import TARGETS
from tests.fuzz.target import Target

targets = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


@targets
def test_seeds_are_accepted(target: Target) -> None:
    for seed in target.seeds:
        assert target.run(seed), seed.hex()


@targets
def test_damaged_seeds(target: Target) -> None:
    chance = Random(7)
    for seed in target.seeds:
        for _ in range(20):
            damaged = bytearray(seed)
            for _ in range(chance.randint(1, 4)):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            target.run(bytes(damaged[: chance.randint(1, len(damaged))]))


@targets
def test_noise(target: Target) -> None:
    chance = Random(8)
    for _ in range(2_000):
        target.run(chance.randbytes(chance.randint(0, 60)))
