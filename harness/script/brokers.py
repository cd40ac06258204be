"""What happens to brokers and what people ask of their controller; only where the machine is the controller.

A broker is its number; `CONTROLLER` is whoever is the controller at that moment. A topic is a number, too, and its
partitions are counted from 0. `way` says how people ask: through the node for it, or of the controller itself.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import frozen

CONTROLLER: Final = 0
WAYS: Final = ("node", "call")

# -- what people ask -------------------------------------------------------------------------------------


@frozen
class CreateTopic:
    """Its replicas stand on brokers in turn, from another one for each partition."""

    at: int
    topic: int = 1
    partitions: int = 2
    factor: int = 2


@frozen
class GrowTopic:
    """By so many partitions, as its first one has replicas."""

    at: int
    topic: int = 1
    partitions: int = 1


@frozen
class DeleteTopic:
    """All of it, also what is on the move."""

    at: int
    topic: int = 1


@frozen
class Reassign:
    """To so many brokers, from the one that is named on."""

    at: int
    topic: int = 1
    partition: int = 0
    first: int = 1
    factor: int = 2
    way: str = "node"


@frozen
class CancelMove:
    """Back to where it came from. Always asked of the controller itself."""

    at: int
    topic: int = 1
    partition: int = 0


@frozen
class ElectPreferred:
    """Its first replica is to lead again."""

    at: int
    topic: int = 1
    partition: int = 0
    way: str = "node"


@frozen
class Balance:
    """The time has come to give partitions back to who is preferred to lead them."""

    at: int


@frozen
class Resign:
    """The term of the controller ends, but not its session: an error ends it, or an operator deletes `/controller`."""

    at: int


# -- what happens to brokers -----------------------------------------------------------------------------


@frozen
class KillBroker:
    """Its session ends when nobody has heard of it for its time."""

    at: int
    down_ms: int = 300
    broker: int = CONTROLLER


@frozen
class BounceBroker:
    """It ends, its session with it, and is back before anybody can have noticed."""

    at: int
    broker: int = CONTROLLER


@frozen
class Depart:
    """It asks the controller to be let go, and ends."""

    at: int
    down_ms: int = 300
    broker: int = 1


@frozen
class PauseBroker:
    """It stands still, and finds itself back when others have gone on without it."""

    at: int
    for_ms: int = 1_500
    broker: int = CONTROLLER


@frozen
class LoseStore:
    """The broker cannot reach the store, and goes on in every other way."""

    at: int
    for_ms: int = 1_500
    broker: int = CONTROLLER


@frozen
class LoseController:
    """No controller can reach the broker."""

    at: int
    for_ms: int = 500
    broker: int = 1


BrokerOp: TypeAlias = (
    CreateTopic | GrowTopic | DeleteTopic | Reassign | CancelMove | ElectPreferred | Balance | Resign | KillBroker
    | BounceBroker | Depart | PauseBroker | LoseStore | LoseController
)  # fmt: skip
BROKER_OPS: Final[tuple[type[BrokerOp], ...]] = (
    CreateTopic, GrowTopic, DeleteTopic, Reassign, CancelMove, ElectPreferred, Balance, Resign, KillBroker,
    BounceBroker, Depart, PauseBroker, LoseStore, LoseController,
)  # fmt: skip
