"""What a broker is told at its start."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from attrs import field, frozen

from kraft_controller.core.controller_context import ControllerSettings
from kraft_controller.core.names import BrokerId
from kraft_controller.runtime.controller import Pace
from kraft_controller.runtime.shutdown_request import ShutdownSettings
from replica.core.acl_authorization import AclSettings
from replica.core.connection_limits import ConnectionLimits
from replica.core.groups.group_settings import GroupSettings
from replica.core.log_config import LogConfig
from replica.core.principals import Principals
from replica.core.replica_settings import ReplicaSettings as ReplicationSettings
from replica.core.transactions.transaction_settings import TransactionSettings
from replica.runtime.authentication.sasl_authenticator import SaslSettings
from replica.runtime.authentication.sasl_client import Identity
from replica.runtime.replication.batch_examiner import BatchExaminerSettings
from replica.runtime.replication.log_manager_runtime import LogManagerPace
from replica.runtime.store.store_login import StoreLogin
from replica.storage.log_manager import ManagerSettings
from zab.core.failed_logins import FailedLoginSettings

CONTROLLER: Final = "CONTROLLER"
"""The name of the listener where brokers hear the controller. Clients are never told of it."""
PLAINTEXT: Final = "PLAINTEXT"
EVERYWHERE: Final = (None, "", "0.0.0.0", "::")
"""Hosts that say where to listen, and not whom to dial."""


@frozen
class Listener:
    """host, port    where it listens; host None: on all interfaces; port 0: whichever is free
    told_host     what clients are told to dial; None: `host`, or this machine's name where that is none
    told_port     None: the port where it listens
    """

    name: str
    host: str | None
    port: int
    protocol: str = PLAINTEXT
    told_host: str | None = None
    told_port: int | None = None
    tls: ssl.SSLContext | None = None
    sasl: SaslSettings | None = None
    """Where clients have to say who they are."""
    principals: Principals = field(factory=Principals)


@frozen
class Peers:
    """How this broker comes in at a listener of other brokers.

    tls        None: in plain text
    identity   who it is there; None: nobody asks
    """

    tls: ssl.SSLContext | None = None
    identity: Identity | None = None


class Setting(NamedTuple):
    """The value of one key with which a broker was started.

    text    None: a secret if it was said, else nothing
    said    the file says so
    usual   what holds where the file says nothing; None: nothing, or it is not known
    """

    text: str | None = None
    said: bool = False
    usual: str | None = None


@frozen
class OffsetsTopicSettings:
    """partitions      `offsets.topic.num.partitions`: once positions are in them there can never be another number
    factor          `offsets.topic.replication.factor`: until there are so many brokers no group can be coordinated
    segment_bytes   `offsets.topic.segment.bytes`: small, so that compaction gets at most of it
    """

    partitions: int = 50
    factor: int = 3
    segment_bytes: int = 100 * 1024 * 1024


@frozen
class TransactionsTopicSettings:
    """partitions      `transaction.state.log.num.partitions`: once ids are in them there can never be another number
    factor          `transaction.state.log.replication.factor`: until there are so many brokers there are none
    min_insync      `transaction.state.log.min.isr`
    segment_bytes   `transaction.state.log.segment.bytes`: small, so that compaction gets at most of it
    """

    partitions: int = 50
    factor: int = 3
    min_insync: int = 2
    segment_bytes: int = 100 * 1024 * 1024


@frozen
class BrokerConfig:
    """store            `zookeeper.connect`
    listeners         where clients and other brokers come in
    inter_broker      the name of the listener at which other brokers fetch; None: of the first
    peers             how this one comes in there
    controllers       how it comes in at `controller` of another
    controller        the listener of commands, if it is to be at a certain place
    said              every key of the file, as `DescribeConfigs` tells them
    """

    id: BrokerId
    log_dirs: tuple[Path, ...]
    store: str = "127.0.0.1:2181"
    store_login: StoreLogin = field(factory=StoreLogin)
    listeners: tuple[Listener, ...] = (Listener(PLAINTEXT, "127.0.0.1", 9092),)
    controller: Listener = Listener(CONTROLLER, "127.0.0.1", 0)
    inter_broker: str | None = None
    peers: Peers = field(factory=Peers)
    controllers: Peers = field(factory=Peers)
    acls: AclSettings | None = None
    """None: whoever is in may do everything."""
    rack: str | None = None
    session_timeout_ms: int = 18_000
    partitions: int = 1
    replication_factor: int = 1
    auto_create: bool = True
    deletion: bool = True
    offsets: OffsetsTopicSettings = field(factory=OffsetsTopicSettings)
    log: LogConfig = field(factory=LogConfig)
    log_said: frozenset[str] = frozenset()
    """Which keys of `log` the configuration has set."""
    replication: ReplicationSettings = field(factory=ReplicationSettings)
    fetch_answer_ms: int = 30_000
    """`replica.socket.timeout.ms`: of a leader, beside what it is told to wait."""
    watermark_checkpoint_s: float = 5.0
    """`replica.high.watermark.checkpoint.interval.ms`"""
    examining: BatchExaminerSettings = field(factory=BatchExaminerSettings)
    disk: LogManagerPace = field(factory=LogManagerPace)
    logs: ManagerSettings = field(factory=ManagerSettings)
    cleans: bool = True
    """`log.cleaner.enable`"""
    port: ConnectionLimits = field(factory=ConnectionLimits)
    failed_logins: FailedLoginSettings = field(factory=FailedLoginSettings)
    groups: GroupSettings = field(factory=GroupSettings)
    commit_timeout_ms: int = 5_000
    transactions_topic: TransactionsTopicSettings = field(factory=TransactionsTopicSettings)
    transactions: TransactionSettings = field(factory=TransactionSettings)
    fetch_sessions: int = 1_000
    """`max.incremental.fetch.session.cache.slots`: of clients that say only what is different; 0: none."""
    leaving: ShutdownSettings | None = field(factory=ShutdownSettings)
    """None: it goes without a word (`controlled.shutdown.enable=false`)."""
    control: ControllerSettings = field(factory=ControllerSettings)
    pace: Pace = field(factory=Pace)
    said: Mapping[str, Setting] = field(factory=dict)
