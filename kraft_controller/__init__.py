"""A controller as Kafka had it, whose metadata are nodes of a coordination store, in Kafka's own layout.

Brokers register at the store and stand for election. The one that is elected decides who leads which partition, writes
that down, and tells the others. It runs inside a program of yours, on Trio, beside whatever keeps the records:

    me = Broker(BrokerId(1), NO_EPOCH, (Endpoint("CONTROLLER", "127.0.0.1", port),), {"CONTROLLER": "PLAINTEXT"})
    registration = Registration(partial(zab.connect, "127.0.0.1:2181"), me, wall_ms)
    orders = Orders(lambda: registration.epoch, obey, me=me.id)  # serve its `serve` there: it hears controllers

    async def live(session):                                 # while one session with the store lasts
        links = BrokerLinks(lambda event: controller.note(event), LinkSettings(listener="CONTROLLER"))
        controller = Controller(session, me.id, links, Chance(wall_ms, os.urandom))
        async with trio.open_nursery() as nursery:
            await nursery.start(links.run)
            nursery.start_soon(controller.run)

    await registration.run(live)

`docs/howto/embed-a-controller.md` has all of it, and runs. What people ask of a cluster is `zab-broker`, and the
functions under it: `create_topic`, `read_picture` and others. Names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kraft_controller.core.commands import LeaderAndIsr, Role, Stop, StopReplica, UpdateMetadata
    from kraft_controller.core.configs import ConfigError, values_of
    from kraft_controller.core.desk import Settings
    from kraft_controller.core.events import ElectionAsked, IsrAsked, MovesAsked, ShutdownAsked, StaleBrokerEpoch
    from kraft_controller.core.health import Health, health
    from kraft_controller.core.isr import Granted, Member, Wish
    from kraft_controller.core.names import (
        BrokerEpoch,
        BrokerId,
        ControllerEpoch,
        LeaderEpoch,
        TopicId,
        TopicPartition,
        Version,
    )
    from kraft_controller.core.state import Assignment, Broker, Endpoint, PartitionState, Topic
    from kraft_controller.core.throttles import Throttles
    from kraft_controller.runtime.admin.configs import Entity, NoSuchEntity, alter_config, read_config
    from kraft_controller.runtime.admin.elections import ask_for_elections
    from kraft_controller.runtime.admin.picture import Picture, read_picture
    from kraft_controller.runtime.admin.topics import TopicError, add_partitions, create_topic, delete_topic, plan_topic
    from kraft_controller.runtime.controller import Chance, Controller, Links, Pace
    from kraft_controller.runtime.feed import ConfigFeed
    from kraft_controller.runtime.identity import (
        WrongIdentity,
        claim,
        former_sessions,
        known_cluster,
        known_id,
        remember_session,
    )
    from kraft_controller.runtime.links import BrokerLinks, LinkSettings
    from kraft_controller.runtime.metrics import Sample, exposition, samples
    from kraft_controller.runtime.operators import OperatorPort, controller_health
    from kraft_controller.runtime.orders import Orders
    from kraft_controller.runtime.queue import NotController
    from kraft_controller.runtime.registration import (
        NO_EPOCH,
        BrokerIdTaken,
        Registration,
        RegistrationSettings,
        cluster_id,
        generated_id,
        prepare,
    )

_WHERE: Final = {
    "core.names": ("BrokerEpoch", "BrokerId", "ControllerEpoch", "LeaderEpoch", "TopicId", "TopicPartition", "Version"),
    "core.state": ("Assignment", "Broker", "Endpoint", "PartitionState", "Topic"),
    # a broker at the store
    "runtime.registration": (
        "NO_EPOCH", "BrokerIdTaken", "Registration", "RegistrationSettings", "cluster_id", "generated_id", "prepare",
    ),
    "runtime.identity": ("WrongIdentity", "claim", "former_sessions", "known_cluster", "known_id", "remember_session"),
    # its candidacy, and what it says when it is elected
    "runtime.controller": ("Chance", "Controller", "Links", "Pace"),
    "core.desk": ("Settings",),
    "runtime.links": ("BrokerLinks", "LinkSettings"),
    "runtime.queue": ("NotController",),
    # what may be asked of who is the controller
    "core.events": ("ElectionAsked", "IsrAsked", "MovesAsked", "ShutdownAsked", "StaleBrokerEpoch"),
    "core.isr": ("Granted", "Member", "Wish"),
    # what brokers hear, from controllers and from whoever configures them
    "runtime.orders": ("Orders",),
    "core.commands": ("LeaderAndIsr", "Role", "Stop", "StopReplica", "UpdateMetadata"),
    "runtime.feed": ("ConfigFeed",),
    "core.configs": ("ConfigError", "values_of"),
    "core.throttles": ("Throttles",),
    # what people and their tools do
    "runtime.admin.picture": ("Picture", "read_picture"),
    "runtime.admin.topics": ("TopicError", "add_partitions", "create_topic", "delete_topic", "plan_topic"),
    "runtime.admin.configs": ("Entity", "NoSuchEntity", "alter_config", "read_config"),
    "runtime.admin.elections": ("ask_for_elections",),
    # what operators look at
    "core.health": ("Health", "health"),
    "runtime.metrics": ("Sample", "exposition", "samples"),
    "runtime.operators": ("OperatorPort", "controller_health"),
}  # fmt: skip
_MODULE_OF: Final = {name: f"kraft_controller.{module}" for module, names in _WHERE.items() for name in names}

__all__ = [
    "BrokerEpoch", "BrokerId", "ControllerEpoch", "LeaderEpoch", "TopicId", "TopicPartition", "Version",
    "Assignment", "Broker", "Endpoint", "PartitionState", "Topic",
    "NO_EPOCH", "BrokerIdTaken", "Registration", "RegistrationSettings", "cluster_id", "generated_id", "prepare",
    "WrongIdentity", "claim", "former_sessions", "known_cluster", "known_id", "remember_session",
    "Chance", "Controller", "Links", "Pace", "Settings", "BrokerLinks", "LinkSettings", "NotController",
    "ElectionAsked", "IsrAsked", "MovesAsked", "ShutdownAsked", "StaleBrokerEpoch", "Granted", "Member", "Wish",
    "Orders", "LeaderAndIsr", "Role", "Stop", "StopReplica", "UpdateMetadata",
    "ConfigFeed", "ConfigError", "values_of", "Throttles",
    "Picture", "read_picture", "TopicError", "add_partitions", "create_topic", "delete_topic", "plan_topic",
    "Entity", "NoSuchEntity", "alter_config", "read_config", "ask_for_elections",
    "Health", "health", "Sample", "exposition", "samples", "OperatorPort", "controller_health",
]  # fmt: skip


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'kraft_controller' has no attribute {name!r}")
    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
