"""Leaders of partitions: what they know of their followers and of their ISR, and how long that is true."""

from __future__ import annotations

from typing import Final

from harness.mutants.edit import Mutant
from harness.mutants.replication import GROUPS, ISR, ROLES, of_partitions

MUTANTS: Final[tuple[Mutant, ...]] = (
    of_partitions(
        "earlier-reign-counts",
        "what followers had when this broker led before still counts, though others have led in between",
        (
            f"{ROLES}:_lead",
            "if isinstance(before, Leading) and before.epoch + 1 == state.leader_epoch:",
            "if isinstance(before, Leading):",
        ),
    ),
    of_partitions(
        "news-narrow-the-isr",
        "who is about to come in is not waited for any more when the controller tells of another version of the ISR",
        (
            f"{ISR}.heard",
            "self.maximal = frozenset(members).union(self.asked)",
            "self.maximal = frozenset(members)",
        ),
    ),
    of_partitions(
        "former-life-let-in",
        "a broker dies that is not in sync, and its leader may still write that it is, by what it knows of that life",
        (
            "kraft_controller.core.replicas:_may_be_let_in",
            "led = state.leader in cluster.brokers and state.leader not in gone",
            "led = False",
        ),
    ),
    of_partitions(
        "older-generation-commits",
        "a member commits as of a generation before, in what may be another's by now",
        (
            f"{GROUPS}.commits:refusal",
            "if who.generation != group.generation:",
            "if who.generation > group.generation:",
        ),
    ),
)
