"""The faults of servers: of their network, processes, clocks and disks.

Every fault has its own end (`for_ms`, `down_ms`). `LEADER` and `FOLLOWER` are resolved when the fault begins, so that a
fault keeps its meaning when the shrinker removes others.

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


@frozen
class Lasting(Fault):
    """A fault of one server for some time."""

    for_ms: int = drawn(500, LASTING)
    server: int = drawn(LEADER, Who())


@frozen
class Between(Fault):
    """A fault of what one server sends to another one, for some time."""

    for_ms: int = drawn(500, LASTING)
    source: int = drawn(LEADER, Who())
    target: int = drawn(1, Sid())


@frozen
class Ending(Fault):
    """A fault that ends the process of one server, which is started again later."""

    down_ms: int = drawn(200, DOWN)
    server: int = drawn(LEADER, Who())


# -- processes -------------------------------------------------------------------------------------------


@frozen
class Crash(Ending):
    """The process ends at once, and is started again later."""

    loss: str = drawn("lose", LOSS)


@frozen
class CrashAll(Fault):
    """All processes end at the same time, and are started again one after the other."""

    down_ms: int = drawn(200, DOWN)
    loss: str = drawn("lose", LOSS)


@frozen
class CrashIn(Ending):
    """The server crashes right before its n-th act from then on: sending a message, writing, or reporting a write.

    With `calls` it crashes before its n-th call that changes its disk.
    """

    acts: int = drawn(1, Short(1, 60))
    loss: str = drawn("lose", LOSS)
    calls: int = 0


@frozen
class When(Fault):
    """A fault at the moment that a server (`anyone`: any server) reaches for the n-th time.

    The server crashes, alone or with all others; its links break; it is isolated; it or its clock stops; or it loses
    its disk.
    """

    for_ms: int = drawn(200, DOWN)
    server: int | None = drawn(None, Anyone())
    moment: str = drawn("quorum acked", Among((*MOMENTS, *MOMENTS[-2:])))
    nth: int = drawn(1, Short(1, 4))
    does: str = drawn("crash", Among((*DEEDS, *DEEDS[:1] * 4)))
    loss: str = drawn("lose", LOSS)


@frozen
class Pause(Lasting):
    """The process is suspended, while time passes and its peers wait."""


@frozen
class Restart(Fault):
    """The server shuts down in an orderly way, closes its log, and is started again."""

    down_ms: int = drawn(100, Short(1, 400))
    server: int = drawn(LEADER, Who())


@frozen
class RollingRestart(Fault):
    """Each server in turn ends and is started again. The next one follows `wait_ms` after the last one is back."""

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
    """A server is restarted with another setting than the others, and at the end with its own again."""

    for_ms: int = drawn(1_000, LASTING)
    server: int = drawn(1, Who())
    knob: str = drawn("tick_ms", _SETTING)
    value: int = 50


# -- the network -----------------------------------------------------------------------------------------


@frozen
class Partition(Fault):
    """Only servers with a common group reach each other. Groups that overlap make a bridge."""

    for_ms: int = drawn(500, LASTING)
    groups: tuple[tuple[int, ...], ...] = drawn(((),), Groups())


@frozen
class Split(Fault):
    """A partition with a shape for any number of servers, rotated to begin at the given server."""

    for_ms: int = drawn(500, LASTING)
    shape: str = drawn("halves", Among(SHAPES))
    server: int = drawn(LEADER, Who())


@frozen
class Isolate(Lasting):
    """No message reaches the server, and none of its messages arrives."""


@frozen
class Apart(Between):
    """Two servers cannot reach each other; all others reach both."""


@frozen
class OneWay(Between):
    """Messages from `source` do not reach `target`; the other direction works."""


@frozen
class Deaf(Lasting):
    """The server sends, but no message reaches it."""


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
class Delay(Between):
    """Messages from `source` to `target` take `more_ms` longer."""

    more_ms: int = drawn(20, Short(1, 150))


@frozen
class Loss(Between):
    """This share of the messages in one direction is lost. A stream sends them again; the election channel does not."""

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
    """This share of the messages of the election channel is held back for `hold_ms`, and overtaken by later ones."""

    for_ms: int = drawn(500, LASTING)
    percent: int = drawn(30, Upto(5, 70))
    hold_ms: int = drawn(100, Short(1, 400))


@frozen
class CutLinks(Fault):
    """All links of the server break. They can be dialled again at once."""

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
class ClockFreeze(Lasting):
    """The server's monotonic clock stops, and later continues from there. The process continues to run."""


