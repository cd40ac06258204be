"""Profiles of partitions: leaders and their epochs, ISRs, logs, groups and transactions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from attrs import evolve

from harness import faults
from harness.profiles.profile import TICK, Profile, exactly
from harness.script.brokers import BROKERS_MAX
from harness.script.names import PARTS, TRANSACTIONS
from harness.script.values import Draw, Upto

# Brokers are 1 to 3, and most profiles have one partition, with a replica on each of them.


def _truncation(draw: Draw) -> str:
    return "fetched" if draw.chance(0.5) else "asked"


def _partition(
    truncation: str,
    lag_ms: int,
    *,
    replicas: int = 3,
    retention_bytes: int = 0,
    retention_ms: int = 0,
    timeout_ms: int = 300,
) -> list[faults.Op]:
    return [
        faults.Replication(0, "cache", truncation, "leader", 1, lag_ms, retention_bytes, retention_ms, timeout_ms),
        faults.CreateTopic(400, 1, 1, replicas),
        faults.Consume(550, 1, 1, 0),
    ]


def _produce(at: int, client: int, count: int, acks: str = "one") -> faults.Produce:
    return faults.Produce(at, client, 1, 0, count, acks)


def _elect(at: int) -> faults.ElectPreferred:
    return faults.ElectPreferred(at, 1, 0, "call")


def _lead(draw: Draw, at: int, broker: int, least: int = 15, most: int = 30) -> list[faults.Op]:
    """Make the broker the preferred leader, and elect it `least` to `most` ms later."""
    return [faults.Reassign(at, 1, 0, broker, 3, "call"), _elect(at + draw.upto(least, most))]


def _isolated(at: int, for_ms: int, broker: int) -> list[faults.Op]:
    """Disconnect the broker from both others."""
    return [faults.PartBrokers(at, for_ms, broker, other) for other in (1, 2, 3) if other != broker]


OTHER_CONTROLLER: Final = [faults.BounceBroker(600 + 10 * each, each) for each in (1, 2, 3)]
"""Restarts after which the leader is not the controller."""


# -- leaders and epochs ----------------------------------------------------------------------------------


def leaders_change(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    """Let leaders fail, be cut off, or return their leadership, so that the next ones lack a few records."""
    truncation = _truncation(draw)
    ops = _partition(truncation, draw.upto(100, 200))
    if draw.chance(0.3):
        ops.append(faults.AllowUnclean(500, 1))
    quick = draw.upto(12, 40)
    for at in range(600, length_ms - 20, quick):
        ops.append(_produce(at, draw.upto(1, 3), draw.short(1, 3), "one" if draw.chance(0.6) else "all"))
    at, last = 750, length_ms - 50
    while at < length_ms - 100:
        who, share = draw.upto(1, 3), draw.random.random()
        if share < 0.3:
            ops.append(faults.BounceBroker(at, who))
            if draw.chance(0.6):
                ops.append(_elect(min(last, at + draw.upto(60, 350))))
        elif share < 0.45:
            cut = draw.upto(120, 400)
            ops.append(faults.CutBroker(at, cut, who))
            if draw.chance(0.6):  # another broker restarts when this one is back
                ops.append(faults.BounceBroker(min(last, at + cut + draw.upto(-5, 30)), who % 3 + 1))
        elif share < 0.6:
            ops.append(faults.PartBrokers(at, draw.upto(50, 300), who, who % 3 + 1))
        elif share < 0.7:
            ops.append(faults.LoseController(at, draw.upto(50, 400), who))
        elif share < 0.8:
            ops.append(faults.PauseBroker(at, draw.upto(50, 600), who))
        elif share < 0.9:
            ops.append(faults.KillBroker(at, draw.upto(1, 300), who))
        else:
            ops.append(faults.LosePower(at, draw.upto(1, 300), who, "tear"))
        at += draw.upto(40, 260)
    return ops


def replica_returns(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    """Return rounds in which broker 1 leads first. A replica must not count for a while after its return."""
    truncation = _truncation(draw)
    lag = draw.upto(100, 150)
    ops = _partition(truncation, lag)
    rounds = (_followers_out, _late_leader, _longer_log if truncation == "fetched" else _two_unnoticed_elections)
    for at in range(750, length_ms - 1_000, 1_100):
        ops += [_elect(at - 60), _produce(at - 20, 1, 2, "all"), *draw.among(rounds)(draw, at, lag)]
    return ops


def _followers_out(draw: Draw, at: int, lag: int) -> Sequence[faults.Op]:
    """Isolate the leader. It alone is in sync, so its records are committed, and no follower fetches them."""
    quiet = 5 * lag + draw.upto(100, 200)
    return [*_isolated(at, quiet, 1), _produce(at + 5, 2, draw.upto(1, 4))]


def _late_leader(draw: Draw, at: int, lag: int) -> Sequence[faults.Op]:
    """Let the high watermark advance without broker 3, and let broker 1 lead before it has received the advance. Broker
    2 is not notified that it no longer leads."""
    out = at + 150
    turns = out + lag + draw.upto(10, 100)
    return (
        faults.BounceBroker(at, 1),
        faults.CutBroker(out, turns - out + draw.upto(10, 80), 3),
        *(_produce(out + draw.upto(5, 30), 2, 3) for _ in range(3)),
        faults.LoseController(turns, 500, 2),
        _elect(turns + 2),
        faults.SlowBroker(turns, 400, 1, draw.upto(30, 80)),
    )


def _longer_log(draw: Draw, at: int, lag: int) -> Sequence[faults.Op]:
    """Let the former leader return with records that the present one lacks."""
    down = draw.upto(380, 500)
    return (
        *_isolated(at, 600, 1),
        _produce(at + 5, 2, draw.upto(5, 9)),
        faults.KillBroker(at + draw.upto(20, 60), down, 1),
        *(_produce(at + after, 3, 1, "all") for after in (340, 400, 450)),
        faults.SlowBroker(at + 500, 500, 2, draw.upto(30, 80)),
    )


def _two_unnoticed_elections(draw: Draw, at: int, lag: int) -> Sequence[faults.Op]:
    """Let another broker lead, then the first one again. Broker 3 is notified of neither election."""
    return (
        faults.PartBrokers(at, draw.upto(30, 60), 1, 2),
        faults.LoseController(at, draw.upto(700, 900), 3),
        _produce(at + 2, 2, 2),
        faults.BounceBroker(at + draw.upto(10, 25), 1),
        _elect(at + draw.upto(150, 350)),
        *(_produce(at + after, 3, 2) for after in range(200, 700, 40)),
    )


def diverging_epochs(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    """Let two disconnected leaders write in turn, in several epochs. All replicas are in sync when their links heal."""
    ops = _partition("asked" if draw.chance(0.7) else "fetched", 600)
    for at in range(700, length_ms - 700, draw.upto(800, 1_000)):
        turn = draw.upto(70, 110)
        ops += [
            faults.PartBrokers(at, 4 * turn + draw.upto(20, 60), one, other) for one, other in ((1, 2), (1, 3), (2, 3))
        ]
        for place in range(4):
            begin = at + place * turn
            ops += _lead(draw, begin, 1 + place % 2)
            ops.append(_produce(begin + turn - draw.upto(5, 30), 1 + place % 3, draw.upto(1, 4)))
    return ops


def durable_truncation(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    set_up, *rest = diverging_epochs(draw, length_ms)
    assert isinstance(set_up, faults.Replication)
    return [evolve(set_up, durability="before"), *rest]


def truncation_within_epoch(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    """Let broker 3 lack the last records of broker 2, truncate within that epoch, and receive the rest. Then it leads
    broker 1, which diverged before that epoch."""
    ops = _partition("asked" if draw.chance(0.5) else "fetched", 900)

    def elect(at: int, who: int) -> int:
        ops.extend(_lead(draw, at, who, 8, 14))
        return at + draw.upto(26, 34)

    def write(at: int, who: int) -> None:
        ops.append(_produce(at, who, draw.upto(1, 4)))

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
        ops.append(faults.SlowBroker(apart, at - apart, 3, draw.upto(70, 120)))
        write(at, 2)
        at = elect(at + draw.upto(120, 170), 3)
        ops += [faults.PartBrokers(alone, at - alone + draw.upto(0, 10), 1, other) for other in (2, 3)]
        write(at, 3)
    return ops


def second_term_known_only(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    """Let broker 1 lead, then broker 2, then broker 1. Broker 3 has truncated its records of the first term of broker 1,
    and has not fetched them again when all replicas in sync have them."""
    ops = _partition(_truncation(draw), 600)
    for at in range(750, length_ms - 700, draw.upto(1_100, 1_200)):
        away = at + draw.upto(50, 110)
        turn = away + draw.upto(5, 20)
        back = turn + draw.upto(110, 220)
        told = back + draw.upto(40, 100)
        ops += [faults.Reassign(at - 120, 1, 0, 1, 3, "call"), _elect(at - 90)]
        ops += [_produce(at - 40, 1, 2, "all"), _produce(at + 3, 2, draw.upto(2, 5))]
        ops.append(faults.PartBrokers(at, told - at + draw.upto(0, 50), 1, 2))
        ops.append(faults.LoseController(away, told - away + draw.upto(5, 40), 1))
        ops += _lead(draw, turn, 2)
        ops.append(faults.PartBrokers(back - draw.upto(0, 20), 500, 1, 3))
        ops += _lead(draw, back, 1)
        ops.append(faults.Resign(told))  # the next controller sends only the present state to broker 1
        ops += [_produce(told + after, 3, 1) for after in (60, 120, 180)]
    return ops


def leads_again_in_timeout(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    """Let producers wait at broker 1, which its followers do not reach. Broker 2 leads and acknowledges other records.
    Then broker 1 leads again, without its earlier records."""
    truncation = _truncation(draw)
    ops = _partition(truncation, 600, timeout_ms=draw.upto(700, 3_000))
    for number, at in enumerate(range(750, length_ms - 500, draw.upto(650, 750))):
        turn = at + draw.upto(30, 80)
        back = turn + draw.upto(150, 300)
        waits, writes = 1 + number % 2, 3
        ops += [faults.Reassign(at - 120, 1, 0, 1, 3, "call"), _elect(at - 90)]
        ops += [faults.PartBrokers(at, turn - at + draw.upto(20, 60), 1, other) for other in (2, 3)]
        ops.append(_produce(at + draw.upto(5, 25), waits, draw.upto(1, 3), "all"))
        ops += [*_lead(draw, turn, 2), _produce(turn + draw.upto(50, 120), writes, draw.upto(1, 4))]
        ops += [*_lead(draw, back, 1), _produce(back + draw.upto(50, 150), writes, draw.upto(1, 4))]
    return ops


def leader_restarts_unobserved(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    """Let broker 1 lose records and restart before there is another controller, so that none observes its failure."""
    ops = [*_partition(_truncation(draw), 600), *OTHER_CONTROLLER]
    for at in range(1_000, length_ms - 600, draw.upto(700, 900)):
        ops += [_elect(at - 120), _produce(at - draw.upto(10, 60), draw.upto(1, 3), draw.upto(1, 3), "all")]
        ops.append(faults.KillBroker(at, draw.upto(1, 400), faults.CONTROLLER))
        ops.append(faults.LosePower(at + draw.upto(2, 60), 1, 1, "lose"))
        ops += [_produce(at + after, draw.upto(1, 3), 1) for after in (100, 200, 300)]
    return ops


def last_response_lost(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    """Write to each partition once. One follower is slow, and the link of the other fails before the response with the
    high watermark, which no later response repeats."""
    ops: list[faults.Op] = [faults.Replication(0, "cache", _truncation(draw), "leader", 1, 700)]
    ops += [faults.CreateTopic(400 + 20 * topic, topic, 3, 3) for topic in (1, 2, 3)]
    places = [(topic, partition) for topic in (1, 2, 3) for partition in range(3)]
    for (topic, partition), at in zip(places, range(700, length_ms - 300, draw.upto(250, 350)), strict=False):
        leader = partition + 1
        slow, other = draw.random.sample([each for each in (1, 2, 3) if each != leader], 2)
        ops += [
            faults.SlowBroker(at - 20, draw.upto(100, 200), slow, draw.upto(20, 80)),
            faults.Produce(at, draw.upto(1, 3), topic, partition, draw.upto(1, 3), "one"),
            faults.PartBrokers(at + draw.upto(5, 80), draw.upto(50, 500), leader, other),
        ]
    return ops


# -- ISRs and reassignments ------------------------------------------------------------------------------


def reassignment_cancelled(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    """Move a partition from one broker to two, and cancel. One new replica reaches no other broker; the other one is in
    sync when the old replica fails, so it alone has the records until the cancellation."""
    ops = _partition(_truncation(draw), 300, replicas=1)
    ops += [
        _produce(at, draw.upto(1, 3), draw.upto(1, 2), "one" if draw.chance(0.5) else "all")
        for at in range(600, length_ms - 100, draw.upto(40, 80))
    ]
    was = 1
    for at in range(750, length_ms - 700, 1_100):
        first, second = was % 3 + 1, (was + 1) % 3 + 1
        goes = at + draw.upto(150, 300)
        cancels = goes + draw.upto(20, 200)
        ops += [faults.PartBrokers(at - 5, cancels - at + 100, second, other) for other in (was, first)]
        ops += [faults.Reassign(at, 1, 0, first, 2, "call"), faults.BounceBroker(goes, was)]
        if draw.chance(0.8):
            ops.append(faults.PartBrokers(goes - draw.upto(0, 10), cancels - goes + 50, was, first))
        ops.append(faults.CancelMove(cancels, 1, 0))
        ops += [faults.Reassign(cancels + after, 1, 0, was, 1, "call") for after in (300, 400)]
    return ops


def isr_request_unanswered(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    """Let broker 1 write an ISR with broker 2, receive no reply, and lose broker 2. Broker 3, which is not in sync,
    fails meanwhile, so the controller writes the state, and broker 1 must repeat its request."""
    lag = draw.upto(100, 150)
    ops = [*_partition(_truncation(draw), lag), *OTHER_CONTROLLER]
    ops += [_elect(850), faults.PartBrokers(900, length_ms - 900, 1, 3)]
    for at in range(1_200, length_ms - 400, draw.upto(600, 750)):
        asks, cut = at + draw.upto(5, 40), at + draw.upto(60, 140)
        finds = cut + lag + draw.upto(20, 80)
        ops += [_elect(at - 80), _produce(at - 40, 1, 1)]
        ops += [
            faults.BounceBroker(at, 2),
            faults.LoseStore(asks, finds - asks, 1),
            faults.CutBroker(cut, finds - cut + 150, 2),
        ]
        ops.append(faults.BounceBroker(draw.upto(at + 40, cut + 40), 3))
        ops += [_produce(cut + after, 2, 1) for after in (5, 25, 45)]
    return ops


def isr_request_delayed(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    """Let broker 1 write an ISR with broker 2. Before the store receives the write, broker 2 loses its power and its
    records that are not durable, and restarts. Then broker 1 fails, and any broker in sync may lead."""
    ops = [*_partition(_truncation(draw), 700), *OTHER_CONTROLLER]
    for at in range(950, length_ms - 1_050, 1_900):
        asks = at + 440  # its follower's lost fetch has timed out, and the next one has arrived
        ops += [_elect(before) for before in (at - 120, at - 40)]
        ops += [faults.BounceBroker(at, 2), faults.PartBrokers(at, 300, 1, 2)]
        ops += [_produce(at + 200, client, 3) for client in (1, 2)]
        ops.append(faults.SlowStore(asks - draw.upto(10, 60), 520, 1, draw.upto(132, 165)))
        ops.append(faults.LosePower(asks + draw.upto(5, 50), 1, 2, "lose"))
        ops.append(faults.PartBrokers(asks + 55, 1_200, 1, 2))
        ops.append(faults.BounceBroker(asks + draw.upto(530, 620), 1))
    return ops


# -- retention -------------------------------------------------------------------------------------------


def retention_of_uncommitted(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    """Let no follower fetch, while all are still in the ISR."""
    ops = _partition("fetched", 700, retention_bytes=600)
    for at in range(750, length_ms - 700, draw.upto(700, 900)):
        ops += [faults.PartBrokers(at, 500, who, other) for who, other in ((1, 2), (1, 3), (2, 3))]
        ops += [_produce(at + 30 * each, each, draw.upto(6, 10)) for each in (1, 2, 3)]
    return ops


def deletion_of_uncommitted(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    """Let clients delete records that no follower has fetched."""
    ops = _partition("fetched", 700)
    for at in range(750, length_ms - 700, draw.upto(700, 900)):
        ops += [faults.PartBrokers(at, 500, who, other) for who, other in ((1, 2), (1, 3), (2, 3))]
        ops += [_produce(at + 30 * each, each, draw.upto(1, 4)) for each in (1, 2, 3)]
        ops.append(faults.DeleteRecords(at + draw.upto(100, 400), 1, 0, draw.among((50, 90, 100))))
    return ops


def retention_by_age(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    ops = _partition("fetched", draw.upto(150, 400), retention_ms=draw.upto(200, 500))
    ops += [
        _produce(at, draw.upto(1, 3), draw.upto(1, 2), draw.among(("all", "one")))
        for at in range(600, length_ms - 300, draw.upto(25, 60))
    ]
    for at in range(800, length_ms - 300, draw.upto(300, 600)):
        away, who, share = draw.upto(50, 500), draw.upto(1, 3), draw.random.random()
        if share < 0.3:
            ops.append(faults.PartBrokers(at, away, who, who % 3 + 1))
        elif share < 0.6:
            ops.append(faults.CutBroker(at, away, who))
        else:
            ops.append(faults.KillBroker(at, away, who) if share < 0.8 else faults.BounceBroker(at, who))
    return ops


# -- groups and transactions -----------------------------------------------------------------------------


def _every(draw: Draw, begin: int, end: int, gap_ms: tuple[int, int]) -> Iterator[int]:
    """Yield times with gaps of different lengths. Each gap is generated after the items at its beginning."""
    while begin < end:
        yield begin
        begin += draw.upto(*gap_ms)


def coordinators_change(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    truncation = _truncation(draw)
    durability = "before" if draw.chance(0.2) else "cache"
    ops: list[faults.Op] = [
        faults.Replication(0, durability, truncation, "leader", draw.upto(1, 2), draw.upto(100, 250)),
        faults.CreateTopic(400, faults.OFFSETS, draw.upto(1, 2), 3),
    ]
    for at in range(650, length_ms - 50, draw.upto(40, 100)):
        part = draw.among(PARTS[:2])
        ops.append(
            faults.CommitPositions(at + draw.upto(0, 30), draw.upto(1, 3), draw.upto(1, 2), part, draw.upto(1, 4))
        )
    for at in _every(draw, 800, length_ms - 100, (40, 300)):
        who, place, away = draw.upto(1, 3), draw.upto(0, 1), draw.upto(50, 600)
        troubles: tuple[faults.Op, ...] = (
            faults.BounceBroker(at, who),
            faults.KillBroker(at, away, who),
            faults.LosePower(at, away, who, "tear"),
            faults.PauseBroker(at, away, who),
            faults.CutBroker(at, away, who),
            faults.PartBrokers(at, away, who, who % 3 + 1),
            faults.LoseController(at, away, who),
            faults.LoseStore(at, away, who),
            faults.SlowBroker(at, away, who, draw.upto(20, 120)),
            faults.ElectPreferred(at, faults.OFFSETS, place, "call"),
            faults.Reassign(at, faults.OFFSETS, place, who, 3, "call"),
        )
        if draw.chance(0.25):  # only the next leader has the last, uncommitted records of this one
            ops += [faults.CutBroker(at, away, who), faults.KillBroker(at + draw.upto(10, 60), away, who % 3 + 1)]
        else:
            ops.append(draw.among(troubles))
    return ops


def _offsets_topic(lag_ms: int) -> list[faults.Op]:
    return [
        faults.Replication(0, "cache", "fetched", "leader", 1, lag_ms),
        faults.CreateTopic(400, faults.OFFSETS, 1, 3),
    ]


def late_commits(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    return _commits(draw, length_ms, (30, 80), ("hasty", "hasty", "member"), 4)


def static_members_restart(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    return _commits(draw, length_ms, (40, 90), ("named", "named", "named", "member"), 5)


def _commits(
    draw: Draw, length_ms: int, every_ms: tuple[int, int], parts: Sequence[str], count_max: int
) -> Sequence[faults.Op]:
    """Return commits of several kinds of clients, in a group whose coordinator may fail."""
    ops = _offsets_topic(draw.upto(150, 250))
    for at in range(650, length_ms - 50, draw.upto(*every_ms)):
        client = draw.upto(1, len(parts))
        ops.append(faults.CommitPositions(at + draw.upto(0, 20), client, 1, parts[client - 1], draw.upto(1, count_max)))
    if draw.chance(0.5):
        ops += [faults.BounceBroker(at, draw.upto(1, 3)) for at in range(900, length_ms - 100, draw.upto(400, 800))]
    return ops


def slow_assignments(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    """Let brokers commit assignments slowly, while members join and leave."""
    ops = _offsets_topic(draw.upto(250, 400))
    for at in range(650, length_ms - 50, draw.upto(20, 60)):
        ops.append(faults.CommitPositions(at + draw.upto(0, 20), draw.upto(1, 4), 1, "member", draw.upto(1, 3)))
    for at in range(800, length_ms - 100, draw.upto(150, 300)):
        ops.append(faults.SlowBroker(at, draw.upto(100, 250), draw.upto(1, 3), draw.upto(30, 90)))
    return ops


def transactions(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    """Return transactions of two transactional ids, some open when a leader, a coordinator or a replica fails.

    They also commit offsets of groups.
    """
    ops: list[faults.Op] = [faults.Replication(0, "cache", "fetched", "leader", 2, draw.upto(200, 500))]
    ops += [faults.CreateTopic(200, TRANSACTIONS, 2, 3), faults.CreateTopic(200, faults.OFFSETS, 2, 3)]
    ops += [faults.Consume(700, partition + 1, TRANSACTIONS, partition) for partition in (0, 1)]
    for at in range(700, length_ms - 100, draw.upto(120, 220)):
        fate = draw.among(("commits", "commits", "aborts", "vanishes"))
        ops.append(faults.Transact(at + draw.upto(0, 50), draw.upto(1, 2), TRANSACTIONS, 0, 1, draw.upto(1, 2), fate))
    for at in _every(draw, 900 + draw.upto(0, 300), length_ms - 100, (400, 900)):
        who, away = draw.upto(1, 3), draw.upto(50, 500)
        troubles: tuple[faults.Op, ...] = (
            faults.BounceBroker(at, who),
            faults.KillBroker(at, away, who),
            faults.PauseBroker(at, away, who),
            faults.CutBroker(at, away, who),
            faults.PartBrokers(at, away, who, who % 3 + 1),
        )
        ops.append(draw.among(troubles))
    return ops


# -- complete brokers and their clients ------------------------------------------------------------------


def _busy(draw: Draw, until_ms: int, durability: str) -> list[faults.Op]:
    """Let all clients write to and read from one partition all the time."""
    ops: list[faults.Op] = [
        faults.Replication(0, durability, "fetched", "leader", draw.upto(1, 2), draw.upto(300, 500)),
        faults.CreateTopic(250, 1, 1, 3),
        *(faults.Consume(450, client, 1, 0) for client in (1, 2, 3)),
    ]
    return [*ops, *(_produce(at, 1 + at // 40 % 3, 2, "all") for at in range(450, until_ms, 40))]


def power_of_all_fails(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    ops = _busy(draw, length_ms, "before")
    return [
        *ops,
        faults.Blackout(draw.upto(700, length_ms - 300), draw.upto(10, 200), "lose" if draw.chance(0.5) else "tear"),
    ]


def leader_with_clients_only(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    ops = _busy(draw, length_ms, "cache")
    at, away = draw.upto(700, 1_000), draw.upto(1_200, 1_600)
    ops += [*_isolated(at, away, 1), faults.LoseStore(at, away, 1)]
    return [*ops, *(_produce(when, 1, 1) for when in range(at + 10, at + away, 60))]


def coordinators_fail_in_turn(draw: Draw, length_ms: int) -> Sequence[faults.Op]:
    """Let coordinators fail in turn when groups have committed their positions and do not commit again soon."""
    quiet = length_ms - draw.upto(1_200, 1_500)
    ops = _busy(draw, quiet, "cache")
    times = (quiet + 300, quiet + 600, quiet + 900)
    return [
        *ops,
        *(faults.KillBroker(at - draw.upto(0, 200), draw.upto(100, 300), each) for each, at in enumerate(times, 1)),
    ]


# -- the table -------------------------------------------------------------------------------------------

_profile: Final = partial(Profile, machine="partitions", brokers=3)

# fmt: off
PROFILES: Final = (
    _profile("partition-leader-changes", "the leader of a partition changes often, while producers write to it all the time",
             every_ms=(700, 1_000), ops=leaders_change),
    _profile("returning-replica", "a replica returns with missing or with extra records, and its leader's responses are slow",
             ops=replica_returns),
    _profile("diverging-leader-epochs",
             "leaders that cannot reach each other write in turn, in leader epochs that the others never receive",
             ops=diverging_epochs),
    _profile("durable-truncation",
             "a follower truncates durable records, and the records after them must be durable before they count",
             ops=durable_truncation),
    _profile("truncation-within-epoch",
             "a short-lived leader lacks the tail of the previous epoch, receives it, then leads a replica that diverged",
             ops=truncation_within_epoch),
    _profile("retention-by-size", "a leader's log exceeds its retention size, and most of it is not committed",
             ops=retention_of_uncommitted, knobs={**TICK, "segment_bytes": Upto(300, 400)}),
    _profile("retention-by-age", "retention deletes old records during writes, while followers leave and return",
             ops=retention_by_age, knobs={**TICK, "segment_bytes": Upto(300, 600)}),
    _profile("deletion-of-uncommitted", "clients delete records that are not committed", ops=deletion_of_uncommitted),
    _profile("leader-restarts-unobserved", "a leader loses records and restarts while there is no controller",
             ops=leader_restarts_unobserved, brokers=BROKERS_MAX),
    _profile("final-response-lost",
             "a follower does not receive the last high watermark of a partition, and nobody writes to the partition again",
             ops=last_response_lost),
    _profile("offset-commits", "groups commit offsets while their topic is cleaned and changes its leader often",
             ops=coordinators_change, knobs={**TICK, "segment_bytes": Upto(300, 900)}),
    _profile("broker-power-loss", "the power of all brokers fails while they write much data", ops=power_of_all_fails),
    _profile("isolated-partition-leader", "only clients can reach a leader, and no other broker can", ops=leader_with_clients_only),
    _profile("coordinator-crashes", "the coordinators of groups that commit all the time fail one after the other",
             ops=coordinators_fail_in_turn),
    _profile("leader-command-missed", "a broker leads for the second time, and receives only the second command",
             ops=second_term_known_only),
    _profile("leads-again-before-timeout", "producers wait at a leader that is deposed, and that leads again before their timeout",
             ops=leads_again_in_timeout),
    _profile("reassignment-cancelled", "a reassignment is cancelled when only its adding replicas have all records",
             ops=reassignment_cancelled),
    _profile("isr-request-unanswered",
             "the store does not reply to a leader that expands its ISR, and the controller writes the state meanwhile",
             ops=isr_request_unanswered, knobs={"tick_ms": exactly(100)}, brokers=BROKERS_MAX),
    _profile("late-offset-commits", "members join and leave, and their offset commits arrive after the next rebalance",
             ops=late_commits, knobs={**TICK, "segment_bytes": Upto(300, 900)}),
    _profile("static-member-restart", "static members restart, and their earlier requests arrive late",
             ops=static_members_restart),
    _profile("rebalance-before-assignment", "a group rebalances again before the assignment of the first rebalance is committed",
             ops=slow_assignments),
    _profile("isr-request-delayed", "a replica crashes and restarts before the store receives the ISR that includes it",
             ops=isr_request_delayed, brokers=BROKERS_MAX),
    _profile("transactions",
             "transactional producers commit, abort or just stop, while leaders and coordinators fail",
             every_ms=(1_800, 1_800), ops=transactions),
)
# fmt: on
