"""The faults of servers: of their network, processes, clocks and disks.

Every fault carries its own end (`for_ms`, `down_ms`). `LEADER` and `FOLLOWER` are resolved at its time, so that a fault
keeps its meaning when the shrinker removes others.

Learner links and clients' connections are streams: their messages arrive in order, or the stream breaks. The election
channel may lose, double and reorder messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import frozen

from harness.script.names import DEEDS, DISK_ERRORS, LEADER, LOSSES, MANNERS, MOMENTS, SHAPES
from harness.script.values import DOWN, LASTING, Among, Anyone, Groups, Short, Sid, Together, Upto, Who, drawn, kinds

LOSS: Final = Among(LOSSES)


@frozen
class Fault:
    at: int


# -- processes -------------------------------------------------------------------------------------------


@frozen
class Crash(Fault):
    """The process ends at once, and is started again later."""

    down_ms: int = drawn(200, DOWN)
    server: int = drawn(LEADER, Who())
    loss: str = drawn("lose", LOSS)


@frozen
class CrashAll(Fault):
    """All processes end at one moment; they are started again one after the other."""

    down_ms: int = drawn(200, DOWN)
    loss: str = drawn("lose", LOSS)


@frozen
class CrashIn(Fault):
    """A crash right before the server's n-th act from here on: before it sends a message, writes, or reports a write.

    With `calls`: before its n-th call that changes its disk.
    """

    down_ms: int = drawn(200, DOWN)
    server: int = drawn(LEADER, Who())
    acts: int = drawn(1, Short(1, 60))
    loss: str = drawn("lose", LOSS)
    calls: int = 0


@frozen
class When(Fault):
    """An aimed fault: it strikes a server (`anyone`: any) that reaches this moment for the n-th time.

    The server crashes, alone or with all others; its links break; it is isolated; it or its clock stops; it loses its
    disk.
    """

    for_ms: int = drawn(200, DOWN)
    server: int | None = drawn(None, Anyone())
    moment: str = drawn("quorum acked", Among((*MOMENTS, *MOMENTS[-2:])))
    nth: int = drawn(1, Short(1, 4))
    does: str = drawn("crash", Among((*DEEDS, *DEEDS[:1] * 4)))
    loss: str = drawn("lose", LOSS)


@frozen
class Pause(Fault):
    """The process is stopped, while time goes on and its peers wait."""

    for_ms: int = drawn(500, LASTING)
    server: int = drawn(LEADER, Who())


@frozen
class Restart(Fault):
    """The server stops in an orderly way, closes its log, and is started again."""

    down_ms: int = drawn(100, Short(1, 400))
    server: int = drawn(LEADER, Who())


@frozen
class RollingRestart(Fault):
    """Each server in turn ends and is started again; the next one follows so long after the last one is back."""

    down_ms: int = drawn(100, Short(1, 300))
    wait_ms: int = drawn(200, Short(1, 400))
    manner: str = drawn("orderly", Among(MANNERS))


SETTINGS: Final[Mapping[str, Among | Upto | Short]] = {
    "tick_ms": Among((50, 100, 200)), "init_limit": Upto(3, 10), "sync_limit": Upto(3, 8),
    "window_entries": Short(2, 60), "log_sync_entries_max": Upto(0, 20), "outstanding_max": Upto(2, 20),
    "snapshot_every": Upto(3, 60), "segment_bytes": Upto(300, 3_000), "chunk_bytes": Upto(20, 600),
}  # fmt: skip
_SETTING: Final = Together(tuple({"knob": Among((knob,)), "value": value} for knob, value in SETTINGS.items()))


@frozen
class Setting(Fault):
    """A mixed configuration: one server is restarted with another setting, and at the end with its own again."""

    for_ms: int = drawn(1_000, LASTING)
    server: int = drawn(1, Who())
    knob: str = drawn("tick_ms", _SETTING)
    value: int = 50


# -- the network -----------------------------------------------------------------------------------------


@frozen
class Partition(Fault):
    """Only servers in a common group reach each other. Groups may overlap, which makes a bridge."""

    for_ms: int = drawn(500, LASTING)
    groups: tuple[tuple[int, ...], ...] = drawn(((),), Groups())


@frozen
class Split(Fault):
    """A partition of a shape that fits any number of servers, rotated so that it begins at one of them."""

    for_ms: int = drawn(500, LASTING)
    shape: str = drawn("halves", Among(SHAPES))
    server: int = drawn(LEADER, Who())


@frozen
class Isolate(Fault):
    """No message reaches the server, and none of its messages reaches another."""

    for_ms: int = drawn(500, LASTING)
    server: int = drawn(LEADER, Who())


@frozen
class Apart(Fault):
    """Two servers do not reach each other; all others reach both."""

    for_ms: int = drawn(500, LASTING)
    source: int = drawn(LEADER, Who())
    target: int = drawn(1, Sid())


@frozen
class OneWay(Fault):
    """Messages from `source` do not reach `target`; the other direction works."""

    for_ms: int = drawn(500, LASTING)
    source: int = drawn(LEADER, Who())
    target: int = drawn(1, Sid())


@frozen
class Deaf(Fault):
    """The server sends, but no message reaches it."""

    for_ms: int = drawn(500, LASTING)
    server: int = drawn(LEADER, Who())


@frozen
class Clog(Fault):
    """Messages from `source` to `target` are held back, and arrive in one burst at the end."""

    for_ms: int = drawn(200, Short(5, 600))
    source: int = drawn(LEADER, Who())
    target: int = drawn(1, Sid())


@frozen
class Swizzle(Fault):
    """A random half of the servers are clogged one after the other, and freed in another order."""

    for_ms: int = drawn(300, Short(20, 800))


@frozen
class Overflow(Fault):
    """`target` does not read what `source` sends. When more than `most` messages wait, the link between them is cut."""

    for_ms: int = drawn(300, Short(150, 1_500))
    source: int = drawn(LEADER, Who())
    target: int = drawn(1, Sid())
    most: int = drawn(4, Short(1, 4))


@frozen
class Delay(Fault):
    """Messages from `source` to `target` take so much longer."""

    for_ms: int = drawn(500, LASTING)
    source: int = drawn(LEADER, Who())
    target: int = drawn(1, Sid())
    more_ms: int = drawn(20, Short(1, 150))


@frozen
class Loss(Fault):
    """This share of one direction is lost: for good on the election channel, on a stream until it is resent."""

    for_ms: int = drawn(500, LASTING)
    source: int = drawn(LEADER, Who())
    target: int = drawn(1, Sid())
    percent: int = drawn(30, Upto(5, 90))


@frozen
class Flaky(Fault):
    """The election channel loses and doubles messages, and all messages are slow."""

    for_ms: int = drawn(500, LASTING)
    loss_percent: int = drawn(20, Upto(0, 40))
    double_percent: int = drawn(20, Upto(0, 40))
    slower: int = drawn(2, Upto(1, 6))


@frozen
class Reorder(Fault):
    """This share of the messages of the election channel is held back for so long, and overtaken by later ones."""

    for_ms: int = drawn(500, LASTING)
    percent: int = drawn(30, Upto(5, 70))
    hold_ms: int = drawn(100, Short(1, 400))


@frozen
class CutLinks(Fault):
    """All links of the server break, and may be dialled again at once."""

    server: int = drawn(LEADER, Who())


@frozen
class DoubleLinks(Fault):
    """Peers seem to dial this server again: the first message of each link is repeated on another link."""

    server: int = drawn(LEADER, Who())


# -- clocks ----------------------------------------------------------------------------------------------


@frozen
class ClockDrift(Fault):
    """The server's monotonic clock, which determines its timeouts, runs at another rate: 50 is half as fast."""

    for_ms: int = drawn(1_000, LASTING)
    server: int = drawn(LEADER, Who())
    rate_percent: int = drawn(50, Among((10, 50, 80, 120, 200, 500)))


