"""A Kafka controller whose metadata is in the nodes of a coordination store, in Kafka's own layout.

Brokers register in the store, and one of them is elected controller. It elects the leaders of partitions, writes its
decisions to the store, and sends them to all brokers. The package runs on Trio, inside the program that stores the
records:

    me = Broker(BrokerId(1), NO_EPOCH, (Endpoint("CONTROLLER", "127.0.0.1", port),), {"CONTROLLER": "PLAINTEXT"})
    registration = Registration(partial(zab.connect, "127.0.0.1:2181"), me, wall_ms)
    commands = CommandServer(ControllerCommandHandler(lambda: registration.accepts_from, execute, me=me.id))

    async def live(session):                                 # while one session with the store lasts
        connections = CommandConnections(lambda event: controller.note(event))
        controller = Controller(session, me.id, connections, ControllerEnvironment(wall_ms, os.urandom))
        async with trio.open_nursery() as nursery:
            await nursery.start(connections.run)
            nursery.start_soon(controller.run)

    await registration.run(live)                             # beside a listener with the handler `commands.serve`

`docs/howto/embed-a-controller.md` has a complete program. Administrators use the command `zab-broker`, or functions of
this package such as `create_topic` and `describe_cluster`. Names are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kraft_controller.core.broker_epoch import NO_EPOCH
    from kraft_controller.core.broker_request_batch import CommandSink
    from kraft_controller.core.cluster_health import Health, health
    from kraft_controller.core.command_handler import ControllerCommandHandler
    from kraft_controller.core.commands import LeaderAndIsr, Role, Stop, StopReplica, UpdateMetadata
    from kraft_controller.core.configuration.config_keys import ConfigError, values_of
    from kraft_controller.core.configuration.throttles import Throttles
    from kraft_controller.core.controller_context import ControllerSettings
    from kraft_controller.core.controller_events import (
        AlterPartitionRequested,
        AlterReassignmentsRequested,
        ControlledShutdownRequested,
        ElectLeadersRequested,
        StaleBrokerEpoch,
    )
    from kraft_controller.core.event_queue import NotController
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
    from kraft_controller.core.topics.alter_partition import IsrChange, IsrChangeResult, IsrMember
    from kraft_controller.runtime.admin.cluster_description import ClusterDescription, describe_cluster
    from kraft_controller.runtime.admin.election_requests import ask_for_elections
    from kraft_controller.runtime.admin.entity_configs import Entity, NoSuchEntity, alter_config, read_config
    from kraft_controller.runtime.admin.topic_requests import (
        TopicError,
        add_partitions,
        create_topic,
        delete_topic,
        plan_topic,
    )
    from kraft_controller.runtime.command_connections import CommandConnections, ConnectionSettings
    from kraft_controller.runtime.command_server import CommandServer
    from kraft_controller.runtime.config_feed import ConfigFeed
    from kraft_controller.runtime.controller import Controller, ControllerEnvironment, Pace
    from kraft_controller.runtime.controller_metrics import Sample, exposition, samples
    from kraft_controller.runtime.meta_properties import (
        claim,
        former_sessions,
        known_cluster,
        known_id,
        remember_session,
    )
    from kraft_controller.runtime.operator_port import OperatorPort, controller_health
    from kraft_controller.runtime.registration import (
        BrokerIdTaken,
        Registration,
        RegistrationSettings,
        cluster_id,
        generated_id,
        prepare,
    )
    from kraft_controller.wire.broker_identity import WrongIdentity

_WHERE: Final = {
    "core.names": ("BrokerEpoch", "BrokerId", "ControllerEpoch", "LeaderEpoch", "TopicId", "TopicPartition", "Version"),
    "core.state": ("Assignment", "Broker", "Endpoint", "PartitionState", "Topic"),
    # a broker's registration in the store
    "core.broker_epoch": ("NO_EPOCH",),
    "runtime.registration": (
        "BrokerIdTaken", "Registration", "RegistrationSettings", "cluster_id", "generated_id", "prepare",
    ),
    "wire.broker_identity": ("WrongIdentity",),
    "runtime.meta_properties": (
        "claim", "former_sessions", "known_cluster", "known_id", "remember_session",
    ),
    # a broker's candidacy, and the commands that it sends as the controller
    "runtime.controller": ("ControllerEnvironment", "Controller", "Pace"),
    "core.controller_context": ("ControllerSettings",),
    "core.broker_request_batch": ("CommandSink",),
    "runtime.command_connections": ("CommandConnections", "ConnectionSettings"),
    "core.event_queue": ("NotController",),
    # requests to the controller
    "core.controller_events": (
        "AlterPartitionRequested", "AlterReassignmentsRequested", "ControlledShutdownRequested",
        "ElectLeadersRequested", "StaleBrokerEpoch",
    ),
    "core.topics.alter_partition": ("IsrChange", "IsrChangeResult", "IsrMember"),
    # commands and configurations that brokers receive
    "core.command_handler": ("ControllerCommandHandler",),
    "runtime.command_server": ("CommandServer",),
    "core.commands": ("LeaderAndIsr", "Role", "Stop", "StopReplica", "UpdateMetadata"),
    "runtime.config_feed": ("ConfigFeed",),
    "core.configuration.config_keys": ("ConfigError", "values_of"),
    "core.configuration.throttles": ("Throttles",),
    # administration
    "runtime.admin.cluster_description": ("ClusterDescription", "describe_cluster"),
    "runtime.admin.topic_requests": ("TopicError", "add_partitions", "create_topic", "delete_topic", "plan_topic"),
    "runtime.admin.entity_configs": ("Entity", "NoSuchEntity", "alter_config", "read_config"),
    "runtime.admin.election_requests": ("ask_for_elections",),
    # observation by operators
    "core.cluster_health": ("Health", "health"),
    "runtime.controller_metrics": ("Sample", "exposition", "samples"),
    "runtime.operator_port": ("OperatorPort", "controller_health"),
}  # fmt: skip
_MODULE_OF: Final = {name: f"kraft_controller.{module}" for module, names in _WHERE.items() for name in names}

__all__ = [
    # names and values of the cluster
    "BrokerEpoch", "BrokerId", "ControllerEpoch", "LeaderEpoch", "TopicId", "TopicPartition", "Version",
    "Assignment", "Broker", "Endpoint", "PartitionState", "Topic",
    # the registration of a broker
    "NO_EPOCH", "BrokerIdTaken", "Registration", "RegistrationSettings", "cluster_id", "generated_id", "prepare",
    "WrongIdentity", "claim", "former_sessions", "known_cluster", "known_id", "remember_session",
    # the controller
    "ControllerEnvironment", "Controller", "Pace", "ControllerSettings", "CommandSink", "CommandConnections",
    "ConnectionSettings",
    # requests to the controller
    "NotController", "AlterPartitionRequested", "AlterReassignmentsRequested", "ControlledShutdownRequested",
    "ElectLeadersRequested", "StaleBrokerEpoch", "IsrChange", "IsrChangeResult", "IsrMember",
    # commands and configurations that brokers receive
    "ControllerCommandHandler", "CommandServer", "LeaderAndIsr", "Role", "Stop", "StopReplica", "UpdateMetadata",
    "ConfigFeed", "ConfigError", "values_of", "Throttles",
    # administration
    "ClusterDescription", "describe_cluster", "TopicError", "add_partitions", "create_topic", "delete_topic",
    "plan_topic",
    "Entity", "NoSuchEntity", "alter_config", "read_config", "ask_for_elections",
    # observation by operators
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
