"""The controller: who may act, who may lead, and what must not be left undone."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from harness.mutants.edit import Mutant, mutant

ELECTION: Final = "kraft_controller.wire.controller_election"
FENCE: Final = "kraft_controller.wire.epoch_fence:Fence"
STORE: Final = "kraft_controller.wire.znode_store:ZnodeStore"
CORE: Final = "kraft_controller.core"
BATCH: Final = f"{CORE}.broker_request_batch:BrokerRequestBatch"
HANDLER: Final = f"{CORE}.command_handler:ControllerCommandHandler"
REASSIGNMENT: Final = f"{CORE}.topics.reassignment:PartitionReassignment"
REPLICAS: Final = "harness.worlds.controller.replicas:Replicas"
BROKER: Final = "harness.worlds.cores.controller.broker:Broker"
QUEUE: Final = f"{CORE}.command_channel:BrokerCommandQueue"


def _of_controllers(name: str, bug: str, *edits: tuple[str, str, str]) -> Mutant:
    return evolve(mutant(name, bug, *edits), voters=(3,), machine="controller")


MUTANTS: Final[tuple[Mutant, ...]] = (
    # -- who may act -----------------------------------------------------------------------------------
    _of_controllers(
        "controller-not-fenced",
        "a controller writes without a check that no other controller was elected",
        (
            f"{FENCE}.__init__",
            "self._check = Check(znodes.CONTROLLER_EPOCH, version)",
            "self._check = Check(znodes.CONTROLLER_EPOCH, Version(-1))",
        ),
    ),
    _of_controllers(
        "epoch-not-counted",
        "a new controller uses the controller epoch of its predecessor",
        (
            f"{ELECTION}:elect",
            "counted = znodes.controller_epoch(ControllerEpoch(epoch + 1))",
            "counted = znodes.controller_epoch(ControllerEpoch(epoch))",
        ),
        (
            f"{ELECTION}:elect",
            "return Elected(ControllerEpoch(epoch + 1), Version(version + 1))",
            "return Elected(epoch, Version(version + 1))",
        ),
    ),
    _of_controllers(
        "KAFKA-13407",
        "KAFKA-13407: a controller takes its own node of an earlier term for another controller's",
        (
            f"{ELECTION}:elect",
            "yield [Multi((Delete(znodes.CONTROLLER, held.version),))]",
            "return Follows(znodes.read_controller(held.data))",
        ),
        (f"{ELECTION}:resign", "Delete(znodes.CONTROLLER)))]", "))]"),
    ),
    _of_controllers(
        "old-controller-obeyed",
        "a broker executes commands of an old controller after it has received those of a newer one",
        (f"{HANDLER}._fence", "if command.controller_epoch < self.controller_epoch:", "if False:"),
    ),
    _of_controllers(
        "earlier-life-obeyed",
        "KAFKA-7235: a broker executes commands for its former process",
        (f"{HANDLER}._fence", "if command.broker_epoch != -1 and command.broker_epoch < self._epoch():", "if False:"),
    ),
    _of_controllers(
        "unregistered-obeys",
        "a broker without a broker epoch executes commands for its former process",
        (
            f"{CORE}.broker_epoch:BrokerEpochFence.accepts_from",
            "return self._least if self.epoch == NO_EPOCH else self.epoch",
            "return self.epoch",
        ),
    ),
    _of_controllers(
        "KAFKA-9839",
        "KAFKA-9839: a broker refuses commands for a registration that it has not confirmed yet, and they are lost",
        (
            f"{HANDLER}._fence",
            "if command.broker_epoch != -1 and command.broker_epoch < self._epoch():",
            "if command.broker_epoch != self._epoch():",
        ),
    ),
    _of_controllers(
        "KAFKA-7235",
        "KAFKA-7235: a broker that restarted before its session expired counts as one that never stopped",
        (
            f"{CORE}.broker_changes:difference",
            "if broker in registered and registered[broker] > known[broker].epoch",
            "if False",
        ),
    ),
    # -- who leads -------------------------------------------------------------------------------------
    _of_controllers(
        "decisions-without-an-epoch",
        "a new leader uses the leader epoch of its predecessor",
        (f"{CORE}.state:PartitionState.next", "LeaderEpoch(self.leader_epoch + 1)", "self.leader_epoch"),
    ),
    _of_controllers(
        "anybody-leads",
        "any live replica may be elected, in sync or not",
        (f"{CORE}.topics.leader_election:offline", "if replica in state.isr:", "if True:"),
    ),
    _of_controllers(
        "last-in-sync-forgotten",
        "the last in-sync replica is removed from the ISR with its broker, so the complete replica is forgotten",
        (
            f"{CORE}.topics.leader_election:without",
            "isr = state.isr if len(state.isr) == 1 else tuple(",
            "isr = tuple(",
        ),
    ),
    _of_controllers(
        "states-at-any-version",
        "a partition state is written over a concurrent change",
        (f"{STORE}.write_states", "state.version)", "type(state.version)(-1))"),
    ),
    _of_controllers(
        "old-leader-writes-again",
        "a leader whose ISR was refused writes it again over the present state",
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
        "KAFKA-2729: a leader keeps an old version of the state, so all its changes of the ISR are refused",
        (f"{REPLICAS}.written", "if held is None or", "if True or held is None or"),
        (f"{REPLICAS}._lead_or_follow", "elif role.state.version > held.state.version:", "elif False:"),
    ),
    # -- what brokers know -----------------------------------------------------------------------------
    _of_controllers(
        "KAFKA-3916",
        "KAFKA-3916: a command is not repeated after its connection broke",
        (f"{QUEUE}.attempt_failed", "self.resent += 1", "self._in_flight = self._waiting.popleft() and None"),
    ),
    _of_controllers(
        "metadata-not-told",
        "brokers without a replica of a partition do not receive its leader",
        (f"{BATCH}.add_leader_and_isr", "self.add_update_metadata(context.brokers, [tp])", "pass"),
    ),
    _of_controllers(
        "isr-not-told",
        "changes of ISRs by leaders are not sent to other brokers",
        (
            f"{CORE}.topics.alter_partition:AlterPartition.process_notifications",
            "self._batch.add_update_metadata(self._context.brokers, readable)",
            "pass",
        ),
    ),
    _of_controllers(
        "back-and-not-told",
        "a returning broker does not receive its replicas",
        (f"{CORE}.broker_changes:BrokerChanges.on_startup", "self._replicas.move(held, ReplicaPhase.ONLINE)", "pass"),
    ),
    _of_controllers(
        "gone-topics-remembered",
        "a broker that misses the notification of a topic's deletion keeps the topic for ever",
        (f"{BATCH}.add_full_metadata", "self._full_metadata.update(brokers)", "pass"),
    ),
    # -- answers that were lost ------------------------------------------------------------------------
    _of_controllers(
        "anothers-election-taken",
        "a candidate that lost the reply to its request takes another candidate's election for its own",
        (
            f"{ELECTION}:elect",
            "if isinstance(there, Node) and there.owner == session and now ==",
            "if isinstance(there, Node) and now ==",
        ),
    ),
    # -- what must come to its end ---------------------------------------------------------------------
    _of_controllers(
        "moves-not-resumed",
        "a new controller does not resume the reassignments of its predecessor",
        (f"{REASSIGNMENT}.resume", "= list(context.moving)", "= ()"),
    ),
    _of_controllers(
        "move-of-order-never-ends",
        "a reassignment that only changes the order is done, but its request stays",
        (f"{REASSIGNMENT}._start", "if after.moving:", "if True:"),
    ),
    _of_controllers(
        "deletions-not-resumed",
        "a new controller does not resume topic deletions",
        (f"{CORE}.controller_failover:ControllerFailover._read_cluster", "return tuple(deletions)", "return ()"),
    ),
    _of_controllers(
        "dead-deletions-never-resumed",
        "a deletion that waited for a broker does not continue when the broker returns",
        (f"{CORE}.broker_changes:BrokerChanges.on_startup", "yield from self._deletion.resume()", "pass"),
    ),
    _of_controllers(
        "election-request-stays",
        "the request for an election stays after the election",
        (
            f"{CORE}.topics.preferred_election:PreferredElection.process_node",
            "yield from self._store.drop_preferred_elections()",
            "pass",
        ),
    ),
    # -- who holds what --------------------------------------------------------------------------------
    _of_controllers(
        "replica-twice",
        "a remaining broker is named twice in the assignment during a reassignment",
        (
            f"{CORE}.state:Assignment.to",
            "replicas = target + tuple(replica for replica in origin if replica not in target)",
            "replicas = target + origin",
        ),
    ),
    _of_controllers(
        "partitions-lost",
        "a write of one partition into its topic's node drops the others",
        (f"{CORE}.topics.topic_registry:with_assignments", "{**topic.partitions, **changed}", "changed"),
    ),
    _of_controllers(
        "move-ends-early",
        "a reassignment is complete when one of its adding replicas has caught up",
        (
            f"{REASSIGNMENT}.complete_if_caught_up",
            "if set(context.assignment(tp).target) <= context.online(tp).intersection(result.isr):",
            "if set(context.assignment(tp).target) & set(result.isr):",
        ),
        (f"{REASSIGNMENT}._bump_leader_epochs", "or not set(in_sync[tp]) <= set(state.isr)", ""),
        (f"{REASSIGNMENT}._complete", "if set(held.target) <= set(state.isr) else None", ""),
    ),
    _of_controllers(
        "arrival-of-yesterday",
        "a reassignment ends although one of its new replicas has left the ISR again",
        (f"{REASSIGNMENT}._complete", "if set(held.target) <= set(state.isr) else None", ""),
    ),
    _of_controllers(
        "half-deleted-led-anew",
        "a half-deleted topic gets leaders when brokers come or go",
        (f"{CORE}.controller_context:ControllerContext.without_leader", "if not self.is_deleting(tp.topic)", "if True"),
    ),
    _of_controllers(
        "growth-by-the-node",
        "partitions that were added while the controller read the topic's node for another reason never start",
        (
            f"{CORE}.topics.topic_changes:TopicChanges.process_modification",
            "if context.phase(tp) is PartitionPhase.NON_EXISTENT",
            "if tp.partition not in before.partitions",
        ),
    ),
    _of_controllers(
        "order-not-remembered",
        "a reassignment does not record the former order of the replicas, so its cancellation prefers another leader",
        (
            f"{CORE}.state:Assignment.to",
            "return evolve(moved, before=origin) if moved.moving and moved.origin != origin else moved",
            "return moved",
        ),
    ),
)
