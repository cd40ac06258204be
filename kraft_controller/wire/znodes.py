"""The paths of the metadata's nodes, and their data in Kafka's format.

Two optional keys, `original_replicas` and `election`, are additions, which Kafka ignores. Unknown keys, which other
versions may write, are ignored here, too. A missing required key or an invalid value raises `DamagedNode`, which names
the node and the key.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from kraft_controller.core.names import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
    TopicPartition,
    Version,
)
from kraft_controller.core.state import Assignment, Broker, Endpoint, PartitionState, Recovery, Topic

CLUSTER_ID: Final = "/cluster/id"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
BROKERS: Final = "/brokers/ids"
SEQID: Final = "/brokers/seqid"
TOPICS: Final = "/brokers/topics"
ISR_CHANGES: Final = "/isr_change_notification"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN: Final = "/admin/reassign_partitions"
PREFERRED: Final = "/admin/preferred_replica_election"
CONFIG_CHANGES: Final = "/config/changes"
DEFAULT: Final = "<default>"
"""The name of the entity that holds the defaults of its type."""
PRODUCER_IDS: Final = "/latest_producer_id_block"

INT_MAX: Final = (1 << 31) - 1
"""The greatest broker id and partition number: Kafka's protocol has signed fields of 32 bits for them."""
EPOCH_MAX: Final = INT_MAX - 1
"""The greatest epoch that can still be incremented."""
PORT_MAX: Final = (1 << 16) - 1
LEVEL_MAX: Final = (1 << 15) - 1
LONG_MAX: Final = (1 << 63) - 1

PERSISTENT: Final = (
    "/consumers", BROKERS, TOPICS, CONFIG_CHANGES, DELETE_TOPICS, SEQID, ISR_CHANGES, PRODUCER_IDS, LOG_DIR_EVENTS,
    "/config/topics", "/config/clients", "/config/users", "/config/brokers", "/config/ips",
)  # fmt: skip
"""The persistent nodes that every broker creates when it starts."""


class DamagedNode(ValueError):
    """A node cannot be parsed: it is truncated, was written by hand, or has an unsupported old version, for example."""


def broker_path(broker: BrokerId) -> str:
    return f"{BROKERS}/{broker}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(where: TopicPartition) -> str:
    return f"{TOPICS}/{where.topic}/partitions/{where.partition}"


def state_path(where: TopicPartition) -> str:
    return partition_path(where) + "/state"


def nodes_of_partition(topic: str, name: str) -> tuple[str, str]:
    """Return the paths of a partition's nodes, children first. `name`: the name of its node below `partitions`."""
    path = f"{partitions_path(topic)}/{name}"
    return f"{path}/state", path


def config_path(kind: str, name: str) -> str:
    return f"/config/{kind}/{name}"


def sequence_of(path: str) -> int | None:
    """Return the number of a sequential node; None if the path does not end with ten digits."""
    digits = path[-10:]
    return int(digits) if digits.isdecimal() and len(path) > 10 else None


def in_sequence(parent: str, names: Iterable[str]) -> list[tuple[int, str]]:
    """Return the numbers and paths of the sequential nodes among these children, in order."""
    paths = [f"{parent}/{name}" for name in names]
    return sorted((number, path) for path in paths if (number := sequence_of(path)) is not None)


# -- JSON ----------------------------------------------------------------------------------------------


