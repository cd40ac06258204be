"""Random legal histories: a few logs, and clients that see them in all allowed ways.

Producers are idempotent or not; their replies are lost, their records written late or twice. Consumers seek, are
reassigned, end, and report their positions or not. Commits of groups take effect late, or never, and members rebalance
repeatedly. Clients delete records, and disks lose the end of a log.
"""

from __future__ import annotations

from random import Random

from attrs import define, field

from harness.checkers.records.history import (
    ALL,
    NO_GENERATION,
    NOBODY,
    NOWHERE,
    POSITIONS,
    Acked,
    Assigned,
    Committed,
    Committing,
    Ended,
    Event,
    Failed,
    Found,
    History,
    Looking,
    Place,
    Polled,
    Record,
    Sent,
    Sought,
    Span,
    Trimmed,
    Undone,
    Unknown,
)

GROUP = "g"
SHARED = "m"
MEMBER = 40
TRIMMER = 50
POLL_MAX = 5


@define(eq=False)
class _Sending:
    sent: Sent
    offset: int = NOWHERE
    dropped: bool = False
    """True if the record will never be written."""


@define(eq=False)
class _Pending:
    call: Committing
    counts: bool = False
    answered: bool = False


@define(eq=False)
class _Maker:
    chance: Random
    now: int = 0
    calls: int = 0
    events: list[Event] = field(factory=list)
    logs: dict[str, dict[int, str]] = field(factory=dict)
    ends: dict[str, int] = field(factory=dict)
    sending: list[_Sending] = field(factory=list)
    """The sends without a reply, or not written yet."""
    late: list[_Sending] = field(factory=list)
    """The sends with an unknown outcome, which may still be written."""
    consumers: dict[int, dict[str, int]] = field(factory=dict)
    producers: dict[int, int] = field(factory=dict)
    """The producer number of each client; 0: not idempotent."""
    committed: dict[str, int] = field(factory=dict)
    committing: list[_Pending] = field(factory=list)
    sharing: Random = field(factory=Random)
    losing: Random = field(factory=Random)
    members: dict[int, dict[str, int]] = field(factory=dict)
    shared: dict[str, int] = field(factory=dict)
    generation: int = 0

    def later(self) -> int:
        self.now += self.chance.randint(1, 9)
        return self.now

    def call(self) -> int:
        self.calls += 1
        return self.calls

    # -- producers ---------------------------------------------------------------------------------

    def send(self) -> None:
        client = self.chance.choice(list(self.producers))
        producer = self.producers[client]
        acks = ALL if producer else self.chance.choice((ALL, ALL, 1))
        partition = self.chance.choice(list(self.logs))
        call = self.call()
        sent = Sent(self.later(), client, call, partition, f"v{call}", acks, producer)
        self.events.append(sent)
        self.sending.append(_Sending(sent))

    def write(self) -> None:
        """Write a waiting record. Those of an idempotent producer are written in the order of sending."""
        waiting = [each for each in (*self.sending, *self.late) if each.offset == NOWHERE and not each.dropped]
        if not waiting:
            return
        each = self.chance.choice(waiting)
        sent = each.sent
        if sent.producer:
            each = min(
                (
                    other
                    for other in waiting
                    if (other.sent.producer, other.sent.partition) == (sent.producer, sent.partition)
                ),
                key=lambda other: other.sent.call,
            )
        if self.chance.random() < 0.15 or (each.sent.acks == 1 and self.chance.random() < 0.5):
            each.dropped = True
            return
        each.offset = self._append(each.sent.partition, each.sent.value)
        if not each.sent.producer and self.chance.random() < 0.1:
            self._append(each.sent.partition, each.sent.value)

    def _append(self, partition: str, value: str) -> int:
        if self.chance.random() < 0.1:
            self.ends[partition] += 1  # an offset without a record
        offset = self.ends[partition]
        self.logs[partition][offset] = value
        self.ends[partition] += 1
        return offset

    def answer(self) -> None:
        waiting = [
            each for each in self.sending if each.offset != NOWHERE or each.dropped or self.chance.random() < 0.1
        ]
        if not waiting:
            return
        each = self.chance.choice(waiting)
        self.sending.remove(each)
        sent = each.sent
        if each.offset != NOWHERE and self.chance.random() < 0.8:
            reported = each.offset if self.chance.random() < 0.9 else NOWHERE
            self.events.append(Acked(self.later(), sent.client, sent.call, reported))
        elif each.dropped and sent.acks == 1:
            self.events.append(Acked(self.later(), sent.client, sent.call, self.ends[sent.partition]))
        elif each.dropped and self.chance.random() < 0.5:
            self.events.append(Failed(self.later(), sent.client, sent.call, "REFUSED"))
        else:
            if self.chance.random() < 0.8:
                self.events.append(Unknown(self.later(), sent.client, sent.call))
            self.late.append(each)

    # -- consumers ---------------------------------------------------------------------------------

    def poll(self, client: int | None = None, most: int = POLL_MAX) -> None:
        client = self.chance.choice(list(self.consumers)) if client is None else client
        places = self.consumers[client]
        asked = self.later()
        records: list[Record] = []
        spans: list[Span] = []
        for partition, start in places.items():
            end = min(start + self.chance.randint(0, most), self.ends[partition])
            log = self.logs[partition]
            found = [Record(partition, offset, log[offset]) for offset in range(start, end) if offset in log]
            if self.chance.random() < 0.7:
                spans.append(Span(partition, start, end))
            elif found:
                end = found[-1].offset + 1
            else:
                continue
            records += found
            places[partition] = end
        self.chance.shuffle(spans)
        self.events.append(Polled(self.later(), client, asked, tuple(records), tuple(spans)))

    def move(self) -> None:
        client = self.chance.choice(list(self.consumers))
        places = self.consumers[client]
        partition = self.chance.choice(list(places))
        offset = places[partition] = self.chance.randint(0, self.ends[partition])
        reported = offset if self.chance.random() < 0.8 else NOWHERE
        self.events.append(Sought(self.later(), client, partition, reported))

    def assign(self) -> None:
        client = self.chance.choice(list(self.consumers))
        before = self.consumers[client]
        chosen = self.chance.sample(list(self.logs), self.chance.randint(1, len(self.logs)))
        kept = [partition for partition in chosen if partition in before and self.chance.random() < 0.5]
        begins = {
            partition: self.chance.randint(0, self.ends[partition]) for partition in chosen if partition not in kept
        }
        reported = tuple(
            Place(partition, offset if self.chance.random() < 0.8 else NOWHERE) for partition, offset in begins.items()
        )
        self.consumers[client] = {**{partition: before[partition] for partition in kept}, **begins}
        self.events.append(Assigned(self.later(), client, reported, tuple(kept)))

    def end(self) -> None:
        client = self.chance.choice(list(self.consumers))
        self.events.append(Ended(self.later(), client))
        self.consumers[client] = dict.fromkeys(self.logs, 0)

    # -- groups ------------------------------------------------------------------------------------

    def commit(self) -> None:
        client = self.chance.choice(list(self.consumers))
        places = tuple(Place(partition, offset) for partition, offset in self.consumers[client].items())
        call = Committing(self.later(), client, self.call(), GROUP, places)
        self.events.append(call)
        self.committing.append(_Pending(call))

    def settle(self) -> None:
        """Let a commit take effect, or answer it."""
        if not self.committing:
            return
        pending = self.chance.choice(self.committing)
        if not pending.counts and (pending.answered or self.chance.random() < 0.8):
            pending.counts = True
            self.committed |= dict(pending.call.places)
            if pending.answered:
                self.committing.remove(pending)
            return
        call = pending.call
        if pending.counts:
            kind = Committed if self.chance.random() < 0.8 else Unknown
            self.events.append(kind(self.later(), call.client, call.call))
            self.committing.remove(pending)
        elif not pending.answered and self.chance.random() < 0.5:
            self.events.append(Unknown(self.later(), call.client, call.call))
            pending.answered = True
        elif not pending.answered:
            self.events.append(Failed(self.later(), call.client, call.call, "ILLEGAL_GENERATION"))
            self.committing.remove(pending)

    def look(self) -> None:
        client = self.chance.choice(list(self.consumers))
        looking = Looking(self.later(), client, self.call(), GROUP, tuple(self.logs))
        self.events.append(looking)
        places = tuple(Place(partition, self.committed.get(partition, NOWHERE)) for partition in self.logs)
        if self.chance.random() < 0.5:
            self.settle()  # during the fetch
        if self.chance.random() < 0.9:
            self.events.append(Found(self.later(), client, looking.call, places))

    # -- members of a group ------------------------------------------------------------------------

    def share(self) -> None:
        """Rebalance the group. Members that leave may not have committed their last records, which are read again."""
        chance = self.sharing
        for member in self.members:
            if chance.random() < 0.5:
                self.member_commits(member)
        self.members = {member: {} for member in chance.sample((MEMBER, MEMBER + 1, MEMBER + 2), chance.randint(1, 3))}
        self.generation += 1
        for partition in self.logs:
            self.members[chance.choice(list(self.members))][partition] = self.shared.get(partition, 0)
        for member, given in self.members.items():
            begins = tuple(Place(*each) for each in given.items())
            generation = NO_GENERATION if chance.random() < 0.1 else self.generation
            self.events.append(Assigned(self.later(), member, begins, (), SHARED, generation))

    def member_reads(self) -> None:
        for member, places in self.members.items():
            for partition, start in list(places.items()):
                end = min(start + self.sharing.randint(0, POLL_MAX), self.ends[partition])
                log = self.logs[partition]
                found = [Record(partition, offset, log[offset]) for offset in range(start, end) if offset in log]
                asked = self.later()
                self.events.append(Polled(self.later(), member, asked, tuple(found), (Span(partition, start, end),)))
                places[partition] = end

    def member_commits(self, member: int) -> None:
        places = tuple(Place(*each) for each in self.members[member].items())
        call = Committing(self.later(), member, self.call(), SHARED, places)
        self.shared |= dict(places)
        self.events += (call, Committed(self.later(), member, call.call))

    # -- losses ------------------------------------------------------------------------------------

    def trim(self) -> None:
        """Delete records. A consumer within the deleted range continues after it."""
        partition = self.losing.choice(list(self.logs))
        upto = self.losing.randint(0, self.ends[partition])
        self.events.append(Trimmed(self.later(), TRIMMER, partition, upto))
        if self.losing.random() < 0.8:
            log = self.logs[partition]
            self.logs[partition] = {offset: value for offset, value in log.items() if offset >= upto}
            for client, places in self.consumers.items():
                if partition in places and places[partition] < upto and self.losing.random() < 0.5:
                    places[partition] = upto
                    if self.losing.random() < 0.5:
                        self.events.append(Sought(self.later(), client, partition, upto))

    def undo(self) -> None:
        """Lose the end of a log. Unanswered sends are repeated, and consumers beyond the end move to it."""
        partition = self.losing.choice(list(self.logs))
        end = self.ends[partition] = self.losing.randint(0, self.ends[partition])
        self.logs[partition] = {offset: value for offset, value in self.logs[partition].items() if offset < end}
        for each in self.sending:
            if each.sent.partition == partition and each.offset >= end:
                each.offset = NOWHERE
        for places in (*self.consumers.values(), *self.members.values(), self.shared):
            if partition in places:
                places[partition] = min(places[partition], end)
        self.events.append(Undone(self.later(), NOBODY, partition))

    def forget(self) -> None:
        """Lose committed offsets. Unanswered commits never take effect."""
        self.committed.clear()
        self.shared.clear()
        self.committing = [pending for pending in self.committing if not pending.counts]
        self.events.append(Undone(self.later(), NOBODY, f"{POSITIONS}0"))

    # -- the end -----------------------------------------------------------------------------------

    def read_all(self) -> None:
        reader = 1 + max((*self.consumers, *self.producers))
        self.consumers[reader] = dict.fromkeys(self.logs, 0)
        while any(self.consumers[reader][partition] < end for partition, end in self.ends.items()):
            self.poll(reader, 40)


