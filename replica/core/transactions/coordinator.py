"""The coordinator of transactions on one broker: which of them are its own, and what everybody hears who asks.

    coordinator.elected(partition, epoch)         # this broker leads a partition of the topic of transactions: load it
    coordinator.step(ticket, ask, now)            # somebody asks
    coordinator.appended(append.id, NONE, offset, now)
    coordinator.marked(marker.number, where, now)
    coordinator.tick(now)                         # not before `coordinator.deadline`
    ready = coordinator.ready()                   # after any of these: what to do now

A transactional id lives in the partition of the topic that its name falls into, and its coordinator is that partition's
leader. Everything that must outlast a coordinator stands there: nobody is told of anything, and no partition of the end
of a transaction, before every replica in sync has the record of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from kraft_controller.core.names import TopicPartition
from replica.core.coordinating import TopicCoordinator, taken
from replica.core.transactions import ending
from replica.core.transactions.desk import Desk, E, Settings
from replica.core.transactions.messages import (
    NO_EPOCH,
    AddPartitions,
    Ask,
    Describe,
    Described,
    Done,
    End,
    Init,
    Initialized,
    Listed,
    ListedTransaction,
    ListTransactions,
    NeedsId,
    Ticket,
)
from replica.core.transactions.ready import (
    Forgotten,
    Load,
    Loaded,
    MarkerId,
    Ready,
    Saved,
    TxnRecord,
    Unloaded,
)
from replica.core.transactions.states import AT_REST, PREPARED, TxnState
from replica.core.transactions.transaction import Transaction

S = TxnState


class Coordinator(TopicCoordinator[Ask, Transaction, dict[str, Saved]]):
    def __init__(self, settings: Settings, now: int) -> None:
        self._desk = Desk(settings)
        super().__init__(self._desk, dict)
        self._next_abort_check = now + settings.abort_check_ms
        self._next_expiry_check = now + settings.expiry_check_ms

    # -- whose transactions ------------------------------------------------------------------------------

    def replay(self, load: Load, record: TxnRecord) -> None:
        """Found in the topic, in the order in which it stands there."""
        found = self._found(load)
        if found is None:
            return
        if record.saved is None:
            found.pop(record.id, None)
        else:
            found[record.id] = record.saved

    def loaded(self, load: Load, now: int) -> None:
        """What was decided goes on from there."""
        found = self._found(load)
        if found is None:
            return
        made = {name: Transaction(name, load.partition, saved) for name, saved in found.items()}
        epoch = self._serve(load, made)
        decided = [transaction for transaction in made.values() if transaction.state in PREPARED]
        self._desk.note(Loaded(load.partition, epoch, len(made), len(decided)))
        for transaction in decided:
            ending.spread(self._desk, transaction, now)

    def _lost(self, partition: int, things: dict[str, Transaction], now: int) -> None:
        desk = self._desk
        for number in [number for number, transaction in desk.marking.items() if transaction.partition == partition]:
            del desk.marking[number]
        for place in [place for place in desk.again if place[0] == partition]:
            del desk.again[place]
        desk.note(Unloaded(partition, len(things)))

    # -- who asks ----------------------------------------------------------------------------------------

    def step(self, ticket: Ticket, ask: Ask, now: int) -> None:
        match ask:
            case Init():
                self._on_init(ticket, ask, now)
            case AddPartitions(who):
                found = self._sought(who.id)
                if isinstance(found, Transaction):
                    self._on_add(found, ticket, ask, now)
                else:
                    self._desk.answer(ticket, Done(E.INVALID_PRODUCER_ID_MAPPING if found is None else found))
            case End(who):
                found = self._sought(who.id)
                if isinstance(found, Transaction):
                    ending.on_end(self._desk, found, ticket, ask, now)
                else:
                    self._desk.answer(ticket, Done(E.INVALID_PRODUCER_ID_MAPPING if found is None else found))
            case Describe(name):
                found = self._sought(name)
                if isinstance(found, Transaction):
                    self._desk.answer(ticket, found.described())
                else:
                    self._desk.answer(ticket, Described(E.TRANSACTIONAL_ID_NOT_FOUND if found is None else found))
            case ListTransactions():
                self._desk.answer(ticket, self._listed(ask, now))

    def _sought(self, name: str) -> Transaction | E | None:
        """Or why nothing can be said of it here and now; None: nobody has this name."""
        error = self._not_here(name) if name else E.INVALID_REQUEST
        return self._find(name) if error is None else error

    def _on_init(self, ticket: Ticket, ask: Init, now: int) -> None:
        desk = self._desk
        found = self._sought(ask.id)
        if ask.id and not 0 < ask.timeout_ms <= desk.settings.max_timeout_ms:
            found = E.INVALID_TRANSACTION_TIMEOUT
        if isinstance(found, E):
            desk.answer(ticket, Initialized(found))
            return
        if found is None:
            if ask.fresh is None:
                desk.answer(ticket, NeedsId())
                return
            found = self._make(ask.id, ask.fresh, ask.timeout_ms, now)
        if found.pending is not None or found.state in PREPARED:
            desk.answer(ticket, Initialized(E.CONCURRENT_TRANSACTIONS))
        elif not found.knows(ask.expected):
            desk.answer(ticket, Initialized(E.PRODUCER_FENCED))
        elif found.state is S.ONGOING:
            # Of one who came before. He comes again, until it is aborted everywhere.
            ending.fence(
                desk,
                found,
                now,
                lambda error: desk.answer(ticket, Initialized(error or E.CONCURRENT_TRANSACTIONS)),
            )
        else:
            self._begin_anew(found, ticket, ask, now)

    def _make(self, name: str, producer: int, timeout_ms: int, now: int) -> Transaction:
        partition = self._place(name)
        made = Transaction(name, partition, Saved(producer, NO_EPOCH, timeout_ms, S.EMPTY, updated_ms=now))
        self._here[partition][name] = made
        return made

    def _begin_anew(self, transaction: Transaction, ticket: Ticket, ask: Init, now: int) -> None:
        desk = self._desk
        if not transaction.needs_id(ask.expected):
            after = transaction.bumped(ask.expected, ask.timeout_ms, now)
        elif ask.fresh is None:
            desk.answer(ticket, NeedsId())
            return
        else:
            after = transaction.rotated(ask.fresh, ask.expected, ask.timeout_ms, now)
        if after is None:
            desk.answer(ticket, Initialized(E.PRODUCER_FENCED))
            return
        given = Initialized(E.NONE, after.saved.producer, after.saved.epoch)

        def done(error: E, _: int) -> None:
            desk.answer(ticket, given if error is E.NONE else Initialized(error))

        desk.write(transaction, after, now, done)

    def _on_add(self, transaction: Transaction, ticket: Ticket, ask: AddPartitions, now: int) -> None:
        error = transaction.refusal(ask.who)
        if error is None and transaction.state in PREPARED:
            error = E.CONCURRENT_TRANSACTIONS
        if error is None and transaction.state is S.ONGOING and ask.partitions <= set(transaction.now.partitions):
            error = E.NONE  # they are there: his answer was lost, or he does not remember
        if error is not None:
            self._desk.answer(ticket, Done(error))
            return

        def done(error: E, _: int) -> None:
            self._desk.answer(ticket, Done(error))

        self._desk.write(transaction, transaction.with_partitions(ask.partitions, now), now, done)

    def _listed(self, ask: ListTransactions, now: int) -> Listed:
        if self.partitions is None:
            return Listed(E.COORDINATOR_NOT_AVAILABLE)
        if self._loading:
            return Listed(E.COORDINATOR_LOAD_IN_PROGRESS)
        found = (
            ListedTransaction(each.id, each.now.producer, each.state)
            for each in sorted(self.transactions(), key=lambda each: each.id)
            if (not ask.states or each.state in ask.states)
            and (not ask.producers or each.now.producer in ask.producers)
            and (ask.longer_than_ms < 0 or now - each.now.started_ms > ask.longer_than_ms)
        )
        return Listed(E.NONE, tuple(found))

    # -- looking -----------------------------------------------------------------------------------------

    def transactions(self) -> Iterator[Transaction]:
        """For metrics and tests. To be looked at only."""
        return self._all()

    # -- what comes of markers, and of waiting -----------------------------------------------------------

    def awaits_marks(self, number: MarkerId) -> bool:
        """Whether it is still our business to tell partitions of this end."""
        return number in self._desk.marking

    def marked(self, number: MarkerId, where: TopicPartition, now: int) -> None:
        """It is in that partition, and safe; or there is no such partition any more."""
        ending.marked(self._desk, number, where, now)

    def refused(self, number: MarkerId, where: TopicPartition, error: E) -> None:
        """That partition does not take it from us, and will not."""
        ending.refused(self._desk, number, where, error)

    @property
    def deadline(self) -> int:
        return min(self._next_abort_check, self._next_expiry_check, *self._desk.again.values())

    def tick(self, now: int) -> None:
        for (partition, name), when in list(self._desk.again.items()):
            if when <= now:
                ending.complete(self._desk, self._here[partition][name], now)
        if now >= self._next_abort_check:
            self._next_abort_check = now + self._desk.settings.abort_check_ms
            for transaction in self.transactions():
                ending.abort_overdue(self._desk, transaction, now)
        if now >= self._next_expiry_check:
            self._next_expiry_check = now + self._desk.settings.expiry_check_ms
            self._forget_the_old(now)

    def _forget_the_old(self, now: int) -> None:
        settings = self._desk.settings
        old = [
            each
            for each in self.transactions()
            if each.state in AT_REST and each.pending is None and now - each.now.updated_ms >= settings.id_expiration_ms
        ]
        for each in old[: settings.forgotten_at_once]:
            self._forget(each, now)

    def _forget(self, transaction: Transaction, now: int) -> None:
        def done(error: E, _: int) -> None:
            if error is E.NONE:
                del self._here[transaction.partition][transaction.id]
                self._desk.note(Forgotten(transaction.id))

        self._desk.bury(transaction, now, done)

    # -- what to do --------------------------------------------------------------------------------------

    def ready(self) -> Ready:
        """All that came up since the last call."""
        desk = self._desk
        return Ready(
            taken(desk.answers), taken(desk.appends), taken(desk.loads), taken(desk.notes), taken(desk.markers)
        )
