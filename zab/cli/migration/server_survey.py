"""Queries to all members of an ensemble: four-letter words first, then ZooKeeper's admin port for what they refuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio
from attrs import evolve, frozen

from zab.admin.admin_query import ask_word, http_get, json_object
from zab.cli.migration.ensemble_config import EnsembleConfig
from zab.cli.migration.server_answers import Answers, ServerState, newest_zxid, state_of, with_distances
from zab.core.addresses import with_port
from zab.core.ensemble import Server
from zab.runtime.peer_handshake import described

Address = tuple[str, int]


@frozen
class MemberAddress:
    member: Server
    client: Address | None
    admin: Address | None

    @property
    def where(self) -> str:
        return with_port(*self.client) if self.client else self.member.host


def addresses_of(config: EnsembleConfig, given: Mapping[int, Address]) -> list[MemberAddress]:
    """Return the addresses of all members. `given` has client addresses that take precedence over those of the file."""
    assert config.ensemble is not None
    return [
        MemberAddress(
            member,
            given.get(member.id) or config.client_address(member),
            None if config.admin_port is None else (member.host, config.admin_port),
        )
        for member in config.ensemble.servers
    ]


async def survey(config: EnsembleConfig, given: Mapping[int, Address], timeout_s: float) -> list[ServerState]:
    """Ask all members, and ask those that seem to be behind once more.

    The ensemble may commit between two answers. A server is behind only if its second answer lacks the newest
    transaction of the first ones.
    """
    members = addresses_of(config, given)
    states: dict[int, ServerState] = {}

    async def one(each: MemberAddress) -> None:
        answers = await ask(each, config.admin_path, timeout_s)
        states[each.member.id] = state_of(each.member, each.where, answers)

    async def all_of(asked: list[MemberAddress]) -> None:
        async with trio.open_nursery() as nursery:
            for each in asked:
                nursery.start_soon(one, each)

    await all_of(members)
    newest = newest_zxid(states.values())
    late = {each.id for each in with_distances(states.values(), newest) if each.serves and each.behind != 0}
    await all_of([each for each in members if each.member.id in late])
    return list(with_distances([states[each.member.id] for each in members], newest))


async def ask(address: MemberAddress, admin_path: str, timeout_s: float) -> Answers:
    """Return the answers of one member. A failure is part of them."""
    answers = Answers()
    if address.client is None:
        answers = evolve(answers, failure="the zoo.cfg names no client port for it")
    else:
        with trio.move_on_after(timeout_s) as scope:
            try:
                answers = evolve(answers, srvr=await ask_word(*address.client, "srvr"))
                answers = evolve(answers, mntr=await ask_word(*address.client, "mntr"))
                answers = evolve(answers, conf=await ask_word(*address.client, "conf"))
            except (OSError, trio.BrokenResourceError) as error:
                answers = evolve(answers, failure=f"it cannot be reached: {described(error)}")
        if scope.cancelled_caught:
            answers = evolve(answers, failure=f"no answer in {timeout_s:g} s")
    if address.admin is None or not (answers.lacks_state or answers.lacks_numbers):
        return answers
    with trio.move_on_after(timeout_s) as scope:
        try:
            return await _with_admin_answers(answers, address.admin, admin_path)
        except (OSError, trio.BrokenResourceError) as error:
            return evolve(answers, admin_failure=f"{with_port(*address.admin)}: {described(error)}")
        except ValueError as error:
            return evolve(answers, admin_failure=f"{with_port(*address.admin)}: {error}")
    return evolve(answers, admin_failure=f"{with_port(*address.admin)}: no answer in {timeout_s:g} s")


async def _with_admin_answers(answers: Answers, admin: Address, path: str) -> Answers:
    """Add the answers of an admin port, if the port belongs to a server of ZooKeeper.

    A machine may run several servers with one admin port, so the number of the server is read, too.
    """

    async def command(name: str) -> Mapping[str, Any]:
        status, body = await http_get(*admin, f"{path}/{name}")
        if status != 200:
            raise ValueError(f"HTTP status {status}" if status else "it does not speak HTTP")
        return json_object(body)

    return evolve(
        answers,
        monitor=await command("monitor"),
        statistics=await command("server_stats"),
        configuration=await command("configuration"),
    )
