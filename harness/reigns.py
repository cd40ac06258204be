"""What is done to leaders of partitions and to their ISRs, in the profiles that lead to what they know of both."""

from __future__ import annotations

from collections.abc import Sequence

from harness.faults import (
    OFFSETS,
    BounceBroker,
    CancelMove,
    CommitPositions,
    Consume,
    CreateTopic,
    CutBroker,
    ElectPreferred,
    LoseController,
    LosePower,
    LoseStore,
    Op,
    PartBrokers,
    Produce,
    Reassign,
    Replication,
    Resign,
    SlowBroker,
    SlowStore,
)
from harness.script.chance import Draw


def _set_up(draw: Draw, lag: int) -> list[Op]:
    how = "fetched" if draw.chance(0.5) else "asked"
    return [Replication(0, "cache", how, "leader", 1, lag), CreateTopic(400, 1, 1, 3), Consume(550, 1, 1, 0)]


def led_before(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Broker 1 leads, somebody else, and broker 1 again, which hears of its second time only. What broker 3 had in the
    first it had to cut off, and has not got back when all that it is in sync with have it."""
    ops = _set_up(draw, 600)
    for at in range(750, length_ms - 700, draw.upto(1_100, 1_200)):
        away = at + draw.upto(50, 110)
        turn = away + draw.upto(5, 20)
        back = turn + draw.upto(110, 220)
        heard = back + draw.upto(40, 100)
        ops += [Reassign(at - 120, 1, 0, 1, 3, "call"), ElectPreferred(at - 90, 1, 0, "call")]
        ops += [Produce(at - 40, 1, 1, 0, 2, "all"), Produce(at + 3, 2, 1, 0, draw.upto(2, 5), "one")]
        ops.append(PartBrokers(at, heard - at + draw.upto(0, 50), 1, 2))
        ops.append(LoseController(away, heard - away + draw.upto(5, 40), 1))
        ops += [Reassign(turn, 1, 0, 2, 3, "call"), ElectPreferred(turn + draw.upto(15, 30), 1, 0, "call")]
        ops.append(PartBrokers(back - draw.upto(0, 20), 500, 1, 3))
        ops += [Reassign(back, 1, 0, 1, 3, "call"), ElectPreferred(back + draw.upto(15, 30), 1, 0, "call")]
        ops.append(Resign(heard))  # who comes next tells broker 1 what is, and nothing of what was
        ops += [Produce(heard + after, 3, 1, 0, 1, "one") for after in (60, 120, 180)]
    return ops


def led_again(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Producers wait at broker 1, whom the others do not reach. Broker 2 leads, and others are heard by it; then broker
    1 leads again, without what it was told before, and those who wait are still there."""
    how = "fetched" if draw.chance(0.5) else "asked"
    ops: list[Op] = [
        Replication(0, "cache", how, "leader", 1, 600, timeout_ms=draw.upto(700, 3_000)),
        CreateTopic(400, 1, 1, 3),
        Consume(550, 1, 1, 0),
    ]
    for number, at in enumerate(range(750, length_ms - 500, draw.upto(650, 750))):
        turn = at + draw.upto(30, 80)
        back = turn + draw.upto(150, 300)
        waits, writes = 1 + number % 2, 3
        ops += [Reassign(at - 120, 1, 0, 1, 3, "call"), ElectPreferred(at - 90, 1, 0, "call")]
        ops += [PartBrokers(at, turn - at + draw.upto(20, 60), 1, other) for other in (2, 3)]
        ops.append(Produce(at + draw.upto(5, 25), waits, 1, 0, draw.upto(1, 3), "all"))
        ops += [Reassign(turn, 1, 0, 2, 3, "call"), ElectPreferred(turn + draw.upto(15, 30), 1, 0, "call")]
        ops.append(Produce(turn + draw.upto(50, 120), writes, 1, 0, draw.upto(1, 4), "one"))
        ops += [Reassign(back, 1, 0, 1, 3, "call"), ElectPreferred(back + draw.upto(15, 30), 1, 0, "call")]
        ops.append(Produce(back + draw.upto(50, 150), writes, 1, 0, draw.upto(1, 4), "one"))
    return ops


def moves_taken_back(draw: Draw, length_ms: int) -> Sequence[Op]:
    """A partition moves from one broker to two, of whom the second reaches nobody. The first is in sync when the one
    where it was goes, and is alone with what is written from then on: in the moment in which the move is cancelled.
    """
    how = "fetched" if draw.chance(0.5) else "asked"
    ops: list[Op] = [Replication(0, "cache", how, "leader", 1, 300), CreateTopic(400, 1, 1, 1), Consume(550, 1, 1, 0)]
    ops += [
        Produce(at, draw.upto(1, 3), 1, 0, draw.upto(1, 2), "one" if draw.chance(0.5) else "all")
        for at in range(600, length_ms - 100, draw.upto(40, 80))
    ]
    was = 1
    for at in range(750, length_ms - 700, 1_100):
        first, second = was % 3 + 1, (was + 1) % 3 + 1
        goes = at + draw.upto(150, 300)
        cancels = goes + draw.upto(20, 200)
        ops += [PartBrokers(at - 5, cancels - at + 100, second, other) for other in (was, first)]
        ops += [Reassign(at, 1, 0, first, 2, "call"), BounceBroker(goes, was)]
        if draw.chance(0.8):
            ops.append(PartBrokers(goes - draw.upto(0, 10), cancels - goes + 50, was, first))
        ops.append(CancelMove(cancels, 1, 0))
        ops += [Reassign(cancels + after, 1, 0, was, 1, "call") for after in (300, 400)]
    return ops


def asked_in_vain(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Broker 1 leads, and has asked the store to let broker 2 in, which does not answer; then broker 2 is cut off. The
    controller writes the state meanwhile, since broker 3 goes, which is not in sync: what was asked for is asked again.
    """
    lag = draw.upto(100, 150)
    ops = _set_up(draw, lag)
    ops += [BounceBroker(600 + 10 * each, each) for each in (1, 2, 3)]  # the controller is somebody else from now on
    ops += [ElectPreferred(850, 1, 0, "call"), PartBrokers(900, length_ms - 900, 1, 3)]
    for at in range(1_200, length_ms - 400, draw.upto(600, 750)):
        asks, cut = at + draw.upto(5, 40), at + draw.upto(60, 140)
        finds = cut + lag + draw.upto(20, 80)
        ops += [ElectPreferred(at - 80, 1, 0, "call"), Produce(at - 40, 1, 1, 0, 1, "one")]
        ops += [BounceBroker(at, 2), LoseStore(asks, finds - asks, 1), CutBroker(cut, finds - cut + 150, 2)]
        ops.append(BounceBroker(draw.upto(at + 40, cut + 40), 3))
        ops += [Produce(cut + after, 2, 1, 0, 1, "one") for after in (5, 25, 45)]
    return ops


def late_commits(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Members come and go all the time, and what they commit comes when the group has been shared out anew."""
    return _commits(draw, length_ms, (30, 80), ("hasty", "hasty", "member"), 4)


def names_outlive_ids(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Members that have names are started again, and what they asked for before comes when another bears their name."""
    return _commits(draw, length_ms, (40, 90), ("named", "named", "named", "member"), 5)


def _commits(
    draw: Draw, length_ms: int, every_ms: tuple[int, int], parts: Sequence[str], count_max: int
) -> Sequence[Op]:
    """Each of the members plays its part, whenever its turn comes, in a group whose coordinators may go."""
    ops: list[Op] = [
        Replication(0, "cache", "fetched", "leader", 1, draw.upto(150, 250)),
        CreateTopic(400, OFFSETS, 1, 3),
    ]
    for at in range(650, length_ms - 50, draw.upto(*every_ms)):
        client = draw.upto(1, len(parts))
        ops.append(CommitPositions(at + draw.upto(0, 20), client, 1, parts[client - 1], draw.upto(1, count_max)))
    if draw.chance(0.5):
        ops += [BounceBroker(at, draw.upto(1, 3)) for at in range(900, length_ms - 100, draw.upto(400, 800))]
    return ops


def shares_on_the_way(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Whoever leads the group has dealt it out, brokers are slow to keep that, and somebody joins or leaves."""
    ops: list[Op] = [
        Replication(0, "cache", "fetched", "leader", 1, draw.upto(250, 400)),
        CreateTopic(400, OFFSETS, 1, 3),
    ]
    for at in range(650, length_ms - 50, draw.upto(20, 60)):
        ops.append(CommitPositions(at + draw.upto(0, 20), draw.upto(1, 4), 1, "member", draw.upto(1, 3)))
    for at in range(800, length_ms - 100, draw.upto(150, 300)):
        ops.append(SlowBroker(at, draw.upto(100, 250), draw.upto(1, 3), draw.upto(30, 90)))
    return ops


def let_in_by_what_is_over(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Broker 1 asks the store to let broker 2 in, which takes long. Meanwhile broker 2 loses its power, and what it had
    on no disk; its session ends, and it is there anew. Then broker 1 goes, and whoever is in sync may lead.
    """
    ops = _set_up(draw, 700)
    ops += [BounceBroker(600 + 10 * each, each) for each in (1, 2, 3)]  # the controller is somebody else from now on
    for at in range(950, length_ms - 1_050, 1_900):
        asks = at + 440  # it has given up the fetch that nobody heard, and says another one
        ops += [ElectPreferred(before, 1, 0, "call") for before in (at - 120, at - 40)]
        ops += [BounceBroker(at, 2), PartBrokers(at, 300, 1, 2)]
        ops += [Produce(at + 200, client, 1, 0, 3, "one") for client in (1, 2)]
        ops.append(SlowStore(asks - draw.upto(10, 60), 520, 1, draw.upto(132, 165)))
        ops.append(LosePower(asks + draw.upto(5, 50), 1, 2, "lose"))
        ops.append(PartBrokers(asks + 55, 1_200, 1, 2))
        ops.append(BounceBroker(asks + draw.upto(530, 620), 1))
    return ops
