"""`zab-broker brokers`: the registered brokers."""

from __future__ import annotations

from datetime import datetime

import click

import zab
from kraft_controller.cli.store_connection import StoreVerbs, report_damage
from kraft_controller.core.names import BrokerId
from kraft_controller.runtime.admin.cluster_description import (
    Acting,
    ClusterDescription,
    Registered,
    describe_cluster,
    read_acting,
)
from zab.cli.kit.failures import Failed
from zab.cli.kit.output import show, show_json
from zab.cli.kit.verb_group import Arguments
from zab.core.addresses import with_port


@click.group(cls=StoreVerbs)
def brokers() -> None:
    """Show the registered brokers: addresses, racks, times of registration, and numbers of leaderships and replicas.

    \b
    zab-broker brokers list
    zab-broker brokers describe 1 --json

    A broker is registered for as long as its session with the store lasts. Each registration has a new broker epoch.
    """


@brokers.verb("list", "Print one line for each registered broker.")
async def _list(session: zab.Session, arguments: Arguments) -> int:
    cluster, acting = await describe_cluster(session), await read_acting(session)
    rows = [_row(cluster, acting, each) for each in cluster.brokers.values()]
    show(arguments.json, rows, ["id", "endpoints", "rack", "epoch", "since", "leads", "holds", "controller"])
    return report_damage(cluster)


@brokers.verb("describe", "Show all details of the brokers with these ids (default: all brokers).")
@click.argument("ids", nargs=-1, type=int, metavar="[ID]...")
async def _describe(session: zab.Session, arguments: Arguments) -> int:
    cluster, acting = await describe_cluster(session), await read_acting(session)
    missing = sorted(set(arguments.ids) - set(cluster.brokers))
    if missing:
        raise Failed(f"brokers {missing} are not registered; registered are {list(cluster.brokers)}")
    rows = [
        _row(cluster, acting, each) | _more(cluster, each)
        for ident, each in cluster.brokers.items()
        if not arguments.ids or ident in arguments.ids
    ]
    if arguments.json:
        show_json(rows)
        return report_damage(cluster)
    for number, row in enumerate(rows):
        if number:
            print()
        show(arguments.json, [{"of broker": name, "": value} for name, value in row.items()], ["of broker", ""])
    return report_damage(cluster)


def _row(cluster: ClusterDescription, acting: Acting | None, each: Registered) -> dict[str, object]:
    broker = each.broker
    return {
        "id": broker.id,
        "endpoints": [f"{one.listener}://{with_port(one.host, one.port)}" for one in broker.endpoints],
        "rack": broker.rack,
        "epoch": broker.epoch,
        "since": datetime.fromtimestamp(each.since_ms / 1000).astimezone().isoformat(" ", "seconds"),
        "leads": len(cluster.led_by(broker.id)),
        "holds": len(cluster.on(broker.id)),
        "controller": acting is not None and acting.id == broker.id,
    }


def _more(cluster: ClusterDescription, each: Registered) -> dict[str, object]:
    ident: BrokerId = each.broker.id
    held = cluster.on(ident)
    return {
        "protocols": dict(each.broker.protocols),
        "features": {name: f"{least}-{most}" for name, (least, most) in each.broker.features.items()},
        "preferred": sum(cluster.assignment(where).replicas[0] == ident for where in held),
        "behind": [str(where) for where in held if ident not in cluster.isr(where)],
    }
