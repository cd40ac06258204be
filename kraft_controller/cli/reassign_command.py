"""`zab-broker reassign`: move replicas to other brokers while clients use the partitions."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import Final

import click

import zab
from kraft_controller.cli.store_connection import StoreVerbs, report_damage
from kraft_controller.cli.waiting import Waiting, wait_options, waited
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.core.topics.assignment import AssignmentError
from kraft_controller.runtime.admin import reassignment_requests as admin
from kraft_controller.runtime.admin.cluster_description import describe_cluster
from kraft_controller.runtime.admin.reassignment_requests import MoveError, Moves, Progress
from kraft_controller.wire.znodes import DamagedNode
from zab.cli.kit.failures import DONE, FAILED, Failed, Misused
from zab.cli.kit.options import check_exclusive
from zab.cli.kit.output import progress, say, show
from zab.cli.kit.verb_group import Arguments
from zab.core.plurals import counted

THROTTLE = 10_000_000


@click.group(cls=StoreVerbs)
def reassign() -> None:
    """Move replicas to other brokers while clients use the partitions.

    \b
    zab-broker reassign generate --topics orders,payments --brokers 2,3,4 > plan.json
    zab-broker reassign execute plan.json --wait
    zab-broker reassign execute plan.json --throttle 20000000     bytes a second, for each broker
    zab-broker reassign list
    zab-broker reassign verify plan.json                          exits with 0 when the plan is complete
    zab-broker reassign cancel plan.json

    `execute` first prints to stderr a plan that undoes the moves. By default moves are throttled to 10 MB a second for
    each broker. `verify` removes the throttles of the plan's topics if none of its moves is requested or in progress.
    `execute --wait` removes them when the plan is complete. `cancel` removes them at once; with `--wait`, when the
    former replicas are restored. If `--wait` fails or times out, the throttles stay until a later `verify`. The rates
    of the brokers stay while another reassignment is in progress.
    """


_plan_argument: Final = click.argument("plan", type=click.Path(path_type=Path))
_preserve: Final = click.option("--preserve-throttles", is_flag=True, help="Keep the throttles.")


@reassign.verb("generate", "Print a plan that spreads topics over some brokers.")
@click.option("--topics", metavar="T,T", help="Only these topics.  [default: all]")
@click.option(
    "--topics-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help='In Kafka\'s format: {"topics":[{"topic":"t"}]}.',
)
@click.option("--brokers", metavar="B,B", help="The brokers to use.  [default: all that are registered]")
@click.option("--ignore-racks", is_flag=True, help="Assign replicas without regard to racks.")
async def _generate(session: zab.Session, arguments: Arguments) -> int:
    cluster = await describe_cluster(session)
    report_damage(cluster)
    try:
        names = sorted(cluster.topics)
        if arguments.topics_file is not None:
            names = _topics(arguments.topics_file)
        elif arguments.topics is not None:
            names = arguments.topics.split(",")
        brokers = list(cluster.brokers) if arguments.brokers is None else _brokers(arguments.brokers)
        plan = admin.plan(cluster, names, brokers, secrets.randbelow, racks=not arguments.ignore_racks)
    except (MoveError, AssignmentError) as error:
        raise Failed(str(error)) from None
    progress(f"current: {admin.as_json(admin.now(cluster, plan))}")
    print(admin.as_json(plan))
    return DONE


@reassign.verb("execute", "Start the moves of a plan. PLAN is a file, or - for stdin.")
@_plan_argument
@click.option("--throttle", type=int, metavar="BYTES", help=f"Bytes a second, for each broker.  [default: {THROTTLE}]")
@click.option("--no-throttle", is_flag=True, help="Set no throttles. The moves may then slow clients down.")
@click.option("--additional", is_flag=True, help="Start even if a reassignment is in progress.")
@wait_options("the plan is complete")
async def _execute(session: zab.Session, arguments: Arguments) -> int:
    check_exclusive(arguments, "--throttle", "--no-throttle")
    plan = _plan(arguments.plan)
    throttle: int = THROTTLE if arguments.throttle is None else arguments.throttle
    if throttle <= 0:
        raise Misused("--throttle: at least one byte a second")
    cluster = await describe_cluster(session)
    report_damage(cluster)
    moving = admin.moving(cluster)
    try:
        admin.check(cluster, plan)
        if moving and not arguments.additional:
            already = counted(len(moving), "partition")
            raise MoveError(f"{already} being reassigned already; wait, cancel, or use --additional")
        progress(f"to undo: {admin.as_json(admin.now(cluster, plan))}")
        if not arguments.no_throttle:
            await admin.throttle(session, cluster, {**moving, **plan}, throttle)
        await admin.ask_for(session, plan)
    except (MoveError, DamagedNode) as error:
        raise Failed(str(error)) from None
    if arguments.wait:
        await waited(arguments, _Arriving(session, plan))
        cluster = await describe_cluster(session)
        await admin.unthrottle(session, cluster, {where.topic for where in plan})
    outcome = (
        "done"
        if arguments.wait
        else f"begun{'' if arguments.no_throttle else f', throttled to {throttle} bytes a second'}"
    )
    say(arguments.json, f"{counted(len(plan), 'partition')}: {outcome}", partitions=len(plan), done=arguments.wait)
    return DONE


@reassign.verb(
    "verify",
    "Show the progress of a plan. If its moves have ended, remove the throttles of its topics. Exit with 0 if the plan "
    "is complete, else with 1. PLAN may be - for stdin.",
)
@_plan_argument
@_preserve
async def _verify(session: zab.Session, arguments: Arguments) -> int:
    plan = _plan(arguments.plan)
    asked = await _asked(session)
    cluster = await describe_cluster(session)
    report_damage(cluster)
    rows = admin.progress(cluster, plan, asked)
    shown = [
        {
            "partition": str(row.where),
            "state": row.progress.value,
            "target": list(row.target),
            "behind": list(row.behind),
        }
        for row in rows
    ]
    show(arguments.json, shown, ["partition", "state", "target", "behind"])
    moving = admin.moving(cluster)
    under_way = [row for row in rows if row.progress is Progress.WAITING or row.where in moving]
    if not under_way and not arguments.preserve_throttles:
        freed = await admin.unthrottle(session, cluster, {where.topic for where in plan})
        if freed:
            progress(f"removed throttles: {', '.join(freed)}")
    return DONE if all(row.progress is Progress.DONE for row in rows) else FAILED


@reassign.verb("cancel", "Cancel reassignments in progress: those of PLAN, or all. The former replicas are restored.")
@click.argument("plan", required=False, type=click.Path(path_type=Path))
@_preserve
@wait_options("the former replicas are restored")
async def _cancel(session: zab.Session, arguments: Arguments) -> int:
    cluster = await describe_cluster(session)
    report_damage(cluster)
    named = list(_plan(arguments.plan)) if arguments.plan else list(admin.moving(cluster))
    unknown = [where for where in named if where not in set(cluster.partitions())]
    if unknown:
        raise Failed(f"there is no partition {unknown[0]}")
    back = admin.origins(cluster, named)
    if back:
        try:
            await admin.ask_for(session, back)
        except DamagedNode as error:
            raise Failed(str(error)) from None
        if arguments.wait:
            await waited(arguments, _Arriving(session, back))
    if not arguments.preserve_throttles:
        await admin.unthrottle(session, await describe_cluster(session), {where.topic for where in named}, back)
    outcome = f"{counted(len(back), 'partition')}: {'restored' if arguments.wait else 'being restored'}"
    line = outcome if back else "nothing moves"
    say(arguments.json, line, cancelled=[str(where) for where in back])
    return DONE


@reassign.verb("list", "List the reassignments in progress.")
async def _list(session: zab.Session, arguments: Arguments) -> int:
    cluster = await describe_cluster(session)
    rows = []
    for where, target in admin.moving(cluster).items():
        held = cluster.assignment(where)
        behind = [broker for broker in target if broker not in cluster.isr(where)]
        rows.append(
            {
                "partition": str(where),
                "from": list(held.origin),
                "to": list(target),
                "adding": list(held.adding),
                "removing": list(held.removing),
                "behind": behind,
            }
        )
    show(arguments.json, rows, ["partition", "from", "to", "adding", "removing", "behind"])
    return report_damage(cluster)


class _Arriving(Waiting):
    def __init__(self, session: zab.Session, moves: Moves) -> None:
        super().__init__(session)
        self._moves = moves

    async def left(self) -> str | None:
        # Read the requests before the description. Otherwise a move that starts in between would be in neither.
        asked = await _asked(self._session)
        cluster = await describe_cluster(self._session, {where.topic for where in self._moves})
        rows = admin.progress(cluster, self._moves, asked)
        gone = [row for row in rows if row.progress is Progress.GONE]
        refused = [row for row in rows if row.progress is Progress.ELSEWHERE and row.where not in admin.moving(cluster)]
        if gone or refused:
            row = (gone or refused)[0]
            raise Failed(f"{row.where}: {row.progress.value}; the reason is in the controller's log")
        left = [row for row in rows if row.progress is not Progress.DONE]
        return f"{len(left)} of {counted(len(rows), 'partition')}, including {left[0].where}" if left else None


async def _asked(session: zab.Session) -> Moves:
    try:
        return await admin.asked_for(session)
    except DamagedNode as error:
        raise Failed(str(error)) from None


def _plan(path: Path) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    try:
        return admin.from_json(_text(path))
    except MoveError as error:
        raise Failed(f"{path}: {error}") from None


def _topics(path: Path) -> list[str]:
    try:
        return admin.topics_from_json(_text(path))
    except MoveError as error:
        raise Failed(f"{path}: {error}") from None


def _text(path: Path) -> str:
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Misused(f"{path}: {error}") from None


def _brokers(text: str) -> list[BrokerId]:
    words = text.split(",")
    if not all(word.isdecimal() for word in words) or len(set(words)) != len(words):
        raise Misused(f"--brokers {text!r}: expected distinct broker ids, in the form 1,2,3")
    return [BrokerId(int(word)) for word in words]