def legal(seed: int, *, steps: int = 60, lossy: bool = False) -> History:
    """Return a legal history. `lossy`: with DeleteRecords requests and lost disks."""
    chance = Random(f"records/{seed}")
    partitions = [f"t-{number}" for number in range(chance.randint(1, 3))]
    maker = _Maker(chance, sharing=Random(f"members/{seed}"), losing=Random(f"losses/{seed}"))
    maker.logs = {partition: {} for partition in partitions}
    maker.ends = dict.fromkeys(partitions, 0)
    maker.producers = {client: client * chance.randint(0, 1) for client in range(1, chance.randint(2, 4))}
    maker.consumers = {client: dict.fromkeys(partitions, 0) for client in range(11, chance.randint(12, 14))}
    acts = (
        *[maker.send] * 6, *[maker.write] * 7, *[maker.answer] * 6, *[maker.poll] * 6, *[maker.settle] * 3,
        maker.move, maker.assign, maker.commit, maker.commit, maker.look, maker.look,
    )  # fmt: skip
    for _ in range(steps):
        chance.choice(acts)()
        if maker.sharing.random() < 0.2:
            maker.sharing.choice((maker.share, maker.member_reads, maker.member_reads))()
        if chance.random() < 0.01:
            maker.end()
        if lossy and maker.losing.random() < 0.05:
            maker.losing.choice((maker.trim, maker.trim, maker.undo, maker.forget))()
    complete = chance.random() < 0.6
    if complete:
        maker.read_all()
    return History(tuple(maker.events), complete)