@frozen
class ClockFreeze(Fault):
    """The server's monotonic clock stops, and later continues from there; the process works on."""

    for_ms: int = drawn(500, LASTING)
    server: int = drawn(LEADER, Who())


@frozen
class ClockStep(Fault):
    """The server's wall clock is set, and stays so."""

    server: int = drawn(LEADER, Who())
    by_ms: int = drawn(60_000, Among((-3_600_000, -500, 500, 60_000)))


@frozen
class ClockSkew(Fault):
    """The server's wall clock is wrong by so much, and then right again."""

    for_ms: int = drawn(1_000, LASTING)
    server: int = drawn(LEADER, Who())
    by_ms: int = drawn(-60_000, Among((-60_000, -200, 200, 3_600_000)))


@frozen
class ClockStrobe(Fault):
    """The server's wall clock jumps forth and back, again and again."""

    for_ms: int = drawn(500, LASTING)
    server: int = drawn(LEADER, Who())
    by_ms: int = drawn(1_000, Among((-1_000, 10, 1_000)))
    every_ms: int = drawn(20, Short(5, 200))


# -- disks: durable data is removed only where the ensemble can spare it ----------------------------------


@frozen
class LoseDisk(Fault):
    """The server crashes and comes back with an empty disk."""

    down_ms: int = drawn(200, DOWN)
    server: int = drawn(LEADER, Who())