def _dump(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


class _Reader:
    """Reads the JSON object of one node, key by key."""

    def __init__(self, path: str, data: bytes | None, versions: Iterable[int]) -> None:
        self._path = path
        try:
            text = (data or b"").decode()
            value = json.loads(text)
            if "\\u" in text:  # a lone surrogate could not be encoded for clients
                json.dumps(value, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise DamagedNode(f"{path}: not JSON: {error}; the data begins with {(data or b'')[:60]!r}") from None
        if not isinstance(value, dict):
            raise DamagedNode(f"{path}: expected a JSON object, not {type(value).__name__}")
        self._value: dict[str, Any] = value
        self.version = int(self.get("version", _number))
        known = list(versions)
        if self.version < min(known):
            raise DamagedNode(f"{path}: version {self.version} is too old; the oldest supported one is {min(known)}")

    def has(self, key: str) -> bool:
        return self._value.get(key) is not None

    def get(self, key: str, made: Callable[[Any], Any], default: Any = None) -> Any:
        value = self._value.get(key)
        if value is None:
            if default is not None:
                return default
            raise DamagedNode(f"{self._path}: {key} is missing")
        try:
            return made(value)
        except (TypeError, ValueError, KeyError) as error:
            raise DamagedNode(f"{self._path}: {key}: {error}") from None


def _number(value: object) -> int:
    """Parse a number. Text is accepted, too, because Kafka writes some numbers as strings, such as producer ids."""
    if type(value) is int:
        return value
    if isinstance(value, str):
        return int(value)
    raise TypeError(f"expected a number, not {value!r}")


def _within(value: object, least: int, most: int, what: str) -> int:
    number = _number(value)
    if not least <= number <= most:
        raise ValueError(f"{number} is not a valid {what}; expected {least} to {most}")
    return number


def _broker(value: object) -> int:
    return _within(value, 0, INT_MAX, "broker id")


def _leader(value: object) -> int:
    return _within(value, -1, INT_MAX, "leader")


def _epoch(value: object) -> int:
    return _within(value, 0, EPOCH_MAX, "epoch")


def _port(value: object) -> int:
    return _within(value, 0, PORT_MAX, "port")


def _level(value: object) -> int:
    return _within(value, 0, LEVEL_MAX, "version of a feature")


def _block(value: object) -> int:
    return _within(value, 0, LONG_MAX, "producer id")


def _partition(value: object) -> int:
    return _within(value, 0, INT_MAX, "partition")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, not {value!r}")
    return value


def _topic_id(value: object) -> str:
    text = _text(value)
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except ValueError:
        raw = b""
    if len(raw) != 16 or len(text) != 22:
        raise ValueError(f"{text!r:.40} is not a topic id: 22 characters of base64 for 16 bytes")
    return text


def _brokers(value: object) -> tuple[BrokerId, ...]:
    if not isinstance(value, list) or any(type(item) is not int for item in value):
        raise TypeError(f"expected a list of broker ids, not {value!r}")
    for item in value:
        _broker(item)
    if len(set(value)) != len(value):
        raise ValueError(f"a broker is listed twice in {value!r}")
    return tuple(BrokerId(item) for item in value)


def _by_partition(value: object) -> dict[int, tuple[BrokerId, ...]]:
    if not isinstance(value, dict):
        raise TypeError(f"expected an object with partition numbers as keys, not {value!r}")
    return {_partition(key): _brokers(brokers) for key, brokers in value.items()}


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or any(not isinstance(text, str) for text in value.values()):
        raise TypeError(f"expected a JSON object with string values, not {value!r}")
    return dict(value)


# -- controller ----------------------------------------------------------------------------------------


def controller(broker: BrokerId, now_ms: int) -> bytes:
    return _dump({"version": 2, "brokerid": broker, "timestamp": str(now_ms), "kraftControllerEpoch": -1})


def read_controller(data: bytes | None) -> BrokerId:
    return BrokerId(_Reader(CONTROLLER, data, (1, 2)).get("brokerid", _broker))


def controller_epoch(epoch: ControllerEpoch) -> bytes:
    return b"%d" % epoch


def read_controller_epoch(data: bytes | None) -> ControllerEpoch:
    try:
        return ControllerEpoch(_epoch(int(data or b"")))
    except ValueError:
        raise DamagedNode(
            f"{CONTROLLER_EPOCH}: expected a number from 0 to {EPOCH_MAX}, not {(data or b'')[:60]!r}"
        ) from None


def cluster_id(ident: str) -> bytes:
    return _dump({"version": "1", "id": ident})


def read_cluster_id(data: bytes | None) -> str:
    return str(_Reader(CLUSTER_ID, data, (1,)).get("id", _text))


# -- brokers -------------------------------------------------------------------------------------------


def broker(registered: Broker, now_ms: int, jmx_port: int = -1) -> bytes:
    plain = next(
        (each for each in registered.endpoints if registered.protocols.get(each.listener) == "PLAINTEXT"), None
    )
    made: dict[str, object] = {
        "features": {
            name: {"min_version": least, "max_version": most} for name, (least, most) in registered.features.items()
        },
        "listener_security_protocol_map": dict(registered.protocols),
        "endpoints": [
            f"{each.listener}://{f'[{each.host}]' if ':' in each.host else each.host}:{each.port}"
            for each in registered.endpoints
        ],
        "jmx_port": jmx_port,
        "port": plain.port if plain else -1,
        "host": plain.host if plain else None,
        "version": 5,
        "timestamp": str(now_ms),
    }
    if registered.rack is not None:
        made["rack"] = registered.rack
    return _dump(made)


def read_broker(ident: BrokerId, data: bytes | None, epoch: BrokerEpoch) -> Broker:
    if ident > INT_MAX:
        raise DamagedNode(f"{broker_path(ident)}: {ident} is not a valid broker id; expected 0 to {INT_MAX}")
    reader = _Reader(broker_path(ident), data, (1, 2, 3, 4, 5))
    if reader.version == 1:
        host, port = reader.get("host", _text), reader.get("port", _port)
        return Broker(ident, epoch, (Endpoint("PLAINTEXT", host, port),), {"PLAINTEXT": "PLAINTEXT"})
    endpoints: tuple[Endpoint, ...] = reader.get("endpoints", _endpoints)
    protocols = reader.get(
        "listener_security_protocol_map", _texts, {each.listener: each.listener for each in endpoints}
    )
    rack = reader.get("rack", _text) if reader.has("rack") else None
    return Broker(ident, epoch, endpoints, protocols, rack, reader.get("features", _features, {}))


def _endpoints(value: object) -> tuple[Endpoint, ...]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, not {value!r}")
    return tuple(_endpoint(_text(text)) for text in value)


def _endpoint(text: str) -> Endpoint:
    listener, mark, rest = text.partition("://")
    host, colon, port = rest.rpartition(":")
    if not mark or not colon or not listener:
        raise ValueError(f"{text!r} is not LISTENER://host:port")
    return Endpoint(listener, host.removeprefix("[").removesuffix("]"), _port(port))


def _features(value: object) -> dict[str, tuple[int, int]]:
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, not {value!r}")
    return {name: (_level(span["min_version"]), _level(span["max_version"])) for name, span in value.items()}


# -- topics --------------------------------------------------------------------------------------------


def new_topic_id(random_bytes: Callable[[int], bytes]) -> TopicId:
    """Return a random id of 128 bits, as 22 characters.

    Skip ids that Kafka reserves, and those that begin with `-`, which commands would take for options.
    """
    while True:
        raw = random_bytes(16)
        text = base64.urlsafe_b64encode(raw).decode().rstrip("=")
        if int.from_bytes(raw) > 1 and not text.startswith("-"):
            return TopicId(text)


def topic(ident: TopicId | None, partitions: Mapping[int, Assignment]) -> bytes:
    """Encode a topic as Kafka's controllers do, with one more key if necessary.

    If a reassignment changes the order of the replicas that stay, `original_replicas` has their previous order, which a
    cancellation restores. Kafka's controllers ignore this key.
    """

    def lists(which: Callable[[Assignment], Sequence[BrokerId]], every: bool = False) -> dict[str, list[int]]:
        return {str(number): list(which(held)) for number, held in partitions.items() if every or which(held)}

    made: dict[str, object] = {
        "removing_replicas": lists(lambda held: held.removing),
        "partitions": lists(lambda held: held.replicas, every=True),
        "adding_replicas": lists(lambda held: held.adding),
        "version": 3,
    }
    if any(held.before for held in partitions.values()):
        made["original_replicas"] = lists(lambda held: held.before)
    if ident is None:
        made["version"] = 2
    else:
        made = {"topic_id": ident, **made}
    return _dump(made)


def read_topic(name: str, data: bytes | None, version: Version) -> Topic:
    path = topic_path(name)
    reader = _Reader(path, data, (1, 2, 3))
    replicas: dict[int, tuple[BrokerId, ...]] = reader.get("partitions", _by_partition)
    adding: dict[int, tuple[BrokerId, ...]] = reader.get("adding_replicas", _by_partition, {})
    removing: dict[int, tuple[BrokerId, ...]] = reader.get("removing_replicas", _by_partition, {})
    original: dict[int, tuple[BrokerId, ...]] = reader.get("original_replicas", _by_partition, {})
    for number in sorted({*adding, *removing} - set(replicas)):
        raise DamagedNode(
            f"{path}: partition {number} has adding or removing replicas, but is not among the partitions "
            f"{sorted(replicas)}"
        )
    made = {}
    for number, brokers in replicas.items():
        if not brokers:
            raise DamagedNode(f"{path}: partition {number} has no replicas")
        one = Assignment(brokers, adding.get(number, ()), removing.get(number, ()), original.get(number, ()))
        stray = sorted({*one.adding, *one.removing} - set(brokers))
        if stray:
            raise DamagedNode(
                f"{path}: partition {number}: adding or removing replicas {stray} are not among its replicas "
                f"{list(brokers)}"
            )
        made[number] = one
    return Topic(name, TopicId(reader.get("topic_id", _topic_id)) if reader.has("topic_id") else None, made, version)


def partition_state(state: PartitionState) -> bytes:
    made: dict[str, object] = {
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "version": 1,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
    }
    if state.recovery is not Recovery.RECOVERED:
        made["leader_recovery_state"] = int(state.recovery)
    return _dump(made)


def read_partition_state(where: TopicPartition, data: bytes | None, version: Version) -> PartitionState:
    reader = _Reader(state_path(where), data, (1,))
    return PartitionState(
        BrokerId(reader.get("leader", _leader)),
        reader.get("isr", _brokers),
        LeaderEpoch(reader.get("leader_epoch", _epoch)),
        ControllerEpoch(reader.get("controller_epoch", _epoch)),
        reader.get("leader_recovery_state", Recovery, Recovery.RECOVERED),
        version,
    )


# -- requests and notifications ---------------------------------------------------------------


def _partition_list(value: object) -> tuple[TopicPartition, ...]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, not {value!r}")
    return tuple(TopicPartition(_text(item["topic"]), _partition(item["partition"])) for item in value)


def partitions(which: Iterable[TopicPartition]) -> bytes:
    """Encode an ISR change notification, or a request for preferred leader elections."""
    return _dump({"version": 1, "partitions": [{"topic": one.topic, "partition": one.partition} for one in which]})


def read_partitions(path: str, data: bytes | None) -> tuple[TopicPartition, ...]:
    found: tuple[TopicPartition, ...] = _Reader(path, data, (1,)).get("partitions", _partition_list)
    return found


def elections(which: Iterable[TopicPartition], *, unclean: bool = False) -> bytes:
    """Encode a request for elections. A request for unclean elections has an additional key, which Kafka's controller
    ignores."""
    listed = [{"topic": one.topic, "partition": one.partition} for one in which]
    return _dump({"version": 1, "partitions": listed, **({"election": "unclean"} if unclean else {})})


def read_elections(data: bytes | None) -> tuple[tuple[TopicPartition, ...], bool]:
    reader = _Reader(PREFERRED, data, (1,))
    named: tuple[TopicPartition, ...] = reader.get("partitions", _partition_list)
    kind = reader.get("election", _text, "preferred")
    if kind not in ("preferred", "unclean"):
        raise DamagedNode(f"{PREFERRED}: election: expected preferred or unclean, not {kind!r}")
    return named, kind == "unclean"


def reassignment(wanted: Mapping[TopicPartition, Sequence[BrokerId]]) -> bytes:
    listed = [
        {"topic": one.topic, "partition": one.partition, "replicas": list(brokers)} for one, brokers in wanted.items()
    ]
    return _dump({"version": 1, "partitions": listed})


def read_reassignment(data: bytes | None) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    def made(value: object) -> dict[TopicPartition, tuple[BrokerId, ...]]:
        keys = _partition_list(value)
        assert isinstance(value, list)
        return {key: _brokers(item["replicas"]) for key, item in zip(keys, value, strict=True)}

    found: dict[TopicPartition, tuple[BrokerId, ...]] = _Reader(REASSIGN, data, (1,)).get("partitions", made)
    return found


def log_dir_event(broker: BrokerId) -> bytes:
    return _dump({"version": 1, "broker": broker, "event": 1})


def read_log_dir_event(path: str, data: bytes | None) -> BrokerId:
    return BrokerId(_Reader(path, data, (1,)).get("broker", _broker))


def config(values: Mapping[str, str]) -> bytes:
    return _dump({"version": 1, "config": dict(values)})


def read_config(path: str, data: bytes | None) -> dict[str, str]:
    if not data:
        return {}  # the node is only a parent, for example of the clients of a user
    found: dict[str, str] = _Reader(path, data, (1,)).get("config", _texts, {})
    return found


def config_change(kind: str, name: str) -> bytes:
    return _dump({"version": 2, "entity_path": f"{kind}/{name}"})


def read_config_change(path: str, data: bytes | None) -> str:
    """Return the changed entity, such as `topics/<name>`. Version 1 has type and name in two keys."""
    reader = _Reader(path, data, (1, 2))
    if reader.version == 1:
        return _entity(path, f"{reader.get('entity_type', _text)}/{reader.get('entity_name', _text)}")
    return _entity(path, reader.get("entity_path", _text))


def _entity(path: str, named: str) -> str:
    """Return the entity, such as `topics/<name>`, if it can be the end of a path; otherwise raise `DamagedNode`."""
    steps = named.split("/")
    if len(steps) < 2 or any(step in ("", ".", "..") or not step.isprintable() for step in steps):
        raise DamagedNode(f"{path}: {named!r:.80} is not an entity such as topics/t")
    return named


def producer_ids(broker: BrokerId, first: int, last: int) -> bytes:
    return _dump({"version": 1, "broker": broker, "block_start": str(first), "block_end": str(last)})


def read_producer_ids(data: bytes | None) -> tuple[BrokerId, int, int]:
    reader = _Reader(PRODUCER_IDS, data, (1,))
    return BrokerId(reader.get("broker", _broker)), reader.get("block_start", _block), reader.get("block_end", _block)
