"""The fixed arguments of a member, and the membership of a member that runs alone."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, frozen

from zab.core.ensemble import NO_HOST, Ensemble, Server
from zab.core.ready import Settings
from zab.core.zxid import ServerId, Zxid
from zab.net.network import Network
from zab.runtime.environment import REAL_ENVIRONMENT, Environment
from zab.service.batch_applier import OnMembership
from zab.service.forwarding.side_channel import MessageHandler, ignore_message
from zab.service.forwarding.zookeeper_intake import OnTouches, ignore_touches
from zab.service.limits import Limits
from zab.service.zookeeper_peers import ZookeeperPeers
from zab.storage.storage import StorageSettings


@frozen
class MemberArguments:
    """The arguments of `zab.Member` that its parts need while it runs.

    `me` is the argument `server_id`, and `environment` is the argument `host`. `zab.Member` describes all arguments.
    """

    me: ServerId
    ensemble: Ensemble
    name: str
    settings: Settings
    limits: Limits
    storage: StorageSettings
    listen: bool
    listen_host: str | None
    network: Network
    environment: Environment = REAL_ENVIRONMENT
    admit_non_members: bool = False
    zookeeper: ZookeeperPeers | None = None


def ignore_membership(ensemble: Ensemble, zxid: Zxid | None) -> None:
    """Do nothing: the application does not use memberships."""


def ignore_turn() -> None:
    """Do nothing: the application does not use turns."""


@define
class MemberHooks:
    """The functions of the application that a member calls in the event loop. They must be set before it runs."""

    on_leader_message: MessageHandler = ignore_message
    """Called at the leader with each message that a member, or the leader itself, has sent by `Member.tell_leader`."""
    on_member_message: MessageHandler = ignore_message
    """Called at a follower or observer with each message that its leader has sent by `Member.tell_members`."""
    on_membership: OnMembership = ignore_membership
    """Called with each membership: see `Member.on_membership`."""
    on_touches: OnTouches = ignore_touches
    """Called at a leader with the sessions that learners report as used: see `Member.on_touches`."""
    on_turn: Callable[[], None] = ignore_turn
    """Called when a turn ends or begins to wait."""


def single_server_ensemble(server_id: int) -> Ensemble:
    """Return the membership of a member that runs alone.

    Other servers can connect to it only after `reconfigure` has given it an address.
    """
    return Ensemble((Server(ServerId(server_id), NO_HOST, 1, 2),))
