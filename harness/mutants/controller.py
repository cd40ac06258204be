"""The controller: who may act, who may lead, and what must not be left undone."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from harness.mutants.edit import Mutant, mutant

REIGN: Final = "kraft_controller.wire.reign"
ASKING: Final = "kraft_controller.wire.asking:Asking"
CORE: Final = "kraft_controller.core"
BATCH: Final = f"{CORE}.commands:Batch"
ORDERS: Final = "kraft_controller.runtime.orders:Orders"
REPLICAS: Final = "harness.worlds.controller.replicas:Replicas"
BROKER: Final = "harness.worlds.cores.controller.broker:Broker"
LINK: Final = "harness.worlds.cores.controller.links:Link"


def _of_controllers(name: str, bug: str, *edits: tuple[str, str, str]) -> Mutant:
    return evolve(mutant(name, bug, *edits), voters=(3,), machine="controller")


MUTANTS: Final[tuple[Mutant, ...]] = (
    # -- who may act -----------------------------------------------------------------------------------
    _of_controllers(
        "controller-not-fenced",
        "a controller writes without asking whether another one has been elected",
        (
            f"{REIGN}:Fence.__init__",
            "self._check = Check(znodes.CONTROLLER_EPOCH, version)",
            "self._check = Check(znodes.CONTROLLER_EPOCH, Version(-1))",
        ),
    ),
    _of_controllers(
        "epoch-not-counted",
        "a new controller goes on with the epoch of the one before",
        (
            f"{REIGN}:elect",
            "counted = znodes.controller_epoch(ControllerEpoch(epoch + 1))",
            "counted = znodes.controller_epoch(ControllerEpoch(epoch))",
        ),
        (
            f"{REIGN}:elect",
            "return Elected(ControllerEpoch(epoch + 1), Version(version + 1))",
            "return Elected(epoch, Version(version + 1))",
        ),
    ),
    _of_controllers(
        "KAFKA-13407",
        "KAFKA-13407: who finds its own node of an earlier term takes it for that of somebody who acts",
        (
            f"{REIGN}:elect",
            "yield [Multi((Delete(znodes.CONTROLLER, held.version),))]",
            "return Follows(znodes.read_controller(held.data))",
        ),
        (f"{REIGN}:resign", "Delete(znodes.CONTROLLER)))]", "))]"),
    ),
    _of_controllers(
        "old-controller-obeyed",
        "a broker obeys a controller although it has heard a newer one",
        (f"{ORDERS}._admitted", "if command.controller_epoch < self.controller_epoch:", "if False:"),
    ),
    _of_controllers(
        "earlier-life-obeyed",
        "KAFKA-7235: a broker obeys what was meant for the process before it",
        (f"{ORDERS}._admitted", "if command.broker_epoch != -1 and command.broker_epoch < self._epoch():", "if False:"),
    ),
    _of_controllers(
        "unregistered-obeys",
        "a broker that does not know its epoch yet obeys what was meant for the process before it",
        (
            f"{BROKER}.start",
            "self.epoch, self.session = UNREGISTERED, 0",
            "self.epoch, self.session = BrokerEpoch(-1), 0",
        ),
    ),
    _of_controllers(
        "KAFKA-9839",
        "KAFKA-9839: a broker refuses what is meant for a registration of which it does not know yet, and it is lost",
        (
            f"{ORDERS}._admitted",
            "if command.broker_epoch != -1 and command.broker_epoch < self._epoch():",
            "if command.broker_epoch != self._epoch():",
        ),
    ),
    _of_controllers(
        "KAFKA-7235",
        "KAFKA-7235: a broker that was back before its end was seen is taken for one that was there all the time",
        (
            f"{CORE}.members:difference",
            "if broker in registered and registered[broker] > known[broker].epoch",
            "if False",
        ),
    ),
    # -- who leads -------------------------------------------------------------------------------------
    _of_controllers(
        "decisions-without-an-epoch",
        "a new leader leads in the leader epoch of the one before",
        (f"{CORE}.state:PartitionState.next", "LeaderEpoch(self.leader_epoch + 1)", "self.leader_epoch"),
    ),
    _of_controllers(
        "anybody-leads",
        "whoever is alive is elected, in sync or not",
        (f"{CORE}.election:offline", "if replica in state.isr:", "if True:"),
    ),
    _of_controllers(
        "last-in-sync-forgotten",
        "the last in-sync replica is taken out of the ISR with its broker, and nobody knows who had everything",
        (f"{CORE}.election:without", "isr = state.isr if len(state.isr) == 1 else tuple(", "isr = tuple("),
    ),
    _of_controllers(
        "states-at-any-version",
        "a state is written whatever somebody else has written there meanwhile",
        (f"{ASKING}._write_states", "each.state.version)", "type(each.state.version)(-1))"),
    ),
    _of_controllers(
        "old-leader-writes-again",
        "a leader whose ISR was refused writes it again on whatever is there now",
        (
            f"{BROKER}._write_isr",
            """
            self.replicas.written(role, state)
            """,
            """
            self.replicas.written(role, state)
            yield [Multi((Set(path, znodes.partition_state(wished), node.version),))]
            """,
        ),
    ),
    _of_controllers(
        "KAFKA-2729",
        "KAFKA-2729: a leader keeps the version that it knows, and every ISR that it wants is refused",
        (f"{REPLICAS}.written", "if held is None or", "if True or held is None or"),
        (f"{REPLICAS}._lead_or_follow", "elif role.state.version > held.state.version:", "elif False:"),
    ),
    # -- what brokers know -----------------------------------------------------------------------------
    _of_controllers(
        "KAFKA-3916",
        "KAFKA-3916: a command whose connection breaks is not said again",
        (f"{LINK}._again", "self._say()", "(self._waiting.popleft(), self._say())"),
    ),
    _of_controllers(
        "metadata-not-told",
        "brokers that do not hold a partition are not told who leads it",
        (f"{BATCH}.tell_role", "self.tell_metadata(cluster.brokers, [where])", "pass"),
    ),
    _of_controllers(
        "isr-not-told",
        "what leaders write into ISRs is not told to the others",
        (f"{CORE}.isr:noted", "desk.batch.tell_metadata(desk.cluster.brokers, read)", "pass"),
    ),
    _of_controllers(
        "back-and-not-told",
        "a broker that is there again is not told what it holds",
        (f"{CORE}.members:on_startup", "replicas.move(desk, held, ReplicaPhase.ONLINE)", "pass"),
    ),
    _of_controllers(
        "gone-topics-remembered",
        "who was not told in time that a topic is deleted knows of it for ever",
        (f"{BATCH}.tell_all_metadata", "self._all_metadata.update(brokers)", "pass"),
    ),
    # -- answers that were lost ------------------------------------------------------------------------
    _of_controllers(
        "anothers-election-taken",
        "who lost the answer to its candidacy takes somebody else's election for its own",
        (
            f"{REIGN}:elect",
            "if isinstance(there, Node) and there.owner == session and now ==",
            "if isinstance(there, Node) and now ==",
        ),
    ),
    # -- what must come to its end ---------------------------------------------------------------------
    _of_controllers(
        "moves-not-resumed",
        "a new controller leaves the reassignments of the one before where they are",
        (f"{CORE}.moves:resume", "for where in list(cluster.moving):", "for where in ():"),
    ),
    _of_controllers(
        "move-of-order-never-ends",
        "a reassignment to the same brokers in another order is done, and its request stays",
        (f"{CORE}.moves:_begin", "if after.moving:", "if True:"),
    ),
    _of_controllers(
        "deletions-not-resumed",
        "a new controller does not look which topics are to be deleted",
        (f"{CORE}.failover:take_over", "isinstance(deletions, Names)", "False"),
    ),
    _of_controllers(
        "dead-deletions-never-resumed",
        "a deletion that waited for a broker does not go on when it is back",
        (f"{CORE}.members:on_startup", "yield from deletion.go_on(desk)", "pass"),
    ),
    _of_controllers(
        "election-request-stays",
        "the request for an election stays when it was held",
        (f"{CORE}.rebalance:requested", "yield [DropPreferred()]", "pass"),
    ),
    # -- who holds what --------------------------------------------------------------------------------
    _of_controllers(
        "replica-twice",
        "a broker that stays is named twice while replicas move",
        (
            f"{CORE}.state:Assignment.to",
            "replicas = target + tuple(replica for replica in origin if replica not in target)",
            "replicas = target + origin",
        ),
    ),
    _of_controllers(
        "partitions-lost",
        "who writes one partition into its topic's node forgets the others",
        (f"{CORE}.moves:_with", "{**topic.partitions, where.partition: held}", "{where.partition: held}"),
    ),
    _of_controllers(
        "move-ends-early",
        "a reassignment is complete when one of those who come has caught up",
        (
            f"{CORE}.moves:go_on",
            "if set(cluster.assignment(where).target) <= cluster.online(where).intersection(read.isr):",
            "if set(cluster.assignment(where).target) & set(read.isr):",
        ),
        (f"{CORE}.moves:_bump", "or not set(in_sync) <= set(state.isr)", ""),
        (f"{CORE}.moves:_complete", "if set(held.target) <= set(state.isr) else None", ""),
    ),
    _of_controllers(
        "arrival-of-yesterday",
        "a reassignment ends although one of its target has left the ISR since that was looked at",
        (f"{CORE}.moves:_complete", "if set(held.target) <= set(state.isr) else None", ""),
    ),
    _of_controllers(
        "half-deleted-led-anew",
        "a topic of which a controller had removed half when it died is given leaders when brokers come or go",
        (f"{CORE}.cluster:Cluster.waiting", "if not self.is_deleting(where.topic)", "if True"),
    ),
    _of_controllers(
        "growth-by-the-node",
        "what a topic grew by while its node was read for another reason never begins",
        (
            f"{CORE}.topics:topic_changed",
            "if cluster.phase(where) is PartitionPhase.NON_EXISTENT",
            "if where.partition not in before.partitions",
        ),
    ),
    _of_controllers(
        "order-not-remembered",
        "a move does not say in which order replicas were before, and who takes it back prefers another leader",
        (
            f"{CORE}.state:Assignment.to",
            "return evolve(moved, before=origin) if moved.moving and moved.origin != origin else moved",
            "return moved",
        ),
    ),
)