@frozen
class OldDisk(Fault):
    """The disk is copied now; at the end the server crashes, and comes back with the copy."""

    for_ms: int = drawn(300, Short(10, 800))
    down_ms: int = drawn(100, DOWN)
    server: int = drawn(LEADER, Who())


@frozen
class FlipBit(Fault):
    """The server crashes, one bit of its disk flips, and it comes back. `where` is in thousandths."""

    down_ms: int = drawn(200, DOWN)
    server: int = drawn(LEADER, Who())
    where: int = drawn(500, Upto(0, 999))


@frozen
class MisdirectRecord(Fault):
    """The server crashes, and a record of its log has been written to the wrong place. `where` is in thousandths."""

    down_ms: int = drawn(200, DOWN)
    server: int = drawn(LEADER, Who())
    where: int = drawn(999, Upto(0, 999))


@frozen
class LoseFsync(Fault):
    """From now on fsync reports success and does nothing. At the end the machine loses its power."""

    for_ms: int = drawn(200, Short(5, 600))
    down_ms: int = drawn(100, DOWN)
    server: int = drawn(LEADER, Who())
    loss: str = drawn("lose", LOSS)


@frozen
class FailDisk(Fault):
    """The n-th call from now fails with this error. The server must stop; it is started again later."""

    down_ms: int = drawn(200, DOWN)
    server: int = drawn(LEADER, Who())
    error: str = drawn("fsync", Among(DISK_ERRORS))
    nth: int = drawn(1, Short(1, 8))


@frozen
class FullDisk(Fault):
    """So many bytes are left on the disk. The server must stop when they are used, and cannot start for so long."""

    for_ms: int = drawn(500, LASTING)
    server: int = drawn(LEADER, Who())
    room: int = drawn(100, Short(0, 800))


@frozen
class SlowDisk(Fault):
    """Every write and fsync takes so many times longer."""

    for_ms: int = drawn(500, LASTING)
    server: int = drawn(LEADER, Who())
    slower: int = drawn(20, Upto(2, 60))


WEIGHTS: Final[Mapping[type[Fault], float]] = {
    Crash: 3.0, CrashAll: 1.0, CrashIn: 2.0, When: 4.0, Pause: 1.0, Restart: 0.7, RollingRestart: 0.4, Setting: 0.4,
    Partition: 1.5, Split: 1.0, Isolate: 2.0, Apart: 0.7, OneWay: 1.0, Deaf: 0.7, Clog: 1.5, Swizzle: 0.7,
    Overflow: 0.7, Delay: 0.5, Loss: 0.5, Flaky: 0.7, Reorder: 0.5, CutLinks: 1.0, DoubleLinks: 0.5,
    ClockDrift: 0.5, ClockFreeze: 0.5, ClockStep: 0.3, ClockSkew: 0.3, ClockStrobe: 0.3,
    LoseDisk: 1.0, OldDisk: 0.7, FlipBit: 1.0, MisdirectRecord: 0.7, LoseFsync: 0.7, FailDisk: 0.7, FullDisk: 0.5,
    SlowDisk: 0.7,
}  # fmt: skip
"""How often a run contains a kind of fault, and how often it strikes in that run."""

KINDS: Final = kinds(WEIGHTS)
FAULTS: Final[tuple[type[Fault], ...]] = tuple(WEIGHTS)
