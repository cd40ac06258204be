"""The controller: which broker it is, since when, of which epoch; and asking it to step down.

examples:
  zab-broker controller show
  zab-broker controller resign --wait

`show` ends with 1 where there is no controller, or a request to it that it cannot read: the node is named. Who resigned
may be elected again.
"""

from __future__ import annotations

import argparse
from datetime import datetime

import trio

import zab
from kraft_controller.cli.common import DONE, FAILED, Failed, connected, progress, say, show, verbs
from kraft_controller.core.names import ControllerEpoch
from kraft_controller.runtime.admin.picture import Acting, read_acting, read_epoch, read_wrong_requests
from kraft_controller.wire import znodes

act = connected


def add(parser: argparse.ArgumentParser) -> None:
    verb = verbs(parser)
    verb("show", _show, "who it is; 1 if there is none, or something asked of it that it cannot read")
    resign = verb("resign", _resign, "make it step down; the brokers elect another, or the same")
    resign.add_argument("--wait", action="store_true", help="until there is a controller of a later epoch")
    resign.add_argument("--wait-s", type=float, default=60.0, metavar="SECONDS", help="at most so long (default 60)")


async def _show(session: zab.Session, arguments: argparse.Namespace) -> int:
    acting, epoch = await read_acting(session), await read_epoch(session)
    wrong = await read_wrong_requests(session)
    for why in wrong:
        progress(f"damaged: {why}; it is left as it is: remove the node, or write it anew")
    if acting is None:
        progress(f"there is no controller; the last one was of epoch {epoch}")
        show(arguments, [], ["id", "epoch", "since"])
        return FAILED
    since = datetime.fromtimestamp(acting.since_ms / 1000).astimezone().isoformat(" ", "seconds")
    show(arguments, [{"id": acting.id, "epoch": epoch, "since": since}], ["id", "epoch", "since"])
    return FAILED if wrong else DONE


async def _resign(session: zab.Session, arguments: argparse.Namespace) -> int:
    epoch = await read_epoch(session)
    try:
        await session.delete(znodes.CONTROLLER)
    except zab.NoNode:
        raise Failed("there is no controller that could step down") from None
    if not arguments.wait:
        say(arguments, f"the controller of epoch {epoch} was asked to step down", resigned_epoch=epoch)
        return DONE
    with trio.move_on_after(arguments.wait_s):
        acting, later = await _after(session, epoch)
        say(arguments, f"broker {acting.id} is the controller, epoch {later}", id=acting.id, epoch=later)
        return DONE
    raise Failed(f"no broker has become the controller in {arguments.wait_s:g} s: is one running?")


async def _after(session: zab.Session, epoch: ControllerEpoch) -> tuple[Acting, ControllerEpoch]:
    async with session.watcher() as heard:
        while True:
            await session.exists(znodes.CONTROLLER, heard)
            acting, later = await read_acting(session), await read_epoch(session)
            if acting is not None and later > epoch:
                return acting, later
            await anext(heard)
