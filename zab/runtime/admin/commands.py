"""The commands of ZooKeeper's admin server: by name, each a question to a server that gives names and values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from attrs import field, frozen

if TYPE_CHECKING:
    from zab.runtime.coordination.server import StoreServer


@frozen
class Outcome:
    command: str
    values: Mapping[str, object] = field(factory=dict)
    error: str | None = None
    status: HTTPStatus = HTTPStatus.OK


@frozen
class Command:
    names: tuple[str, ...]
    handler: Callable[[StoreServer], Mapping[str, object]]
    needs_server: bool = True
    """Whether there must be a leader."""


def _ruok(server: StoreServer) -> Mapping[str, object]:
    return {}


_ALL: Final = (Command(("ruok",), _ruok, needs_server=False),)
COMMANDS: Final[Mapping[str, Command]] = {name: command for command in _ALL for name in command.names}
NAMES: Final = tuple(command.names[0] for command in _ALL)


def run(name: str, server: StoreServer) -> Outcome:
    command = COMMANDS.get(name)
    if command is None:
        return Outcome(name, error=f"Unknown command: {name}", status=HTTPStatus.NOT_FOUND)
    return Outcome(command.names[0], command.handler(server))
