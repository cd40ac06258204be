"""The settings of a server whose ensemble speaks the protocol of Apache ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from zab.core.argument_names import checks_arguments


@checks_arguments
@frozen
class QuorumSasl:
    """SASL DIGEST-MD5 between servers.

    login     the user and the password with which this server logs in at servers that it dials; None: it does not
    users     the passwords of the users that may log in, by user
    required  whether a server that dials must log in
    """

    login: tuple[str, str] | None = field(repr=False)
    users: Mapping[str, str] = field(repr=False)
    required: bool


@checks_arguments
@frozen
class ZookeeperPeers:
    """Settings of an ensemble whose servers speak the protocol of Apache ZooKeeper with each other.

    reconfig_enabled  the value of the key `reconfigEnabled` of the servers of ZooKeeper
    sasl              SASL between the servers; None: off
    """

    reconfig_enabled: bool = False
    sasl: QuorumSasl | None = None
