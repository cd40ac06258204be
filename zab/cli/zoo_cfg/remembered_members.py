"""Compare the servers of the file with the members that the data directory stores.

Membership is part of the history, so the stored members take precedence. But an edited file is meant to have an
effect: a difference is neither ignored silently nor applied in part.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from attrs import evolve

from zab.cli.zoo_cfg.zoo_source import ZooSource
from zab.core.ensemble import NO_HOST, Ensemble, Server
from zab.core.zxid import NOTHING, ServerId, show
from zab.runtime.member_arguments import single_server_ensemble

OPTION: Final = "--membership-from-file"
_GROW: Final = "docs/howto/grow-a-server.md"
_CHANGE: Final = "docs/howto/change-the-ensemble.md"


def settle(
    source: ZooSource, data: Path, sid: int, ensemble: Ensemble | None, saved: Ensemble | None, *, from_file: bool
) -> tuple[Ensemble | None, bool]:
    """Return the ensemble to start with, and whether it is to replace the stored one.

    The stored membership is part of the committed history, so it takes precedence, and a file that differs is a
    problem. The file replaces it in two cases: this server is the only one in both, or the operator demands it
    (`from_file`). In two other cases a difference is only a warning, and the newer of the two memberships applies: the
    stored membership lacks this server; or `reconfigEnabled` is on and the stored membership has other servers, so that
    the file may be out of date.
    """
    if saved is None:
        if from_file:
            source.warnings.append(
                f"{OPTION} has no effect: {data} stores no membership, so the one in {source.path} is used in any case"
            )
        return ensemble, False
    given = ensemble or single_server_ensemble(sid)
    different = differences(given, saved)
    if not different:
        _compare_client_addresses(source, given, saved)
        return ensemble, False
    what = _comparison(source, data, given, saved, different)
    if set(given.by_id) == set(saved.by_id) == {sid}:  # no other server is affected
        source.warnings.append(f"{what}\n  This server is the only one: it takes its address from the file")
        return evolve(given, version=NOTHING), True
    if from_file:
        return _forced(source, given, saved, what), True
    if ServerId(sid) not in saved.by_id:
        source.warnings.append(
            f"{what}\n  Server {sid} is not a member in the stored membership: it was removed, or not yet added. "
            "It follows the others without a vote, if they admit it (quorum.admitNonMembers), until `reconfig -add` "
            "adds it"
        )
    elif source.value("reconfigEnabled", False) and set(saved.by_id) != {sid}:
        counts = "the file's, which is newer," if given.version > saved.version else "the stored membership"
        source.warnings.append(
            f"{what}\n  reconfigEnabled is on: {counts} takes precedence. The server writes the membership in force "
            "to a new dynamic file if the configuration has another membership; then it keeps the present file as "
            f"{source.path.name}.bak"
        )
    else:
        source.problems.append(f"{what}\n{_remedy(sid, given, saved)}")
    return (given if given.version > saved.version else evolve(given, version=NOTHING)), False


def differences(given: Ensemble, saved: Ensemble) -> list[str]:
    """Return the differences between two memberships, as text. Client addresses do not count."""
    found = []
    for sid in sorted({*given.by_id, *saved.by_id}):
        here, there = given.by_id.get(sid), saved.by_id.get(sid)
        if here is None and there is not None:
            found.append(f"only stored: {_line(there)}")
        elif there is None and here is not None:
            found.append(f"only in the file: {_line(here)}")
        elif here is not None and there is not None and _line(here) != _line(there):
            found.append(f"in the file: {_line(here)}; stored: {_line(there)}")
    for name, mine, theirs in (("groups", given.groups, saved.groups), ("weights", given.weights, saved.weights)):
        if mine != theirs:
            found.append(f"the {name} differ")
    return found


def removed(saved: Ensemble | None, sid: int) -> str:
    """Return an explanation to append if the stored membership lacks this server, else an empty text."""
    if saved is None or ServerId(sid) in saved.by_id:
        return ""
    return (
        f". The stored membership, version {_version(saved)}, lacks server {sid}, too: a reconfiguration has removed "
        "it, or has not added it yet. To make it a member, write its line into the file, start the server, and run "
        "`reconfig -add` at another one"
    )


def _line(server: Server) -> str:
    if server.host == NO_HOST:
        return f"server.{server.id} alone, without an address"
    return evolve(server, client_host=None, client_port=None).text()


def _version(ensemble: Ensemble) -> str:
    return f"{ensemble.version:x} ({show(ensemble.version)})"


def _comparison(source: ZooSource, data: Path, given: Ensemble, saved: Ensemble, different: list[str]) -> str:
    version = f"version {_version(given)}" if given.version else "without a version"
    head = f"{source.path}: the servers of this file ({version}) are not those that {data} stores (version "
    return "\n  ".join([f"{head}{_version(saved)}):", *different])


def _remedy(sid: int, given: Ensemble, saved: Ensemble) -> str:
    if set(saved.by_id) == {sid}:
        return (
            f"  Server {sid} served alone until now, and would continue alone, while the others begin with an empty "
            f"history. In the file, keep only the line server.{sid}=..., and start server {sid}; then start the others "
            f"and add them by `reconfig -add`: see {_GROW}"
        )
    return (
        "  Put the lines back as they were. Members are changed while the ensemble runs, with reconfigEnabled=true and "
        f"`zab shell reconfig`: see {_CHANGE}. If the ensemble cannot run any more: stop ALL servers, and start ALL "
        f"of them with `zab serve {OPTION}`"
    )


def _forced(source: ZooSource, given: Ensemble, saved: Ensemble, what: str) -> Ensemble:
    strangers = [sid for sid in given.voters if sid not in saved.by_id]
    if given.is_quorum(strangers):
        source.problems.append(
            f"{what}\n  {OPTION}: the new servers, {', '.join(map(str, strangers))}, would be a quorum: they could "
            "elect one of themselves, with an empty history. Name so few new servers that they are no quorum, then add "
            f"the others by `reconfig -add`: see {_GROW}"
        )
    source.warnings.append(
        f"{what}\n  {OPTION}: FROM NOW ON THE SERVERS OF THE FILE ARE THE ENSEMBLE. All servers must have been "
        "stopped, and all servers of the file must be started with this option. Transactions that only the omitted "
        "servers have are lost. Omit the option at every later start"
    )
    return evolve(given, version=NOTHING)


def _compare_client_addresses(source: ZooSource, given: Ensemble, saved: Ensemble) -> None:
    for sid, server in given.by_id.items():
        other = saved.by_id[sid]
        if server.client_port is not None and server.text() != other.text():
            source.warnings.append(
                f"{source.path}: clients still get the stored line {other.text()}, not {server.text()} from the file: "
                "`reconfig -add` with the file's line changes it"
            )
