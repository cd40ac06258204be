"""The brokers of a memory cluster: real ones, each with a disk in memory that survives its processes."""

from __future__ import annotations

import copy
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeAlias

import trio

import zab
from replica.cli.properties.keys import KEYS
from replica.cli.properties.plan import plan_of
from replica.cli.properties.small_cluster import small_cluster
from replica.runtime.broker import Broker
from replica.runtime.configuration.broker_config import CONTROLLER, PLAINTEXT, BrokerConfig
from replica.runtime.environment import Environment
from replica.runtime.network.transport import listen_tcp
from replica.storage.memory_directory import memory_directory
from zab.config.config_source import BadConfig
from zab.host.threads import in_task
from zab.net.memory_network import MemoryNetwork, ProcessNetwork

HOST: Final = "127.0.0.1"
INTERNAL: Final = "INTERNAL"
"""The name of the listener for other brokers, which is in the memory network."""
INTERNAL_PORT: Final = 9094
CONTROLLER_PORT: Final = 9093
GIVEN: Final = frozenset(
    {
        "broker.id",
        "listeners",
        "advertised.listeners",
        "listener.security.protocol.map",
        "inter.broker.listener.name",
        "log.dir",
        "log.dirs",
        "zookeeper.connect",
    }
)
"""The keys whose values a memory cluster determines."""
ConfigValue: TypeAlias = str | int | float | bool
_OVERRIDE: Final = "--override: "


