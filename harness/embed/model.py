"""The system under test: the user's machine, its model, its requests and its state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, Protocol, TypeAlias

from attrs import frozen

from harness.embed.state import State, check_state
from zab.service.replicated_machine import Machine


class Model(Protocol):
    """The machine as one object in one process. States are values: `step` must not change them.

    `step` may raise `zab.Refused` in the cases in which `prepare` of the machine does.
    """

    def initial(self) -> Any:
        """Return the state before the first request."""
        ...

    def step(self, state: Any, request: bytes) -> tuple[Any, Any]:
        """Return the next state and the result."""
        ...


Make: TypeAlias = Callable[[], Machine]
Draw: TypeAlias = Callable[[Random], bytes]
MACHINE_METHODS: Final = ("prepare", "apply", "snapshot", "restore")
MODEL_METHODS: Final = ("initial", "step")
MODEL, REQUESTS, STATE = "model", "requests", "state"


def lacks(made: object, methods: Sequence[str]) -> list[str]:
    return [name for name in methods if not callable(getattr(made, name, None))]


def check_makes(make: object) -> Make:
    """Check, before anything runs, that calling `make` returns a machine."""
    if not callable(make):
        raise TypeError(f"each start of a server makes a new machine: give the class, not {make!r}")
    made: Any = make()
    missing = lacks(made, MACHINE_METHODS)
    if missing:
        raise TypeError(f"{type(made).__name__} is no machine: it has no {', '.join(missing)}; see zab.Machine")
    return make


def check_model(model: object) -> Model:
    made: Any = model() if isinstance(model, type) else model
    missing = lacks(made, MODEL_METHODS)
    if missing:
        raise TypeError(f"{type(made).__name__} is no model: it has no {', '.join(missing)}")
    found: Model = made
    return found


def drawing(requests: object) -> Draw:
    """Return a function that generates a request.

    `requests` is such a function of a `Random`, a list to choose from, or a strategy of Hypothesis.
    """
    if callable(requests) and not hasattr(requests, "example"):
        draw: Draw = requests
    else:
        pool = _pool(requests)

        def draw(random: Random) -> bytes:
            return pool[int(random.random() * len(pool))]

    drawn: object = draw(Random(0))
    if not isinstance(drawn, bytes):
        raise TypeError(f"a request must be bytes, not {type(drawn).__name__}")
    return draw


def _pool(requests: Any) -> Sequence[bytes]:
    if not hasattr(requests, "example"):
        if isinstance(requests, list | tuple) and requests:
            return requests
        raise TypeError("requests: a function of a random.Random, a list of requests, or a strategy of Hypothesis")
    from hypothesis import HealthCheck, Phase, given, seed, settings  # it is slow to import, and may not be needed

    found: list[bytes] = []

    @seed(1)
    @settings(
        max_examples=300, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(requests)
    def collect(request: bytes) -> None:
        found.append(request)

    collect()
    return found


@frozen
class SystemUnderTest:
    name: str
    """`module:Class`, as scripts store it."""
    make: Make
    model: Model
    draw: Draw
    state: State


def system_of(machine: object, name: str, *, model: object, requests: object, state: object) -> SystemUnderTest:
    """Check each part, and combine them. By default the requests are `requests(random)` of the model."""
    make = check_makes(machine)
    checked_model = check_model(model)
    return SystemUnderTest(
        name,
        make,
        checked_model,
        drawing(requests if requests is not None else getattr(checked_model, REQUESTS, None)),
        check_state(state),
    )
