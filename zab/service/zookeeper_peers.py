"""The settings of a server whose ensemble speaks the protocol of Apache ZooKeeper."""

from __future__ import annotations

from attrs import frozen

from zab.core.argument_names import checks_arguments


@checks_arguments
@frozen
class ZookeeperPeers:
    """Settings of an ensemble whose servers speak the protocol of Apache ZooKeeper with each other.

    reconfig_enabled  the value of the key `reconfigEnabled` of the servers of ZooKeeper
    """

    reconfig_enabled: bool = False
