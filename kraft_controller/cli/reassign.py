"""Moving replicas to other brokers, while everything goes on.

examples:
  zab-broker reassign generate --topics orders,payments --brokers 2,3,4 > plan.json
  zab-broker reassign execute plan.json --wait
  zab-broker reassign execute plan.json --throttle 20000000           for each broker, in bytes a second
  zab-broker reassign list
  zab-broker reassign verify plan.json                                0: all of it is done, and the throttle is off
  zab-broker reassign cancel plan.json

`execute` keeps what it undoes: its first line on stderr is the plan back. Moving is throttled to 10 MB a second
unless it is said otherwise; `verify`, `cancel` and `execute --wait` take the throttle off when nothing moves any more.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

import zab
from kraft_controller.cli.common import DONE, FAILED, Failed, Misuse, connected, damaged, progress, say, show, verbs
from kraft_controller.cli.waiting import Waiting, add_waiting, waited
from kraft_controller.core.assignment import AssignmentError
from kraft_controller.core.names import BrokerId, TopicPartition
from kraft_controller.runtime.admin import moves as admin
from kraft_controller.runtime.admin.moves import MoveError, Moves, Progress
from kraft_controller.runtime.admin.picture import read_picture
from kraft_controller.wire.znodes import DamagedNode
from zab.core.words import counted

act = connected

THROTTLE = 10_000_000


def add(parser: argparse.ArgumentParser) -> None:
    verb = verbs(parser)
    generate = verb("generate", _generate, "a plan, on stdout: topics spread over some brokers")
    generate.add_argument("--topics", metavar="T,T", help="(default: all)")
    generate.add_argument("--topics-file", type=Path, metavar="FILE", help='as Kafka\'s: {"topics":[{"topic":"t"}]}')
    generate.add_argument("--brokers", metavar="B,B", help="(default: all that are there)")
    generate.add_argument("--ignore-racks", action="store_true", help="replicas of a partition may share a rack")

    execute = verb("execute", _execute, "begin what a plan says")
    execute.add_argument("plan", type=Path, metavar="PLAN", help="a file; - is stdin")
    slow = execute.add_mutually_exclusive_group()
    slow.add_argument(
        "--throttle",
        type=int,
        default=THROTTLE,
        metavar="BYTES",
        help=f"a second, for each broker (default {THROTTLE})",
    )
    slow.add_argument("--no-throttle", action="store_true", help="as fast as it goes; clients will feel it")
    execute.add_argument("--additional", action="store_true", help="also if something is on the move already")
    add_waiting(execute, "all of it is done")

    verify = verb("verify", _verify, "how far a plan is; 0 if all of it is done, and then no throttle is left")
    verify.add_argument("plan", type=Path, metavar="PLAN", help="a file; - is stdin")
    verify.add_argument("--preserve-throttles", action="store_true", help="leave them as they are")

    cancel = verb("cancel", _cancel, "take back what is under way: replicas stay where they were")
    cancel.add_argument("plan", nargs="?", type=Path, metavar="PLAN", help="(default: everything that moves)")
    cancel.add_argument("--preserve-throttles", action="store_true", help="leave them as they are")
    add_waiting(cancel, "nothing of it moves any more")

    verb("list", _list, "what is on the move")


async def _generate(session: zab.Session, arguments: argparse.Namespace) -> int:
    picture = await read_picture(session)
    damaged(picture)
    try:
        names = sorted(picture.topics)
        if arguments.topics_file is not None:
            names = admin.topics_from_json(_text(arguments.topics_file))
        elif arguments.topics is not None:
            names = arguments.topics.split(",")
        brokers = list(picture.brokers) if arguments.brokers is None else _brokers(arguments.brokers)
        plan = admin.plan(picture, names, brokers, secrets.randbelow, racks=not arguments.ignore_racks)
    except (MoveError, AssignmentError) as error:
        raise Failed(str(error)) from None
    progress(f"as it is now: {admin.as_json(admin.now(picture, plan))}")
    print(admin.as_json(plan))
    return DONE


async def _execute(session: zab.Session, arguments: argparse.Namespace) -> int:
    plan = _plan(arguments.plan)
    if arguments.throttle <= 0:
        raise Misuse("--throttle: bytes a second, at least one; without any it would never end")
    picture = await read_picture(session)
    damaged(picture)
    moving = admin.moving(picture)
    try:
        admin.check(picture, plan)
        if moving and not arguments.additional:
            already = counted(len(moving), "partition")
            raise MoveError(f"on the move already: {already}; wait, cancel, or say --additional")
        progress(f"back again: {admin.as_json(admin.now(picture, plan))}")
        if not arguments.no_throttle:
            await admin.throttle(session, picture, {**moving, **plan}, arguments.throttle)
        await admin.ask_for(session, plan)
    except (MoveError, DamagedNode) as error:
        raise Failed(str(error)) from None
    if arguments.wait:
        await waited(arguments, _Arriving(session, plan))
        picture = await read_picture(session)
        await admin.unthrottle(session, picture, {where.topic for where in plan})
    told = (
        "done"
        if arguments.wait
        else f"begun{'' if arguments.no_throttle else f', at {arguments.throttle} bytes a second'}"
    )
    say(arguments, f"{counted(len(plan), 'partition')}: {told}", partitions=len(plan), done=arguments.wait)
    return DONE


async def _verify(session: zab.Session, arguments: argparse.Namespace) -> int:
    plan = _plan(arguments.plan)
    asked = await _asked(session)
    picture = await read_picture(session)
    damaged(picture)
    rows = admin.progress(picture, plan, asked)
    shown = [
        {
            "partition": str(row.where),
            "state": row.progress.value,
            "target": list(row.target),
            "behind": list(row.behind),
        }
        for row in rows
    ]
    show(arguments, shown, ["partition", "state", "target", "behind"])
    under_way = [row for row in rows if row.progress in (Progress.MOVING, Progress.WAITING)]
    if not under_way and not arguments.preserve_throttles:
        freed = await admin.unthrottle(session, picture, {where.topic for where in plan})
        if freed:
            progress(f"not throttled any more: {', '.join(freed)}")
    return DONE if all(row.progress is Progress.DONE for row in rows) else FAILED


async def _cancel(session: zab.Session, arguments: argparse.Namespace) -> int:
    picture = await read_picture(session)
    damaged(picture)
    named = list(_plan(arguments.plan)) if arguments.plan else list(admin.moving(picture))
    unknown = [where for where in named if where not in set(picture.partitions())]
    if unknown:
        raise Failed(f"there is no partition {unknown[0]}")
    back = admin.origins(picture, named)
    if back:
        try:
            await admin.ask_for(session, back)
        except DamagedNode as error:
            raise Failed(str(error)) from None
        if arguments.wait:
            await waited(arguments, _Arriving(session, back))
    if not arguments.preserve_throttles:
        await admin.unthrottle(session, await read_picture(session), {where.topic for where in named}, back)
    said = f"{counted(len(back), 'partition')}: {'back' if arguments.wait else 'on the way back'}"
    line = said if back else "nothing moves"
    say(arguments, line, cancelled=[str(where) for where in back])
    return DONE


async def _list(session: zab.Session, arguments: argparse.Namespace) -> int:
    picture = await read_picture(session)
    rows = []
    for where, target in admin.moving(picture).items():
        held = picture.assignment(where)
        behind = [broker for broker in target if broker not in picture.isr(where)]
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
    show(arguments, rows, ["partition", "from", "to", "adding", "removing", "behind"])
    return damaged(picture)


class _Arriving(Waiting):
    def __init__(self, session: zab.Session, moves: Moves) -> None:
        super().__init__(session)
        self._moves = moves

    async def left(self) -> str | None:
        asked = await _asked(self._session)  # first: what is not asked for any more shows in the picture
        picture = await read_picture(self._session, {where.topic for where in self._moves})
        rows = admin.progress(picture, self._moves, asked)
        gone = [row for row in rows if row.progress is Progress.GONE]
        refused = [row for row in rows if row.progress is Progress.ELSEWHERE and row.where not in admin.moving(picture)]
        if gone or refused:
            row = (gone or refused)[0]
            raise Failed(f"{row.where}: {row.progress.value}; the log of the controller says why")
        left = [row for row in rows if row.progress is not Progress.DONE]
        return f"{len(left)} of {counted(len(rows), 'partition')}, {left[0].where} among them" if left else None


async def _asked(session: zab.Session) -> Moves:
    try:
        return await admin.asked_for(session)
    except DamagedNode as error:
        raise Failed(str(error)) from None


def _plan(path: Path) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    try:
        return admin.from_json(_text(path))
    except MoveError as error:
        raise Failed(str(error)) from None


def _text(path: Path) -> str:
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Misuse(f"{path}: {error}") from None


def _brokers(text: str) -> list[BrokerId]:
    words = text.split(",")
    if not all(word.isdecimal() for word in words) or len(set(words)) != len(words):
        raise Misuse(f"--brokers {text!r}: it looks like 1,2,3")
    return [BrokerId(int(word)) for word in words]
