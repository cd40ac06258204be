"""What is asked of brokers, and what is done to them, in the profiles that lead to their situations."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from harness.faults import (
    OFFSETS,
    AllowUnclean,
    Blackout,
    BounceBroker,
    CommitPositions,
    Consume,
    CreateTopic,
    CutBroker,
    DeleteTopic,
    ElectPreferred,
    GrowTopic,
    KillBroker,
    LoseController,
    LosePower,
    LoseStore,
    Op,
    PartBrokers,
    PauseBroker,
    Produce,
    Reassign,
    Replication,
    Resign,
    SlowBroker,
)
from harness.script.brokers import WAYS
from harness.script.chance import Draw
from harness.script.kinds import BROKERS_MAX, TOPICS_MAX
from harness.script.partitions import PARTS


def moves(draw: Draw, length_ms: int) -> Sequence[Op]:
    """While replicas move, or only change their order, the controller goes, which has no part in some of the moves."""
    topics, everybody = range(1, 4), draw.chance(0.3)
    factor = BROKERS_MAX if everybody else draw.upto(1, 2)
    ops: list[Op] = [CreateTopic(400, topic, 2, factor) for topic in topics]
    for at in range(800, length_ms - 400, draw.upto(700, 1_000)):
        for topic in topics:
            partition, first, later = draw.upto(0, 1), draw.upto(1, BROKERS_MAX), draw.upto(0, 10)
            ops.append(Reassign(at + later, topic, partition, first, factor, WAYS[draw.upto(0, 1)]))
        goes = at + draw.upto(8, 60)
        ops.append(Resign(goes) if draw.chance(0.2) else KillBroker(goes, draw.upto(200, 400)))
    return ops


def gone_on_arrival(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Partitions move to two others, and one of them leaves the ISR just when the other one has come in."""
    topics = range(1, 5)
    ops: list[Op] = [CreateTopic(400, topic, 1, 2) for topic in topics]
    first = 1
    for at in range(800, length_ms - 700, draw.upto(1_000, 1_200)):
        first = (first + 1) % BROKERS_MAX + 1
        second = first % BROKERS_MAX + 1
        late, early = (first, second) if draw.chance(0.5) else (second, first)
        stands = draw.upto(150, 250)
        ops += [Reassign(at, topic, 0, first, 2, "call") for topic in topics]
        ops.append(LoseController(at - 5, stands + 250 - draw.upto(0, 150), late))
        ops.append(PauseBroker(at + stands, draw.upto(350, 450), early))
    return ops


def grown_meanwhile(draw: Draw, length_ms: int) -> Sequence[Op]:
    """A topic grows just when the controller reads its node for another reason: since somebody wants it moved."""
    topics = range(1, TOPICS_MAX + 1)
    ops: list[Op] = [CreateTopic(400, topic, 1, 2) for topic in topics]
    for at in range(700, length_ms - 200, draw.upto(150, 250)):
        for topic in topics:
            ops.append(Reassign(at, topic, 0, draw.upto(1, BROKERS_MAX), draw.upto(1, 2), "call"))
            ops.append(GrowTopic(at + draw.upto(-6, 10), topic, 1))
    return ops


def unheard(draw: Draw, length_ms: int) -> Sequence[Op]:
    """What a controller has to say waits until brokers can be reached that have heard of another one."""
    ops: list[Op] = [CreateTopic(400, 1, 2, 3)]
    for at in range(800, length_ms - 400, draw.upto(900, 1_200)):
        away = draw.upto(200, 700)
        ops += [LoseController(at + draw.upto(0, 20), away + draw.upto(0, 400), broker) for broker in range(1, 5)]
        ops.append(CreateTopic(at + 30, draw.upto(2, TOPICS_MAX), 2, 3))
        ops.append(DeleteTopic(at + draw.upto(30, 300), draw.upto(1, TOPICS_MAX)))
        ops.append(LoseStore(at + draw.upto(40, 150), draw.upto(600, 1_500)))
        ops.append(CreateTopic(at + away, draw.upto(2, TOPICS_MAX), 2, 3))
    return ops


