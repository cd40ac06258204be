"""`zab-broker controller`: show the controller, or make it step down."""

from __future__ import annotations

from datetime import datetime

import click
import trio

import zab
from kraft_controller.cli.store_connection import StoreVerbs
from kraft_controller.core.names import ControllerEpoch
from kraft_controller.runtime.admin.cluster_description import Acting, read_acting, read_epoch, read_wrong_requests
from kraft_controller.wire import znodes
from zab.cli.kit.failures import DONE, FAILED, Failed
from zab.cli.kit.output import progress, say, show
from zab.cli.kit.verb_group import Arguments


@click.group(cls=StoreVerbs)
def controller() -> None:
    """Show the controller, the controller epoch and the time of the election, or make the controller step down.

    \b
    zab-broker controller show
    zab-broker controller resign --wait

    `show` exits with 1 if there is no controller, or if one of these nodes cannot be parsed: /controller,
    /controller_epoch, /admin/reassign_partitions, /admin/preferred_replica_election.
    """


@controller.verb("show", "Show the controller, the controller epoch and the time of the election.")
async def _show(session: zab.Session, arguments: Arguments) -> int:
    acting, epoch = await read_acting(session), await read_epoch(session)
    wrong = await read_wrong_requests(session)
    for why in wrong:
        progress(f"damaged: {why}; remove or rewrite the node")
    if acting is None:
        progress(f"there is no controller; the last known epoch is {epoch}")
        show(arguments.json, [], ["id", "epoch", "since"])
        return FAILED
    since = datetime.fromtimestamp(acting.since_ms / 1000).astimezone().isoformat(" ", "seconds")
    show(arguments.json, [{"id": acting.id, "epoch": epoch, "since": since}], ["id", "epoch", "since"])
    return FAILED if wrong else DONE


@controller.verb(
    "resign", "Make the controller step down. The brokers then elect a controller, perhaps the same broker."
)
@click.option("--wait", is_flag=True, help="Wait until there is a controller with a later epoch.")
@click.option("--wait-s", type=float, default=60.0, show_default=True, metavar="SECONDS", help="The timeout of --wait.")
async def _resign(session: zab.Session, arguments: Arguments) -> int:
    epoch = await read_epoch(session)
    try:
        await session.delete(znodes.CONTROLLER)
    except zab.NoNode:
        raise Failed("there is no controller") from None
    if not arguments.wait:
        say(arguments.json, f"the controller of epoch {epoch} was asked to step down", resigned_epoch=epoch)
        return DONE
    with trio.move_on_after(arguments.wait_s):
        acting, later = await _after(session, epoch)
        say(arguments.json, f"broker {acting.id} is the controller, epoch {later}", id=acting.id, epoch=later)
        return DONE
    raise Failed(f"no broker became the controller within {arguments.wait_s:g} s: check that a broker is running")


async def _after(session: zab.Session, epoch: ControllerEpoch) -> tuple[Acting, ControllerEpoch]:
    async with session.watcher() as watch:
        while True:
            await session.exists(znodes.CONTROLLER, watch)
            acting, later = await read_acting(session), await read_epoch(session)
            if acting is not None and later > epoch:
                return acting, later
            await anext(watch)
