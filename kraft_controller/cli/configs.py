"""What is configured while everything runs: of topics, brokers, clients and users. Every broker hears of a change.

examples:
  zab-broker configs describe topics orders
  zab-broker configs describe topics orders --all                the defaults, too
  zab-broker configs alter topics orders --set retention.ms=86400000 --set min.insync.replicas=2
  zab-broker configs alter brokers --default --set log.retention.ms=604800000
  zab-broker configs delete topics orders --unset retention.ms
  zab-broker configs alter users ann --client app --set producer_byte_rate=1048576
  zab-broker configs alter users ann --set 'SCRAM-SHA-512=[password=secret]'

The options of kafka-configs.sh (--alter --entity-type users ...) are understood, too.
"""

from __future__ import annotations

import argparse
import os

import zab
from kraft_controller.cli.common import DONE, FAILED, Failed, Misuse, connected, progress, say, show, verbs
from kraft_controller.cli.kafka_configs import as_verbs as as_verbs
from kraft_controller.cli.topics import pair
from kraft_controller.core.configs import DEFAULT, KEYS, ConfigError
from kraft_controller.core.scram import Mechanism, asked_for, read_credential
from kraft_controller.runtime.admin.configs import (
    Entity,
    NoSuchEntity,
    alter_config,
    entities,
    read_config,
    read_configs,
)
from kraft_controller.wire.znodes import DamagedNode

act = connected


def add(parser: argparse.ArgumentParser) -> None:
    verb = verbs(parser)
    describe = verb("describe", _describe, "what is configured")
    _entity(describe, "(default: all that have something configured)")
    describe.add_argument("--all", action="store_true", help="also keys that nothing is said of, with their defaults")
    alter = verb("alter", _alter, "some keys; the others stay as they are")
    _entity(alter, "")
    alter.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as often as you like")
    alter.add_argument("--unset", action="append", default=[], metavar="KEY", help="as often as you like")
    delete = verb("delete", _delete, "some keys, so that the defaults are in force again")
    _entity(delete, "")
    delete.add_argument("--unset", action="append", required=True, metavar="KEY", help="as often as you like")


def _entity(parser: argparse.ArgumentParser, more: str) -> None:
    parser.add_argument("kind", choices=sorted(KEYS), help="what is configured")
    parser.add_argument("name", nargs="?", help=f"of a topic, a broker's number, ... {more}".rstrip())
    parser.add_argument("--default", action="store_true", help="for all that have nothing of their own")
    parser.add_argument("--client", metavar="NAME", help="of a user: with this client only")


def _named(arguments: argparse.Namespace) -> Entity:
    name = DEFAULT if arguments.default else arguments.name
    if arguments.default and arguments.kind == "topics":
        raise Misuse("what is for all topics is said of brokers: configs alter brokers --default")
    if name is None:
        raise Misuse(
            f"whose? Name one of the {arguments.kind}" + ("" if arguments.kind == "topics" else ", or --default")
        )
    if arguments.client is not None and arguments.kind != "users":
        raise Misuse("--client is for users")
    try:
        return Entity.of(arguments.kind, name, arguments.client)
    except NoSuchEntity as error:
        raise Misuse(str(error)) from None


async def _describe(session: zab.Session, arguments: argparse.Namespace) -> int:
    one = arguments.name is not None or arguments.default
    wanted = [_named(arguments)] if one else await entities(session, arguments.kind)
    if one and arguments.kind == "topics" and await session.exists(f"/brokers/topics/{arguments.name}") is None:
        raise Failed(f"there is no topic {arguments.name}")
    code = DONE
    rows: list[dict[str, object]] = []
    for entity, found in (await read_configs(session, wanted)).items():
        if isinstance(found, DamagedNode):
            progress(f"damaged: {found}")
            code = FAILED
            continue
        who = entity.name if entity.name != DEFAULT else "(default)"
        rows += [{"of": who, "key": key, "value": _shown(key, value), "source": "here"} for key, value in found.items()]
        if arguments.all:
            rows += [
                {"of": who, "key": key.name, "value": key.default, "source": "default", "about": key.about}
                for key in KEYS[entity.kind].values()
                if key.name not in found
            ]
    show(arguments, rows, ["of", "key", "value", "source"] + (["about"] if arguments.all else []))
    return code


async def _alter(session: zab.Session, arguments: argparse.Namespace) -> int:
    put = dict(pair(text) for text in arguments.set)
    if not put and not arguments.unset:
        raise Misuse("nothing to do: --set KEY=VALUE, or --unset KEY")
    both = sorted(set(put) & set(arguments.unset))
    if both:
        raise Misuse(f"{', '.join(both)}: both set and unset")
    return await _change(session, arguments, put, arguments.unset)


async def _delete(session: zab.Session, arguments: argparse.Namespace) -> int:
    return await _change(session, arguments, {}, arguments.unset)


async def _change(session: zab.Session, arguments: argparse.Namespace, put: dict[str, str], remove: list[str]) -> int:
    entity = _named(arguments)
    for key in (KEYS[entity.kind][name] for name in put if name in KEYS[entity.kind]):
        if key.idle:
            progress(f"note: {key.name} has no effect at brokers of ours: {key.idle}")
    try:
        if entity.kind == "brokers" and entity.name != DEFAULT and put and await _is_not_there(session, entity):
            progress(f"warning: no broker {entity.name} is registered; this is for one that comes")
        missing = sorted(set(remove) - set(await read_config(session, entity)))
        if missing:
            raise Failed(f"{entity.path}: {', '.join(missing)} is not configured")
        after = await alter_config(session, entity, _kept(entity, put), remove)
    except (ConfigError, NoSuchEntity, DamagedNode) as error:
        raise Failed(str(error)) from None
    shown = " ".join(f"{key}={_shown(key, value)}" for key, value in after.items()) or "nothing"
    told = {key: _shown(key, value) for key, value in after.items()}
    say(arguments, f"{entity.path}: {shown}", entity=entity.path, config=told)
    return DONE


async def _is_not_there(session: zab.Session, broker: Entity) -> bool:
    return await session.exists(f"/brokers/ids/{broker.name}") is None


_MECHANISMS = {mechanism.value: mechanism for mechanism in Mechanism}


def _kept(entity: Entity, put: dict[str, str]) -> dict[str, str]:
    """Of a password only what it can be checked with."""
    if entity.kind == "clients" or not entity.path.startswith("users/"):
        return put
    return {
        key: asked_for(_MECHANISMS[key], text, os.urandom).text if key in _MECHANISMS else text
        for key, text in put.items()
    }


def _shown(key: str, text: str) -> str:
    """Whoever has the keys of a password can try others on it for as long as he likes."""
    if key not in _MECHANISMS:
        return text
    try:
        return f"iterations={read_credential(_MECHANISMS[key], text).iterations}"
    except ConfigError:
        return "(damaged)"