def contested(draw: Draw, length_ms: int) -> Sequence[Op]:
    """A controller is asked while it cannot reach the store, and does not hear that it is none any more."""
    ops: list[Op] = [CreateTopic(400, topic, 3, 2) for topic in (1, 2)]
    for at in range(800, length_ms - 300, draw.upto(500, 700)):
        ops.append(LoseStore(at, draw.upto(60, 180)))
        for _ in range(draw.upto(1, 3)):
            moved = draw.upto(1, 2), draw.upto(0, 2), draw.upto(1, BROKERS_MAX), draw.upto(1, 3)
            ops.append(Reassign(at + draw.upto(1, 8), *moved, "call"))
        ops.append(Resign(at + draw.upto(6, 20)))
        if draw.chance(0.5):
            ops.append(DeleteTopic(at + draw.upto(20, 60), draw.upto(1, 2)))
            ops.append(CreateTopic(at + 300, draw.upto(1, 2), 3, 2))
    return ops


def in_doubt(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Candidates lose the answers to their candidacies, and somebody else is elected meanwhile."""
    ops: list[Op] = [CreateTopic(400, topic, 2, 2) for topic in (1, 2)]
    for at in range(700, length_ms - 300, draw.upto(180, 260)):
        ops.append(Resign(at))
        away = [broker for broker in range(1, BROKERS_MAX + 1) if draw.chance(0.75)]
        ops += [LoseStore(at + draw.upto(1, 9), draw.upto(5, 60), broker) for broker in away]
    return ops


def bounced(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Brokers are killed, and back before their sessions are over: nobody sees that they were gone."""
    ops: list[Op] = [CreateTopic(400, topic, 2, 2) for topic in (1, 2)]
    for at in range(800, length_ms, draw.upto(200, 500)):
        ops.append(KillBroker(at, draw.upto(1, 20), draw.upto(1, 4)))
        ops.append(Reassign(at + draw.upto(1, 100), draw.upto(1, 2), draw.upto(0, 1), draw.upto(1, 4), 2))
    return ops


def leaders_in_turn(draw: Draw, length_ms: int) -> Sequence[Op]:
    """One partition, written all the time. Whoever leads goes, is cut off, or is told to give it back, and those who
    are about to come in are a little behind."""
    how = "fetched" if draw.chance(0.5) else "asked"
    ops: list[Op] = [
        Replication(0, "cache", how, "leader", 1, draw.upto(100, 200)),
        CreateTopic(400, 1, 1, 3),
        Consume(550, 1, 1, 0),
    ]
    if draw.chance(0.3):
        ops.append(AllowUnclean(500, 1))
    quick = draw.upto(12, 40)
    for at in range(600, length_ms - 20, quick):
        ops.append(Produce(at, draw.upto(1, 3), 1, 0, draw.short(1, 3), "one" if draw.chance(0.6) else "all"))
    at = 750
    while at < length_ms - 100:
        who, share = draw.upto(1, 3), draw.random.random()
        if share < 0.3:
            ops.append(BounceBroker(at, who))
            if draw.chance(0.6):
                ops.append(ElectPreferred(min(length_ms - 50, at + draw.upto(60, 350)), 1, 0, "call"))
        elif share < 0.45:
            cut = draw.upto(120, 400)
            ops.append(CutBroker(at, cut, who))
            if draw.chance(0.6):  # and as soon as it is back somebody else goes
                ops.append(BounceBroker(min(length_ms - 50, at + cut + draw.upto(-5, 30)), who % 3 + 1))
        elif share < 0.6:
            ops.append(PartBrokers(at, draw.upto(50, 300), who, who % 3 + 1))
        elif share < 0.7:
            ops.append(LoseController(at, draw.upto(50, 400), who))
        elif share < 0.8:
            ops.append(PauseBroker(at, draw.upto(50, 600), who))
        elif share < 0.9:
            ops.append(KillBroker(at, draw.upto(1, 300), who))
        else:
            ops.append(LosePower(at, draw.upto(1, 300), who, "tear"))
        at += draw.upto(40, 260)
    return ops


def who_comes_back(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Broker 1 is to lead at the beginning of each round. Somebody is behind, or has what the others never had, and is
    back while his leader's answers take their time: there is a while in which he must not be counted."""
    how = "fetched" if draw.chance(0.5) else "asked"
    lag = draw.upto(100, 150)
    ops: list[Op] = [Replication(0, "cache", how, "leader", 1, lag), CreateTopic(400, 1, 1, 3), Consume(550, 1, 1, 0)]
    rounds = [_few_in_sync, _heard_late, _with_a_tail if how == "fetched" else _unheard_of]
    for at in range(750, length_ms - 1_000, 1_100):
        ops += [ElectPreferred(at - 60, 1, 0, "call"), Produce(at - 20, 1, 1, 0, 2, "all")]
        ops += rounds[draw.upto(0, 2)](draw, at, lag)
    return ops


def _few_in_sync(draw: Draw, at: int, lag: int) -> Sequence[Op]:
    """What the leader has written alone is committed when the others are out, and nobody asks it for anything."""
    quiet = 5 * lag + draw.upto(100, 200)
    return PartBrokers(at, quiet, 1, 2), PartBrokers(at, quiet, 1, 3), Produce(at + 5, 2, 1, 0, draw.upto(1, 4), "one")


def _heard_late(draw: Draw, at: int, lag: int) -> Sequence[Op]:
    """More is committed because broker 3 is out, and broker 1 leads before it can have heard that; broker 2, which is
    in sync and knows, does not hear that it leads no more.
    """
    out = at + 150
    turns = out + lag + draw.upto(10, 100)
    return (
        BounceBroker(at, 1),
        CutBroker(out, turns - out + draw.upto(10, 80), 3),
        *(Produce(out + draw.upto(5, 30), 2, 1, 0, 3, "one") for _ in range(3)),
        LoseController(turns, 500, 2),
        ElectPreferred(turns + 2, 1, 0, "call"),
        SlowBroker(turns, 400, 1, draw.upto(30, 80)),
    )


def _with_a_tail(draw: Draw, at: int, lag: int) -> Sequence[Op]:
    """The leader that was comes back with more than the one that is."""
    down = draw.upto(380, 500)
    return (
        PartBrokers(at, 600, 1, 2),
        PartBrokers(at, 600, 1, 3),
        Produce(at + 5, 2, 1, 0, draw.upto(5, 9), "one"),
        KillBroker(at + draw.upto(20, 60), down, 1),
        *(Produce(at + after, 3, 1, 0, 1, "all") for after in (340, 400, 450)),
        SlowBroker(at + 500, 500, 2, draw.upto(30, 80)),
    )


def _unheard_of(draw: Draw, at: int, lag: int) -> Sequence[Op]:
    """The leader is another one and the same again, and broker 3 hears of neither."""
    return (
        PartBrokers(at, draw.upto(30, 60), 1, 2),
        LoseController(at, draw.upto(700, 900), 3),
        Produce(at + 2, 2, 1, 0, 2, "one"),
        BounceBroker(at + draw.upto(10, 25), 1),
        ElectPreferred(at + draw.upto(150, 350), 1, 0, "call"),
        *(Produce(at + after, 3, 1, 0, 2, "one") for after in range(200, 700, 40)),
    )


def epochs_apart(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Nobody reaches anybody, and two lead in turn, each writing under epochs that the other has never heard of. All of
    them are in sync when they meet again."""
    how = "asked" if draw.chance(0.7) else "fetched"
    ops: list[Op] = [Replication(0, "cache", how, "leader", 1, 600), CreateTopic(400, 1, 1, 3), Consume(550, 1, 1, 0)]
    for at in range(700, length_ms - 700, draw.upto(800, 1_000)):
        turn = draw.upto(70, 110)
        ops += [PartBrokers(at, 4 * turn + draw.upto(20, 60), one, other) for one, other in ((1, 2), (1, 3), (2, 3))]
        for place in range(4):
            begin, who = at + place * turn, 1 + place % 2
            ops += [Reassign(begin, 1, 0, who, 3, "call"), ElectPreferred(begin + draw.upto(15, 30), 1, 0, "call")]
            ops.append(Produce(begin + turn - draw.upto(5, 30), 1 + place % 3, 1, 0, draw.upto(1, 4), "one"))
    return ops


def cut_and_kept(draw: Draw, length_ms: int) -> Sequence[Op]:
    """The same where writes have to be on the disk: who cuts off what was there begins anew with what comes next."""
    set_up, *rest = epochs_apart(draw, length_ms)
    assert isinstance(set_up, Replication)
    return [evolve(set_up, durability="before"), *rest]


def cut_within_an_epoch(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Broker 3 leads for a moment and lacks what broker 2 had written last: it is cut back to within the epoch of that,
    and given the rest. Then it leads broker 1, which has parted from the others before that epoch."""
    how = "asked" if draw.chance(0.5) else "fetched"
    ops: list[Op] = [Replication(0, "cache", how, "leader", 1, 900), CreateTopic(400, 1, 1, 3), Consume(550, 1, 1, 0)]

    def elect(at: int, who: int) -> int:
        ops.extend((Reassign(at, 1, 0, who, 3, "call"), ElectPreferred(at + draw.upto(8, 14), 1, 0, "call")))
        return at + draw.upto(26, 34)

    def write(at: int, who: int) -> None:
        ops.append(Produce(at, who, 1, 0, draw.upto(1, 4), "one"))

    for begin in range(700, length_ms - 700, draw.upto(900, 1_100)):
        at = elect(begin - 60, 1) + 30
        alone = at
        write(at + draw.upto(2, 8), 1)
        at = elect(at + 12, 2)
        write(at, 2)
        at += draw.upto(20, 40)
        apart = at
        write(at + draw.upto(2, 6), 3)
        at = elect(at + draw.upto(15, 25), 3)
        write(at, 1)
        at = elect(at + draw.upto(8, 14), 2)
        ops.append(SlowBroker(apart, at - apart, 3, draw.upto(70, 120)))
        write(at, 2)
        at = elect(at + draw.upto(120, 170), 3)
        ops += [PartBrokers(alone, at - alone + draw.upto(0, 10), 1, other) for other in (2, 3)]
        write(at, 3)
    return ops


def too_long(draw: Draw, length_ms: int) -> Sequence[Op]:
    """A leader writes more than its log may hold while nobody fetches, and nobody has left the ISR for that yet."""
    ops: list[Op] = [
        Replication(0, "cache", "fetched", "leader", 1, 700, 600),
        CreateTopic(400, 1, 1, 3),
        Consume(550, 1, 1, 0),
    ]
    for at in range(750, length_ms - 700, draw.upto(700, 900)):
        ops += [PartBrokers(at, 500, who, other) for who, other in ((1, 2), (1, 3), (2, 3))]
        ops += [Produce(at + 30 * each, each, 1, 0, draw.upto(6, 10), "one") for each in (1, 2, 3)]
    return ops


def too_old(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Records are written all the time and go soon, each when it is old enough. Followers are away meanwhile."""
    ops: list[Op] = [
        Replication(0, "cache", "fetched", "leader", 1, draw.upto(150, 400), 0, draw.upto(200, 500)),
        CreateTopic(400, 1, 1, 3),
        Consume(550, 1, 1, 0),
    ]
    acks = ("all", "one")
    ops += [
        Produce(at, draw.upto(1, 3), 1, 0, draw.upto(1, 2), acks[draw.upto(0, 1)])
        for at in range(600, length_ms - 300, draw.upto(25, 60))
    ]
    for at in range(800, length_ms - 300, draw.upto(300, 600)):
        away, who, share = draw.upto(50, 500), draw.upto(1, 3), draw.random.random()
        if share < 0.3:
            ops.append(PartBrokers(at, away, who, who % 3 + 1))
        elif share < 0.6:
            ops.append(CutBroker(at, away, who))
        elif share < 0.8:
            ops.append(KillBroker(at, away, who))
        else:
            ops.append(BounceBroker(at, who))
    return ops


def positions(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Groups commit all the time, and their coordinators go, are cut off, stand still, or give their groups back."""
    how = "fetched" if draw.chance(0.5) else "asked"
    ops: list[Op] = [
        Replication(0, "before" if draw.chance(0.2) else "cache", how, "leader", draw.upto(1, 2), draw.upto(100, 250)),
        CreateTopic(400, OFFSETS, draw.upto(1, 2), 3),
    ]
    for at in range(650, length_ms - 50, draw.upto(40, 100)):
        part = PARTS[draw.upto(0, 1)]
        ops.append(CommitPositions(at + draw.upto(0, 30), draw.upto(1, 3), draw.upto(1, 2), part, draw.upto(1, 4)))
    at = 800
    while at < length_ms - 100:
        who, place = draw.upto(1, 3), draw.upto(0, 1)
        away = draw.upto(50, 600)
        troubles: tuple[Op, ...] = (
            BounceBroker(at, who),
            KillBroker(at, away, who),
            LosePower(at, away, who, "tear"),
            PauseBroker(at, away, who),
            CutBroker(at, away, who),
            PartBrokers(at, away, who, who % 3 + 1),
            LoseController(at, away, who),
            LoseStore(at, away, who),
            SlowBroker(at, away, who, draw.upto(20, 120)),
            ElectPreferred(at, OFFSETS, place, "call"),
            Reassign(at, OFFSETS, place, who, 3, "call"),
        )
        if draw.chance(0.25):  # what the one who goes has written is with the next one alone, and not committed
            ops += [CutBroker(at, away, who), KillBroker(at + draw.upto(10, 60), away, who % 3 + 1)]
        else:
            ops.append(troubles[draw.upto(0, len(troubles) - 1)])
        at += draw.upto(40, 300)
    return ops


def half_deleted(draw: Draw, length_ms: int) -> Sequence[Op]:
    """A controller goes while the nodes of a topic go, and a replica of it goes along, so the next one has to wait with
    what is left. Then somebody else comes or goes."""
    topics = range(1, TOPICS_MAX + 1)
    ops: list[Op] = [CreateTopic(400, topic, 3, 4) for topic in topics]
    for at in range(800, length_ms - 600, draw.upto(600, 800)):
        for topic in topics:
            ops += [DeleteTopic(at, topic), CreateTopic(at + 550, topic, 3, 4)]
        goes = at + draw.upto(5, 100)
        ops.append(BounceBroker(goes) if draw.chance(0.5) else KillBroker(goes, draw.upto(350, 500)))
        ops += [BounceBroker(goes + draw.upto(20, 450), draw.upto(1, 4)) for _ in range(draw.upto(1, 3))]
    return ops


# -- brokers as they are shipped, seen by their clients ----------------------------------------------------


def _busy(draw: Draw, until_ms: int, durability: str) -> list[Op]:
    """One partition, which all write and read all the time."""
    ops: list[Op] = [
        Replication(0, durability, "fetched", "leader", draw.upto(1, 2), draw.upto(300, 500)),
        CreateTopic(250, 1, 1, 3),
        *(Consume(450, client, 1, 0) for client in range(1, 4)),
    ]
    return ops + [Produce(at, 1 + at // 40 % 3, 1, 0, 2) for at in range(450, until_ms, 40)]


def power_fails(draw: Draw, length_ms: int) -> Sequence[Op]:
    """Of all at once, while much is under way to their disks."""
    ops = _busy(draw, length_ms, "before")
    return [*ops, Blackout(draw.upto(700, length_ms - 300), draw.upto(10, 200), "lose" if draw.chance(0.5) else "tear")]


def left_alone(draw: Draw, length_ms: int) -> Sequence[Op]:
    """A leader reaches neither the others nor the store, and its clients still reach it."""
    ops = _busy(draw, length_ms, "cache")
    at, away = draw.upto(700, 1_000), draw.upto(1_200, 1_600)
    ops += [PartBrokers(at, away, 1, 2), PartBrokers(at, away, 1, 3), LoseStore(at, away, 1)]
    ops += [Produce(when, 1, 1, 0, 1, "one") for when in range(at + 10, at + away, 60)]
    return ops


def coordinators_go(draw: Draw, length_ms: int) -> Sequence[Op]:
    """One after the other, when groups have committed where they are, and have no reason to do it again soon."""
    quiet = length_ms - draw.upto(1_200, 1_500)
    ops = _busy(draw, quiet, "cache")
    return [
        *ops,
        *(KillBroker(quiet + 300 * each - draw.upto(0, 200), draw.upto(100, 300), each) for each in (1, 2, 3)),
    ]
