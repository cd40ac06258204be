"""Commands with verbs. The handler of a verb gets a connection, and one object with the values of all parameters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias, TypeVar

import click

Arguments: TypeAlias = SimpleNamespace
"""The values of all parameters of a command, by their names."""
Handler: TypeAlias = Callable[[Any, Arguments], Awaitable[int]]
"""Does the work of a verb with a connection, and returns the exit status."""
Connect: TypeAlias = Callable[[Handler, Arguments], int]
"""Opens the connection that the arguments describe, and runs a handler with it."""
H = TypeVar("H", bound=Handler)


class Verbs(click.Group):
    """A group of commands that share the options from `common`. `connect` opens the connection of each command."""

    def __init__(
        self, *arguments: Any, connect: Connect, common: Callable[[], Sequence[click.Parameter]], **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._connect = connect
        self._common = common

    def verb(self, name: str, about: str) -> Callable[[H], H]:
        """Return a decorator that makes a handler a command. Click decorators below it add the command's parameters."""

        def register(handler: H) -> H:
            self.add_command(connected_command(name, about, handler, self._connect, self._common()))
            return handler

        return register


def connected_command(
    name: str, about: str, handler: Handler, connect: Connect, common: Sequence[click.Parameter]
) -> click.Command:
    """Make a command of a handler and its own parameters, followed by the common ones."""

    def run(**values: object) -> int:
        return connect(handler, Arguments(**values))

    run.__click_params__ = getattr(handler, "__click_params__", [])  # type: ignore[attr-defined]  # click's own name
    command = click.command(name, help=about)(run)
    command.params += common
    return command


def params_of(*options: Callable[[Any], Any]) -> list[click.Parameter]:
    """Return the parameters that these decorators of click make, in this order."""

    def bare() -> None: ...

    for option in reversed(options):
        option(bare)
    return list(reversed(getattr(bare, "__click_params__", [])))
