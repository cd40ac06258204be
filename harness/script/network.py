"""Faults of the network.

Learner links and clients' connections are streams: what is said on them arrives in order, or the stream breaks.
The election channel promises nothing: there, words may be lost, doubled and overtaken by others.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import frozen

from harness.script.names import LEADER


@frozen
class Partition:
    """Only servers that are in a common group hear each other. Groups may overlap: that makes a bridge."""

    at: int
    for_ms: int = 500
    groups: tuple[tuple[int, ...], ...] = ((),)


@frozen
class Split:
    """A partition of a shape that fits any number of servers, turned so that it begins at one of them."""

    at: int
    for_ms: int = 500
    shape: str = "halves"
    server: int = LEADER


@frozen
class Isolate:
    """One server hears nobody, and nobody hears it."""

    at: int
    for_ms: int = 500
    server: int = LEADER


@frozen
class Apart:
    """Two servers do not hear each other; everybody else hears both."""

    at: int
    for_ms: int = 500
    source: int = LEADER
    target: int = 1


@frozen
class OneWay:
    """What `source` says does not reach `target`; the other direction works."""

    at: int
    for_ms: int = 500
    source: int = LEADER
    target: int = 1


@frozen
class Deaf:
    """The server can speak, but hears nobody."""

    at: int
    for_ms: int = 500
    server: int = LEADER


@frozen
class Clog:
    """What `source` says to `target` is held back, and comes in one burst at the end."""

    at: int
    for_ms: int = 200
    source: int = LEADER
    target: int = 1


@frozen
class Swizzle:
    """Half of the servers, chosen by chance, are clogged one after the other, and freed in another order."""

    at: int
    for_ms: int = 300


@frozen
class Overflow:
    """`target` does not read what `source` says. When more than `most` words wait, the link between them is cut."""

    at: int
    for_ms: int = 300
    source: int = LEADER
    target: int = 1
    most: int = 4


@frozen
class Delay:
    """What `source` says to `target` takes so much longer."""

    at: int
    for_ms: int = 500
    source: int = LEADER
    target: int = 1
    more_ms: int = 20


@frozen
class Loss:
    """So many words of one direction are lost: for good on the election channel, on a stream until said again."""

    at: int
    for_ms: int = 500
    source: int = LEADER
    target: int = 1
    percent: int = 30


@frozen
class Flaky:
    """The election channel loses and doubles messages, and everything is slow."""

    at: int
    for_ms: int = 500
    loss_percent: int = 20
    double_percent: int = 20
    slower: int = 2


@frozen
class Reorder:
    """On the election channel, this share of the words is held back for so long, and overtaken by later ones."""

    at: int
    for_ms: int = 500
    percent: int = 30
    hold_ms: int = 100


@frozen
class CutLinks:
    """Every link of the server breaks now, and may be dialled again at once."""

    at: int
    server: int = LEADER


@frozen
class DoubleLinks:
    """Whoever dialled this server seems to dial again: its first word is said once more on another link."""

    at: int
    server: int = LEADER


NetworkFault: TypeAlias = (
    Partition | Split | Isolate | Apart | OneWay | Deaf | Clog | Swizzle | Overflow
    | Delay | Loss | Flaky | Reorder | CutLinks | DoubleLinks
)  # fmt: skip
NETWORK: Final[tuple[type[NetworkFault], ...]] = (
    Partition, Split, Isolate, Apart, OneWay, Deaf, Clog, Swizzle, Overflow,
    Delay, Loss, Flaky, Reorder, CutLinks, DoubleLinks,
)  # fmt: skip