@frozen
class ClockStep(Fault):
    """The server's wall clock is set to a wrong time, and keeps the difference."""

    server: int = drawn(LEADER, Who())
    by_ms: int = drawn(60_000, Among((-3_600_000, -500, 500, 60_000)))


@frozen
class ClockSkew(Fault):
    """The server's wall clock is wrong by `by_ms`, and then right again."""

    for_ms: int = drawn(1_000, LASTING)
    server: int = drawn(LEADER, Who())
    by_ms: int = drawn(-60_000, Among((-60_000, -200, 200, 3_600_000)))


@frozen
class ClockStrobe(Lasting):
    """The server's wall clock jumps forth and back repeatedly."""

    by_ms: int = drawn(1_000, Among((-1_000, 10, 1_000)))
    every_ms: int = drawn(20, Short(5, 200))


# -- disks: durable data is removed only if the other servers have it -------------------------------------


@frozen
class LoseDisk(Ending):
    """The server crashes and comes back with an empty disk."""


@frozen
class OldDisk(Fault):
    """The disk is copied. At the end the server crashes, and comes back with the copy."""

    for_ms: int = drawn(300, Short(10, 800))
    down_ms: int = drawn(100, DOWN)
    server: int = drawn(LEADER, Who())


@frozen
class FlipBit(Ending):
    """The server crashes, one bit of its disk flips, and it comes back. `where` is in thousandths."""

    where: int = drawn(500, Upto(0, 999))


@frozen
class MisdirectRecord(Ending):
    """The server crashes, and a record of its log has been written to the wrong place. `where` is in thousandths."""

    where: int = drawn(999, Upto(0, 999))


@frozen
class LoseFsync(Fault):
    """fsync reports success but does nothing. At the end the machine loses its power."""

    for_ms: int = drawn(200, Short(5, 600))
    down_ms: int = drawn(100, DOWN)
    server: int = drawn(LEADER, Who())
    loss: str = drawn("lose", LOSS)


@frozen
class FailDisk(Ending):
    """The n-th call from then on fails with this error. The server must stop; it is started again later."""

    error: str = drawn("fsync", Among(DISK_ERRORS))
    nth: int = drawn(1, Short(1, 8))


@frozen
class FullDisk(Lasting):
    """The disk has `room` free bytes. The server must stop when they are used, and cannot start for `for_ms`."""

    room: int = drawn(100, Short(0, 800))


@frozen
class SlowDisk(Lasting):
    """Every write and fsync takes `slower` times as long."""

    slower: int = drawn(20, Upto(2, 60))


WEIGHTS: Final[Mapping[type[Fault], float]] = {
    Crash: 3.0, CrashAll: 1.0, CrashIn: 2.0, When: 4.0, Pause: 1.0, Restart: 0.7, RollingRestart: 0.4, Setting: 0.4,
    Partition: 1.5, Split: 1.0, Isolate: 2.0, Apart: 0.7, OneWay: 1.0, Deaf: 0.7, Clog: 1.5, Swizzle: 0.7,
    Overflow: 0.7, Delay: 0.5, Loss: 0.5, Flaky: 0.7, Reorder: 0.5, CutLinks: 1.0, DoubleLinks: 0.5,
    ClockDrift: 0.5, ClockFreeze: 0.5, ClockStep: 0.3, ClockSkew: 0.3, ClockStrobe: 0.3,
    LoseDisk: 1.0, OldDisk: 0.7, FlipBit: 1.0, MisdirectRecord: 0.7, LoseFsync: 0.7, FailDisk: 0.7, FullDisk: 0.5,
    SlowDisk: 0.7,
}  # fmt: skip
"""The weights of the faults: for the choice of the kinds in a script, and for each fault of that script."""

KINDS: Final = kinds(WEIGHTS)
FAULTS: Final[tuple[type[Fault], ...]] = tuple(WEIGHTS)