def texts_of(config: Mapping[str, ConfigValue]) -> dict[str, str]:
    """Return the values as in a properties file."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()}


def check_keys(config: Mapping[str, ConfigValue]) -> None:
    """Raise `zab.ConfigError` for the first key that does not exist, or that a test cannot set."""
    for key in config:
        if key in GIVEN:
            raise zab.ConfigError(f"config: {key} cannot be set: the memory cluster determines it")
        if key not in KEYS:
            near = get_close_matches(str(key), KEYS, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise zab.ConfigError(f"config: {key!r} is not a key of server.properties{hint}")


def broker_config(broker: int, brokers: int, port: int, config: Mapping[str, ConfigValue]) -> BrokerConfig:
    """Return the configuration of one broker. Raise `zab.ConfigError` if a value of `config` is invalid."""
    host = f"b{broker}"
    properties: dict[str, ConfigValue] = {
        **small_cluster(brokers),
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.num.partitions": 3,
        "transaction.state.log.min.isr": 1 if brokers < 3 else 2,
        "replica.fetch.backoff.ms": 50,
        "replica.lag.time.max.ms": 5_000,
        "group.min.session.timeout.ms": 100,
        "controlled.shutdown.retry.backoff.ms": 100,
        **config,
        "broker.id": broker,
        "log.dirs": f"/in-memory/broker-{broker}",
        "zookeeper.connect": "in-memory",
        "listeners": f"{PLAINTEXT}://{HOST}:{port},{INTERNAL}://{host}:{INTERNAL_PORT},"
        f"{CONTROLLER}://{host}:{CONTROLLER_PORT}",
        "listener.security.protocol.map": f"{PLAINTEXT}:{PLAINTEXT},{INTERNAL}:{PLAINTEXT},{CONTROLLER}:{PLAINTEXT}",
        "inter.broker.listener.name": INTERNAL,
    }
    try:
        return plan_of("open_memory_cluster", "", texts_of(properties)).config
    except BadConfig as error:
        problems = [each.removeprefix(_OVERRIDE) for each in error.problems]
        raise zab.ConfigError(f"config: {'; '.join(problems)}") from None


class BrokerProcess:
    """One process of a broker, from its start to its end."""

    def __init__(self, broker: MemoryBroker, config: BrokerConfig) -> None:
        self.server = broker
        """The broker, by the name that the memory network uses."""
        self.dead = False
        """True once it was killed: it sends and receives nothing more, and its errors do not count."""
        self.up = trio.Event()
        """Set when the broker serves clients, or the process has ended."""
        self.ended = trio.Event()
        self._scope = trio.CancelScope()
        self._network = ProcessNetwork(broker.network, self)
        disk = broker.disk
        environment = Environment(
            in_thread=in_task,
            open_directory=lambda path: disk,
            former_sessions=_no_sessions,
            remember_session=_remember_nothing,
            connect=self._connect,
            listen=self._listen,
        )
        self.program = Broker(config, broker.open_session, environment)

    @property
    def serving(self) -> bool:
        return self.program.started.is_set() and not self.dead

    async def _connect(self, host: str, port: int) -> trio.abc.HalfCloseableStream:
        return await self.server.network.connect(self, host, port)

    async def _listen(self, host: str | None, port: int, purpose: str) -> tuple[Sequence[trio.abc.Listener[Any]], int]:
        if host == HOST:
            self.server.release_port()
            return await listen_tcp(host, port, purpose)
        assert host is not None, "the brokers have names in the memory network"
        return await self._network.listen(host, port), port

    async def run(self) -> None:
        broker = self.server
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    await nursery.start(self.program.run)
                    broker.port = self.program.ports[PLAINTEXT]
                    self.up.set()
        except Exception:
            if not self.dead:
                raise
        finally:
            broker.reserve_port()
            broker.process = None
            self.ended.set()
            self.up.set()

    def cancel(self) -> None:
        self._scope.cancel()

    async def end(self) -> None:
        """Cancel the process, and wait until it has ended."""
        self.cancel()
        await self.ended.wait()


class MemoryBroker:
    """A broker with its disk and its port, which outlive its processes."""

    def __init__(
        self,
        number: int,
        brokers: int,
        config: Mapping[str, ConfigValue],
        network: MemoryNetwork,
        open_session: Callable[[], AbstractAsyncContextManager[zab.Session]],
    ) -> None:
        self.id = number
        self.network = network
        self.open_session = open_session
        self.disk = memory_directory(f"the disk of broker {number}")
        self.port = 0
        """The port for clients; 0 before the first start."""
        self.process: BrokerProcess | None = None
        """The present process; None while the broker is down."""
        self._brokers = brokers
        self._config = config
        self._reservation: socket.socket | None = None
        """A socket that is bound to the port while the broker is down, so that no other program gets the port."""

    @property
    def program(self) -> Broker | None:
        """The running broker, if it serves clients."""
        return self.process.program if self.process is not None and self.process.serving else None

    def start(self, nursery: trio.Nursery) -> BrokerProcess:
        """Start a process of this broker, and return it at once."""
        config = broker_config(self.id, self._brokers, self.port, self._config)
        self.process = process = BrokerProcess(self, config)
        nursery.start_soon(process.run)
        return process

    async def stop(self) -> None:
        """Stop the broker in good order: its leaderships move to other brokers first."""
        process = self.process
        if process is not None:
            if process.serving:
                await process.program.leave()
            await process.end()

    async def kill(self, *, power_loss: bool) -> None:
        """Kill the broker at this instant: what it does while its tasks end has no effect."""
        process = self.process
        if process is None:
            return
        process.dead = True
        self.network.crashed(process)
        self.disk = copy.deepcopy(self.disk)  # the tasks that end keep the former one
        if power_loss:
            self.disk.crash()
        else:
            self.disk.kill()
        await process.end()

    # -- the port for clients -----------------------------------------------------------------------

    def reserve_port(self) -> None:
        """Keep the port while the broker is down. Connections to it are refused."""
        if self.port and self._reservation is None:
            self._reservation = reservation = socket.socket()
            reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):  # if another program was faster, the next start reports it
                reservation.bind((HOST, self.port))

    def release_port(self) -> None:
        if self._reservation is not None:
            self._reservation.close()
            self._reservation = None


def _no_sessions(directory: Path) -> tuple[int, ...]:
    return ()


def _remember_nothing(directory: Path, session: int) -> None:
    """Do nothing: the session of a killed broker is closed at once."""
