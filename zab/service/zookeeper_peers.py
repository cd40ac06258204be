"""The settings of a server whose ensemble speaks the protocol of Apache ZooKeeper."""

from __future__ import annotations

from attrs import frozen


@frozen
class ZookeeperPeers:
    """Settings that servers of Apache ZooKeeper in the same ensemble have.

    reconfig_enabled  the value of their key `reconfigEnabled`
    """

    reconfig_enabled: bool = False
