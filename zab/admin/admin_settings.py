"""Settings of an admin port: its address, its parts, and its bounds in counts, bytes and milliseconds."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.core.argument_names import checks_arguments
from zab.core.errors import ConfigError
from zab.core.settings_checks import check_settings

PARTS: Final = frozenset({"commands", "metrics", "page"})


@checks_arguments
@frozen
class AdminSettings:
    """The address, the parts and the bounds of an admin port.

    host               the address to listen on; by default only this machine can connect
    port               0: any that is free, see `StoreServer.admin_port`
    parts              the parts served: any of `commands`, `metrics` and `page`
    commands_path      the path of the commands, before their names (`admin.commandURL`)
    metrics_path       the path that Prometheus scrapes
    connections_max    open connections. A further one displaces a connection whose next request has not arrived in
                       full. If there is none, the further one is closed
    head_bytes_max     bytes of a request's line and headers
    body_bytes_max     bytes of a request's body. A larger body is not read, nor is one without a `Content-Length`; then
                       the reply ends the connection
    request_ms         the longest time from the first byte of a request to its last
    idle_ms            the longest wait for the first byte of a request (`admin.idleTimeout`)
    send_ms            how long a client may take to accept each piece of a reply
    snapshot_enabled   whether a snapshot may be taken at this port (`admin.snapshot.enabled`)
    snapshot_ms        the shortest time between two snapshots on request (`admin.rateLimiterIntervalInMS`)
    hosts              names, beside addresses, `localhost` and this server's own, that a request's `Host` may have
                       (`admin.allowedHosts`); `*`: any, which opens the port to DNS rebinding
    """

    host: str = "127.0.0.1"
    port: int = 8080
    parts: frozenset[str] = PARTS
    commands_path: str = "/commands"
    metrics_path: str = "/metrics"
    connections_max: int = 100
    head_bytes_max: int = 16 << 10
    body_bytes_max: int = 64 << 10
    request_ms: int = 10_000
    idle_ms: int = 30_000
    send_ms: int = 30_000
    snapshot_enabled: bool = True
    snapshot_ms: int = 300_000
    hosts: frozenset[str] = frozenset()

    def __attrs_post_init__(self) -> None:
        check_settings(self, {"port": 0, "head_bytes_max": 100, "body_bytes_max": 0, "snapshot_ms": 0})
        if self.port > 65_535:
            raise ConfigError(f"AdminSettings.port = {self.port}: a port is a number from 0 to 65535")
        if not self.parts <= PARTS:
            raise ConfigError(
                f"AdminSettings.parts: {sorted(self.parts - PARTS)} unknown; the parts are {sorted(PARTS)}"
            )
        for name in ("commands_path", "metrics_path"):
            path = getattr(self, name)
            if not path.startswith("/") or path == "/" or path.endswith("/"):
                raise ConfigError(
                    f"AdminSettings.{name} = {path!r}: expected a path like /commands, without a / at its end"
                )
