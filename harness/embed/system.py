"""The system under test: the user's machine with its model, its requests and its state."""

from __future__ import annotations

from attrs import frozen

from harness.embed.model import Draw, Make, Model, check_makes, check_model, drawing
from harness.embed.state import State, check_state

MODEL, REQUESTS, STATE = "model", "requests", "state"


@frozen
class SystemUnderTest:
    name: str
    """`module:Class`, as scripts store it."""
    make: Make
    model: Model
    draw: Draw
    state: State


def system_of(machine: object, name: str, *, model: object, requests: object, state: object) -> SystemUnderTest:
    """Check each part, and put them together. By default the requests are the model's own `requests(random)`."""
    make = check_makes(machine)
    theirs = check_model(model)
    return SystemUnderTest(
        name,
        make,
        theirs,
        drawing(requests if requests is not None else getattr(theirs, REQUESTS, None)),
        check_state(state),
    )
