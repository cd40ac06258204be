"""Brokers that are registered: who is there, where, since when, and what he holds and leads.

examples:
  zab-broker brokers list
  zab-broker brokers describe 1 --json

A broker is there for as long as its session with the store lasts. Its epoch is another one after each start.
"""

from __future__ import annotations

import argparse
from datetime import datetime

import zab
from kraft_controller.cli.common import Failed, connected, damaged, show, show_json, verbs
from kraft_controller.core.names import BrokerId
from kraft_controller.runtime.admin.picture import Acting, Picture, Registered, read_acting, read_picture

act = connected


def add(parser: argparse.ArgumentParser) -> None:
    verb = verbs(parser)
    verb("list", _list, "one line for each broker that is there")
    one = verb("describe", _describe, "all that is known of some")
    one.add_argument("ids", nargs="*", type=int, metavar="ID", help="of these (default: all)")


async def _list(session: zab.Session, arguments: argparse.Namespace) -> int:
    picture, acting = await read_picture(session), await read_acting(session)
    rows = [_row(picture, acting, each) for each in picture.brokers.values()]
    show(arguments, rows, ["id", "endpoints", "rack", "epoch", "since", "leads", "holds", "controller"])
    return damaged(picture)


async def _describe(session: zab.Session, arguments: argparse.Namespace) -> int:
    picture, acting = await read_picture(session), await read_acting(session)
    missing = sorted(set(arguments.ids) - set(picture.brokers))
    if missing:
        raise Failed(f"brokers {missing} are not registered; there are {list(picture.brokers)}")
    rows = [
        _row(picture, acting, each) | _more(picture, each)
        for ident, each in picture.brokers.items()
        if not arguments.ids or ident in arguments.ids
    ]
    if arguments.json:
        show_json(rows)
        return damaged(picture)
    for number, row in enumerate(rows):
        if number:
            print()
        show(arguments, [{"of broker": name, "": value} for name, value in row.items()], ["of broker", ""])
    return damaged(picture)


def _row(picture: Picture, acting: Acting | None, each: Registered) -> dict[str, object]:
    broker = each.broker
    return {
        "id": broker.id,
        "endpoints": [f"{one.listener}://{_bracketed(one.host)}:{one.port}" for one in broker.endpoints],
        "rack": broker.rack,
        "epoch": broker.epoch,
        "since": datetime.fromtimestamp(each.since_ms / 1000).astimezone().isoformat(" ", "seconds"),
        "leads": len(picture.led_by(broker.id)),
        "holds": len(picture.on(broker.id)),
        "controller": acting is not None and acting.id == broker.id,
    }


def _more(picture: Picture, each: Registered) -> dict[str, object]:
    ident: BrokerId = each.broker.id
    held = picture.on(ident)
    return {
        "protocols": dict(each.broker.protocols),
        "features": {name: f"{least}-{most}" for name, (least, most) in each.broker.features.items()},
        "preferred": sum(picture.assignment(where).replicas[0] == ident for where in held),
        "behind": [str(where) for where in held if ident not in picture.isr(where)],
    }


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
