"""The conditions for a step of a migration, checked against the state of all members."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from attrs import frozen

from zab.cli.migration.server_answers import SETTING, ServerState, members_of
from zab.cli.status.server_software import ZOOKEEPER
from zab.core.ensemble import Ensemble
from zab.core.plurals import counted, noun
from zab.core.zxid import ServerId

OLDEST: Final = (3, 5)
"""Older servers of ZooKeeper have another dynamic configuration, and no whitelist of four-letter words."""
NEWEST: Final = (3, 9)
"""The moves from the releases between these two are tested, both included."""
HAS_DIGESTS: Final = (3, 6)
"""Older servers of ZooKeeper neither send nor compare digests of their trees."""
PAGE: Final = "docs/howto/move-from-zookeeper.md"


@frozen
class Check:
    """One condition for the next step. `remedy` is empty if it holds."""

    name: str
    holds: bool
    text: str
    remedy: str = ""


def checks_of(ensemble: Ensemble, states: Sequence[ServerState]) -> Iterator[Check]:
    yield from _answering(states)
    yield from _identities(ensemble, states)
    yield from _versions(states)
    yield from _leadership(ensemble, states)
    yield from _distances(states)
    yield from _digests(states)


def _answering(states: Sequence[ServerState]) -> Iterator[Check]:
    bad = [each for each in states if each.problem]
    for each in bad:
        yield Check("answers", False, f"{name_of(each)}: {each.problem}", each.remedy)
    if not bad:
        yield Check("answers", True, f"all {counted(len(states), 'server')} serve")


def _identities(ensemble: Ensemble, states: Sequence[ServerState]) -> Iterator[Check]:
    """Check that each address belongs to the member, and that its membership is the one of the file.

    A server whose `conf` is not allowed reports neither. It must at least have the role of the member.
    """
    expected, bad = members_of(ensemble.servers), False
    by_address: dict[str, int] = {}
    for each in states:
        if (other := by_address.setdefault(each.where, each.id)) != each.id:
            bad = True
            yield Check(
                "membership",
                False,
                f"servers {other} and {each.id} have the same client address, {each.where}",
                "give their addresses with --server N=HOST:PORT",
            )
    for each in states:
        if each.reported_id not in (None, each.id):
            bad = True
            yield Check(
                "membership",
                False,
                f"{each.where} is server {each.reported_id}, and not server {each.id}",
                "give its address with --server N=HOST:PORT, or correct its myid",
            )
        elif each.members is not None and each.members != expected:
            bad = True
            differs = ", ".join(f"server.{sid}" for sid in sorted({item[0] for item in each.members ^ expected}))
            yield Check(
                "membership",
                False,
                f"{name_of(each)} runs with another membership: {differs} differs from the file",
                "use the zoo.cfg, and its dynamicConfigFile, of the running servers",
            )
        elif each.serves and each.votes == (each.mode == "observer"):
            bad = True
            line = "a participant" if each.votes else "an observer"
            yield Check(
                "membership",
                False,
                f"{name_of(each)} is {line} in the file, and its mode is {each.mode}",
                "use the zoo.cfg of the running servers",
            )
    if not bad and any(each.serves for each in states):
        unknown = [each.id for each in states if each.serves and each.reported_id is None]
        more = f" (not known for {numbers_of(unknown)}, because conf is not allowed)" if unknown else ""
        yield Check("membership", True, f"the servers have the numbers and the membership of the file{more}")


def _versions(states: Sequence[ServerState]) -> Iterator[Check]:
    bad = False
    for each in states:
        software = each.software
        if software is None:
            if each.serves:
                bad = True
                yield Check(
                    "versions",
                    False,
                    f"{name_of(each)} reports no version",
                    "check that the port belongs to this server",
                )
        elif software.name == ZOOKEEPER and software.numbers[:2] < OLDEST:
            bad = True
            yield Check(
                "versions",
                False,
                f"{name_of(each)} is {software}, and the oldest supported version is 3.5",
                "upgrade all servers of ZooKeeper to 3.5 or later first, with a rolling restart",
            )
    found = sorted({str(each.software) for each in states if each.software is not None})
    if not bad and found:
        yield Check("versions", True, ", ".join(found))


def _leadership(ensemble: Ensemble, states: Sequence[ServerState]) -> Iterator[Check]:
    leaders = [each for each in states if each.mode == "leader"]
    if len(leaders) != 1:
        yield Check(
            "leader",
            False,
            "no server leads" if not leaders else f"servers {numbers_of([each.id for each in leaders])} lead",
            "wait until the election is over, and run this command again",
        )
        return
    (leader,) = leaders
    wanted, synced = len(ensemble.voters) - 1, leader.synced_followers
    if synced is not None and synced < wanted:
        yield Check(
            "leader",
            False,
            f"{name_of(leader)} leads, and {synced} of {counted(wanted, 'follower')} are in sync",
            "wait until all are, and run this command again",
        )
        return
    how = "does not report its followers (mntr)" if synced is None else f"{counted(synced, 'follower')} in sync"
    yield Check("leader", True, f"{name_of(leader)} leads, {how}")


def _distances(states: Sequence[ServerState]) -> Iterator[Check]:
    late = [each for each in states if each.serves and each.behind != 0]
    for each in late:
        how = "in an older epoch than the leader" if each.behind is None else f"{each.behind} transactions behind"
        if each.zxid is None:
            how = "without a zxid in its answers"
        yield Check(
            "lag", False, f"{name_of(each)} is {how}", "wait until it has caught up, and run this command again"
        )
    if not late and any(each.serves for each in states):
        yield Check("lag", True, "no server is behind")


def _digests(states: Sequence[ServerState]) -> Iterator[Check]:
    """Check that no tree differs from that of the leader. A server of zab must report it, or the check means nothing.

    Servers of ZooKeeper allow only srvr by default, so their silence is a warning.
    """
    bad = False
    for each in states:
        if each.digest_mismatches:
            bad = True
            yield Check(
                "digests",
                False,
                f"{name_of(each)} found {counted(each.digest_mismatches, 'difference')} between its tree and the "
                "leader's (digest_mismatches_count)",
                "replace no further server, and keep its directory for an analysis. To repair it, see "
                f"{PAGE}, section 'If digests differ'",
            )
        elif each.serves and each.is_ours and each.digest_mismatches is None:
            bad = True
            yield Check(
                "digests",
                False,
                f"{name_of(each)} does not report digest_mismatches_count: mntr is not allowed",
                f"set {SETTING} in its zab.cfg and restart it",
            )
    known = [each.id for each in states if each.digest_mismatches == 0]
    if not bad and known:
        yield Check("digests", True, f"no difference found by {numbers_of(known)}")


def with_own_protocol(states: Sequence[ServerState]) -> list[ServerState]:
    """Return the servers of zab that are known to speak their own protocol; mntr must be allowed for that."""
    return [
        each for each in states if each.is_ours and each.digest_mismatches is not None and not each.speaks_zookeeper
    ]


def check_protocols(states: Sequence[ServerState]) -> Iterator[Check]:
    for each in with_own_protocol(states):
        yield Check(
            "protocol",
            False,
            f"{name_of(each)} speaks zab's own protocol, so no server of ZooKeeper can join its ensemble",
            f"move back with a stop: {PAGE}, section 'With a stop'",
        )


def check_quorum(ensemble: Ensemble, states: Sequence[ServerState], chosen: ServerState) -> Check:
    rest = [ServerId(each.id) for each in states if each.serves and each.id != chosen.id]
    if ensemble.is_quorum(rest):
        return Check("quorum", True, f"without server {chosen.id}, {numbers_of(rest)} are a quorum")
    return Check(
        "quorum",
        False,
        f"without server {chosen.id} there is no quorum: {counted(len(ensemble.voters), 'voter')}, of which "
        f"{numbers_of(rest) if rest else 'none'} would remain",
        "start the missing servers first. An ensemble with fewer than three voters cannot move without downtime: add a "
        "voter, or move with a stop",
    )


def name_of(state: ServerState) -> str:
    return f"server {state.id} at {state.where}"


def numbers_of(ids: Sequence[int]) -> str:
    shown = ", ".join(map(str, ids[:-1])) + (" and " if len(ids) > 1 else "") + (str(ids[-1]) if ids else "")
    return f"{noun(len(ids), 'server')} {shown}"
