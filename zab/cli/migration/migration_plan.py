"""The plan of a migration: checks of the ensemble as it is now, and the next step.

The plan has no memory. It is computed from the zoo.cfg and from the answers of the servers, so it is the same after an
interruption, on another machine, and after a step that was taken by hand. One server is replaced at a time:
observers first, because they have no vote, then followers, and the leader last, because its stop causes an election.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

from zab.cli.migration.ensemble_checks import (
    HAS_DIGESTS,
    NEWEST,
    PAGE,
    Check,
    check_protocols,
    check_quorum,
    checks_of,
    name_of,
    numbers_of,
    with_own_protocol,
)
from zab.cli.migration.ensemble_config import EnsembleConfig
from zab.cli.migration.server_answers import SETTING, UNREACHABLE, ServerState
from zab.cli.migration.step_commands import (
    Directories,
    Part,
    export_and_start,
    start_zab,
    to_zab,
    to_zookeeper,
)
from zab.cli.status.server_software import ZAB, ZOOKEEPER
from zab.core.plurals import counted
from zab.core.zxid import ServerId


@frozen
class Step:
    """The replacement of one server.

    server    its number
    host      where the commands run
    title     the step in one line
    parts     the command lines
    expect    the condition that ends the step, and that the next call of the command checks
    way_back  what to do to take the step back, from its beginning to its end
    """

    server: int
    host: str
    title: str
    parts: tuple[Part, ...]
    expect: str
    way_back: tuple[str, ...]


@frozen
class Plan:
    """The state of a migration.

    back      whether servers of ZooKeeper replace those of zab
    servers   the members, by ascending number
    checks    the conditions, in the order in which they were checked
    step      the next step; None if no step is left, or no server can be chosen
    begun     the rest of a step whose server does not answer: it may have been stopped for that step
    closing   what to do when no step is left; empty before
    warnings  what differs after the move; no reason to stop
    """

    back: bool
    servers: tuple[ServerState, ...]
    checks: tuple[Check, ...]
    step: Step | None
    begun: Step | None
    closing: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def may_continue(self) -> bool:
        """True if the next step may be taken, or none is left."""
        return all(each.holds for each in self.checks)

    @property
    def is_done(self) -> bool:
        return bool(self.closing)


def make_plan(config: EnsembleConfig, states: Sequence[ServerState], *, back: bool, target: Path | None = None) -> Plan:
    """Return the plan for an ensemble whose members are in these states.

    `target` is the data directory of zab on each host; by default it is beside that of ZooKeeper.
    """
    ensemble, directories = config.ensemble, Directories.of(config, target)
    checks = [Check("configuration", False, each.text, each.remedy) for each in config.obstacles]
    if ensemble is None:
        return Plan(back, (), tuple(checks), None, None, (), config.warnings)
    if not checks:
        members = counted(len(ensemble.servers), "member")
        checks.append(Check("configuration", True, f"{members}, nothing that prevents the move"))
    chosen = _next_server(states, back)
    checks += checks_of(ensemble, states)
    if back:
        checks += check_protocols(states)
    closing: tuple[str, ...] = ()
    if chosen is not None and not any(each.problem for each in states):
        checks.append(check_quorum(ensemble, states, chosen))
    if all(each.is_ours is not back and each.is_ours is not None for each in states):
        closing = _CLOSING_BACK if back else _CLOSING_OWN if with_own_protocol(states) else _CLOSING
    warnings = (*config.warnings, *_warnings(states))
    step = None if chosen is None else _step(config, directories, chosen, back)
    absent = [each for each in states if each.mode == UNREACHABLE]
    begun = _begun(config, directories, absent[0], back) if len(absent) == 1 and not config.obstacles else None
    return Plan(back, tuple(states), tuple(checks), step, begun, closing, warnings)


def _next_server(states: Sequence[ServerState], back: bool) -> ServerState | None:
    """Return the server to replace: an observer, else a follower, else the leader; the smallest number first."""
    left = [each for each in states if each.serves and each.is_ours is back]
    return min(left, key=lambda each: (each.mode == "leader", each.votes, each.id), default=None)


def _warnings(states: Sequence[ServerState]) -> Iterator[str]:
    theirs = [each for each in states if each.is_ours is False and each.software is not None]
    for each in theirs:
        if each.software is not None and each.software.numbers[:2] > NEWEST:
            yield f"{name_of(each)} is {each.software}: the move was tested with 3.5 to 3.9; rehearse it first"
    without = [each.id for each in theirs if each.software is not None and each.software.numbers[:2] < HAS_DIGESTS]
    if without:
        yield (
            f"{numbers_of(without)}: ZooKeeper has no digests before 3.6. While such a server leads, no difference of "
            "trees is noticed"
        )
    silent = [each.id for each in theirs if each.id not in without and each.digest_mismatches is None and each.serves]
    if silent:
        yield (
            f"{numbers_of(silent)}: digest mismatches and followers in sync are unknown, because mntr is not allowed "
            f"({SETTING}) and the admin port does not answer"
        )


# -- steps ---------------------------------------------------------------------------------------------

_CLOSING: Final = (
    "All servers are zab, and still speak the protocol of ZooKeeper with each other. They can stay so.",
    "Zab's own protocol needs a stop of all servers, and one history for all of them: do not just remove the key.",
    f"The steps, the gain and the cost: {PAGE}, section 'At the end'.",
    "The way back stays open while peerProtocol=zookeeper is set: zab migrate plan --back.",
)
_CLOSING_OWN: Final = ("All servers are zab, and speak their own protocol with each other.",)
_CLOSING_BACK: Final = (
    "All servers are Apache ZooKeeper. The directories of zab, and those that were put aside, are no longer needed.",
)


def _step(config: EnsembleConfig, directories: Directories, server: ServerState, back: bool) -> Step:
    parts = to_zookeeper(config, directories) if back else to_zab(config, directories)
    election = "; its stop causes an election, and writes wait until it is over" if server.mode == "leader" else ""
    other, this = (ZOOKEEPER, ZAB) if back else (ZAB, ZOOKEEPER)
    return Step(
        server.id,
        _host(config, server),
        f"replace server {server.id} ({server.mode}, {server.software or this}) by {other}{election}",
        parts,
        f"server {server.id} is {other} and follows with lag 0: run this command again",
        _way_back(directories, back),
    )


def _begun(config: EnsembleConfig, directories: Directories, server: ServerState, back: bool) -> Step:
    """Return the rest of the step of a server that does not answer."""
    other, this = (ZOOKEEPER, ZAB) if back else (ZAB, ZOOKEEPER)
    part = export_and_start(config, directories) if back else start_zab(config, directories)
    return Step(
        server.id,
        _host(config, server),
        f"if you have stopped {this} on server {server.id} for its step, finish the step. If {other} was running "
        "there, start it again instead",
        (part,),
        f"server {server.id} is {other} and follows with lag 0: run this command again",
        _way_back(directories, back),
    )


def _way_back(directories: Directories, back: bool) -> tuple[str, ...]:
    if back:
        return (
            f"until ZooKeeper has started: move {directories.ours} back, and start `zab serve` again",
            "after that: zab migrate plan, which needs a new directory (--to) if the old one is still there",
        )
    return (
        "before the stop: nothing has changed",
        f"after the stop, until zab serves: start ZooKeeper again. The import does not change {directories.theirs}",
        (
            f"once zab has served: zab migrate plan --back. Do not start ZooKeeper on the old {directories.theirs}: it "
            "lacks what this server has acknowledged since"
        ),
    )


def _host(config: EnsembleConfig, server: ServerState) -> str:
    assert config.ensemble is not None
    return config.ensemble.by_id[ServerId(server.id)].host
