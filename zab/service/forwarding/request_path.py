"""The path of requests through one server, from its callers to the leader and back.

The parts of the path are the member's pending submissions, the forwarder to the leader, the leader's intake with its
proposal queue, barriers, changes of the membership, and the side channel. This module determines the leadership in
force, and tells the parts when a leadership begins or ends. In each turn it lets them send and propose. It passes
incoming messages to them.

It is pure: the driver of a server calls it, and so does the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from zab.core.errors import ConfigError
from zab.core.messages import State
from zab.core.node import Node
from zab.core.zxid import Millis, Zxid
from zab.service.forwarding.leader_intake import LeaderIntake
from zab.service.forwarding.leadership import Leadership, LearnerLink, LearnerLinks
from zab.service.forwarding.membership_changes import MembershipChanges, reply_of
from zab.service.forwarding.pending_submissions import PendingSubmissions
from zab.service.forwarding.proposal_queue import NEVER_STALLS, FailureLog, ProposalQueue, Seal, StallWatch
from zab.service.forwarding.request_forwarder import RequestForwarder
from zab.service.forwarding.side_channel import MessageHandler, SideChannel, ignore_message
from zab.service.forwarding.sync_barriers import SyncBarriers
from zab.service.forwarding.zookeeper_forwarder import ZookeeperForwarder
from zab.service.forwarding.zookeeper_intake import OnTouches, ZookeeperIntake, ignore_touches
from zab.service.limits import Limits
from zab.service.replicated_machine import Machine
from zab.wire.peer import encode
from zab.wire.relay_messages import (
    CatchUpPoint,
    CatchUpRequest,
    Forward,
    LeaderMessage,
    MemberMessage,
    ReconfigureReply,
    ReconfigureRequest,
    Refusals,
)

_NO_CHANGE: Final = (
    "an ensemble that speaks the protocol of ZooKeeper is changed by a reconfig request of a client, not by a member"
)
RelayHandler: TypeAlias = Callable[[LearnerLink, Any, Millis], None]


class RequestPath:
    def __init__(
        self,
        node: Node,
        machine: Machine,
        pending: PendingSubmissions,
        links: LearnerLinks,
        limits: Limits,
        log: FailureLog,
        wall_ms: Callable[[], int],
        watchdog: StallWatch = NEVER_STALLS,
        on_leader_message: MessageHandler = ignore_message,
        on_member_message: MessageHandler = ignore_message,
        zookeeper: ZookeeperForwarder | None = None,
        seal: Seal | None = None,
        on_touches: OnTouches = ignore_touches,
    ) -> None:
        """`zookeeper`: the path to a leader in an ensemble that speaks ZooKeeper's protocol; None in one of our own.

        `seal`: the form in which such an ensemble proposes transactions; None in one of our own.

        `on_touches` receives the sessions that clients of learners have used, while this server leads such an ensemble.
        """
        self.pending = pending
        self.zookeeper = zookeeper
        self.queue = ProposalQueue(machine, limits, log, watchdog, seal)
        self.barriers = SyncBarriers(node)
        self.intake = LeaderIntake(node, self.queue, self.barriers, pending, limits, wall_ms)
        self.forwarder = RequestForwarder(pending, limits)
        self.changes = MembershipChanges()
        self.side_channel = SideChannel(
            node, links, lambda: self._leadership, on_leader_message, on_member_message, exists=zookeeper is None
        )
        self._to_leader: RequestForwarder | ZookeeperForwarder = zookeeper or self.forwarder
        """The path to another server that leads."""
        self.handlers: Mapping[type[Any], RelayHandler] = {
            Forward: lambda link, message, now: self.intake.on_forward(link, message),
            CatchUpRequest: lambda link, message, now: self.intake.on_catch_up_request(link, message),
            ReconfigureRequest: lambda link, message, now: link.send(encode(self.intake.reconfigure(message, now))),
            LeaderMessage: lambda link, message, now: self.side_channel.on_leader_message(message),
            MemberMessage: lambda link, message, now: self.side_channel.on_member_message(link, message),
            ReconfigureReply: lambda link, message, now: self.changes.replied(message),
            CatchUpPoint: self._on_catch_up_point,
            Refusals: self._on_refusals,
        }
        """type of a message on a learner link -> its handler; the consensus never sees these messages"""
        if zookeeper is not None:
            intake = ZookeeperIntake(node, self.queue, zookeeper, on_touches)
            handlers = {**zookeeper.handlers, **intake.handlers}
            self.handlers = {kind: partial(_hand_over, handle) for kind, handle in handlers.items()}
        self._node = node
        self._links = links
        self._leadership: Leadership | None = None
        """The leadership in force, or None."""
        self._role: object = None
        """The node's serving role when `_leadership` was last determined."""
        self._applied = node.applied
        """The zxid up to which the machine has applied everything."""

    @property
    def open(self) -> bool:
        """True if there is a leader to which requests can go."""
        return self._leadership is not None

    # -- a turn ------------------------------------------------------------------------------------

    def turn(self, now: Millis) -> None:
        """Send waiting requests and membership changes to the leader, or propose them if this server leads.

        Called when a turn begins, and again after each Ready that may have made room. Cheap if nothing waits.
        """
        node, leadership = self._node, self._leadership
        if (
            leadership is None
            or node.serving_role is not self._role
            or (leadership.link is not None and self._links.dialled.get(leadership.link.peer) is not leadership.link)
        ):
            self._find_leadership()
            self._role, leadership = node.serving_role, self._leadership
            if leadership is None:
                return
        link = leadership.link
        if self.changes.waiting:
            for request in self.changes.take():
                if self.zookeeper is not None:
                    self.changes.replied(reply_of(request.number, ConfigError(_NO_CHANGE)))
                elif link is not None:
                    link.send(encode(request))
                else:
                    self.changes.replied(self.intake.reconfigure(request, now))
        if link is not None:
            if self.pending.wants_to_send:
                self._to_leader.forward(link, self._applied)
            return
        if self.pending.wants_to_send:
            if self.zookeeper is None:
                self.intake.take_own()
            else:
                self.zookeeper.take_own(self.queue)
        self.intake.turn(now)

    def ask_barrier(self, now: Millis) -> None:
        """Request one barrier for all callers that wait for one, if there is a leader. Called once a turn."""
        if self.barriers.waiting and self._leadership is not None:
            self.barriers.ask(self.side_channel, now)

    def _find_leadership(self) -> None:
        found, before = self._current_leadership(), self._leadership
        if found == before:
            return
        if before is not None:
            self._to_leader.end()
            self.changes.leadership_over()
        if found is None or found.link is not None:
            self.intake.end()
        self._leadership = found
        if found is None:
            return
        if found.link is None:
            self.intake.begin(found)
        self._to_leader.begin(found, self._node.last)
        self.reached(self._applied)

    def _current_leadership(self) -> Leadership | None:
        node = self._node
        _, state, epoch, leader, serving = node.status()
        if not serving:
            return None
        if state is State.LEADING:
            found = Leadership(epoch, None)
        else:
            link = None if leader is None else self._links.dialled.get(leader)
            if link is None:
                return None
            found = Leadership(epoch, link)
        if found != self._leadership and self._applied < node.applied:
            return None  # the machine is behind the node until the end of this turn
        return found

    # -- events of the server ----------------------------------------------------------------------

    def _on_catch_up_point(self, link: LearnerLink, message: CatchUpPoint, now: Millis) -> None:
        self.forwarder.on_catch_up_point(link, message)
        self.reached(self._applied)

    def _on_refusals(self, link: LearnerLink, message: Refusals, now: Millis) -> None:
        self.forwarder.on_refusals(link, message)
        self.reached(self._applied)

    def on_link_down(self, link: LearnerLink) -> None:
        if not link.dialled:
            self.intake.on_link_down(link)

    def on_barrier(self, number: int, zxid: Zxid | None) -> None:
        self.barriers.on_barrier(number, zxid)
        self.reached(self._applied)

    def reached(self, applied: Zxid) -> None:
        """Handle progress of the machine, which has applied everything up to `applied`.

        Within a turn the node may be ahead of the machine. If the node's `applied` were used, a committed request that
        the machine has not applied yet might be sent again, and carried out twice.
        """
        self._applied = applied
        self.queue.applied(applied)
        if self.pending.reached(applied):
            self.changes.history_reached(self._node.epoch)

    def restored(self, zxid: Zxid) -> None:
        """Handle a snapshot that replaced the history up to `zxid`."""
        self.pending.jumped()
        self.changes.jumped(zxid)
        if self.zookeeper is not None:
            self.zookeeper.restored()

    def stop(self, error: Exception) -> None:
        self.changes.stop(error)
        self.barriers.stop(error)
        if self.zookeeper is not None:
            self.zookeeper.stop(error)


def _hand_over(handle: Callable[[LearnerLink, Any], None], link: LearnerLink, message: Any, now: Millis) -> None:
    handle(link, message)
