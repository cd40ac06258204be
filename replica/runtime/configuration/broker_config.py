"""The static configuration of a broker."""

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
from replica.core.groups.group_settings import GroupSettings
from replica.core.network.connection_limits import ConnectionLimits
from replica.core.partitions.log_config import LogConfig
from replica.core.replica_settings import ReplicaSettings as ReplicationSettings
from replica.core.security.acl_authorization import AclSettings
from replica.core.security.principals import Principals
from replica.core.transactions.transaction_settings import TransactionSettings
from replica.runtime.authentication.sasl_authenticator import SaslSettings
from replica.runtime.authentication.sasl_client import Identity
from replica.runtime.replication.batch_examiner import BatchExaminerSettings
from replica.runtime.replication.log_manager_runtime import LogManagerPace
from replica.runtime.store.store_login import StoreLogin
from replica.storage.log_manager import ManagerSettings
from zab.core.failed_logins import FailedLoginSettings

CONTROLLER: Final = "CONTROLLER"
"""The name of the listener for the controller's commands. Metadata responses never contain it."""
PLAINTEXT: Final = "PLAINTEXT"
EVERYWHERE: Final = (None, "", "0.0.0.0", "::")
"""Hosts that mean every interface: brokers can listen on them, but clients cannot connect to them."""


@frozen
class Listener:
    """host, port          the address to bind; host None: all interfaces; port 0: any free port
    advertised_host     the host that clients connect to; None: `host`, or this machine's name if `host` is one of
                        EVERYWHERE
    advertised_port     the port that clients connect to; None: the bound port
    """

    name: str
    host: str | None
    port: int
    protocol: str = PLAINTEXT
    advertised_host: str | None = None
    advertised_port: int | None = None
    tls: ssl.SSLContext | None = None
    sasl: SaslSettings | None = None
    """The SASL settings; None if the listener does not use SASL."""
    principals: Principals = field(factory=Principals)


@frozen
class Peers:
    """How this broker connects to a listener of other brokers.

    tls        None: plaintext
    identity   the SASL credentials; None: no SASL
    """

    tls: ssl.SSLContext | None = None
    identity: Identity | None = None


class Setting(NamedTuple):
    """One key of the broker's file or defaults.

    text      the value; None for a secret, or if there is no value
    in_file   True if the file has the key
    usual     the default; None if there is none or it is unknown
    """

    text: str | None = None
    in_file: bool = False
    usual: str | None = None


@frozen
class OffsetsTopicSettings:
    """All are used only when `__consumer_offsets` is created.

    partitions      `offsets.topic.num.partitions`
    factor          `offsets.topic.replication.factor`: with fewer brokers the topic cannot be created, so no group
                    works
    segment_bytes   `offsets.topic.segment.bytes`: small, because compaction skips the active segment
    """

    partitions: int = 50
    factor: int = 3
    segment_bytes: int = 100 * 1024 * 1024


@frozen
class TransactionsTopicSettings:
    """All are used only when `__transaction_state` is created.

    partitions      `transaction.state.log.num.partitions`
    factor          `transaction.state.log.replication.factor`: with fewer brokers the topic cannot be created, so no
                    transaction works
    min_insync      `transaction.state.log.min.isr`
    segment_bytes   `transaction.state.log.segment.bytes`: small, because compaction skips the active segment
    """

    partitions: int = 50
    factor: int = 3
    min_insync: int = 2
    segment_bytes: int = 100 * 1024 * 1024


@frozen
class BrokerConfig:
    """store             `zookeeper.connect`
    listeners         the listeners for clients and other brokers
    inter_broker      the name of the listener at which other brokers fetch; None: the first one
    peers             how this broker connects to the inter-broker listener of other brokers
    controllers       how this broker connects to the control plane listener of other brokers
    controller        the control plane listener, for the controller's commands
    settings          every key of the file, and the defaults of other keys, as `DescribeConfigs` returns them
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
    """The settings of the authorizer; None for no authorization."""
    rack: str | None = None
    session_timeout_ms: int = 18_000
    partitions: int = 1
    replication_factor: int = 1
    auto_create: bool = True
    deletion: bool = True
    offsets: OffsetsTopicSettings = field(factory=OffsetsTopicSettings)
    log: LogConfig = field(factory=LogConfig)
    log_keys_in_file: frozenset[str] = frozenset()
    """The keys of `log` that the file sets."""
    replication: ReplicationSettings = field(factory=ReplicationSettings)
    fetch_answer_ms: int = 30_000
    """`replica.socket.timeout.ms`: the timeout of a leader's response, in addition to the maximum wait of the fetch."""
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
    """`max.incremental.fetch.session.cache.slots`: the number of cached fetch sessions of consumers; 0: none."""
    leaving: ShutdownSettings | None = field(factory=ShutdownSettings)
    """The settings of the controlled shutdown; None if `controlled.shutdown.enable=false`."""
    control: ControllerSettings = field(factory=ControllerSettings)
    pace: Pace = field(factory=Pace)
    settings: Mapping[str, Setting] = field(factory=dict)

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener at which other brokers fetch."""
        return self.inter_broker or self.listeners[0].name
