"""`zab-broker configs`: dynamic settings of topics, brokers, clients, users and IP addresses."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

import zab
from kraft_controller.cli.kafka_configs import as_verbs
from kraft_controller.cli.store_connection import StoreVerbs
from kraft_controller.cli.topics_command import pair
from kraft_controller.core.configuration.config_keys import DEFAULT, KEYS, ConfigError, key_of
from kraft_controller.core.configuration.scram import Mechanism, asked_for, read_credential
from kraft_controller.runtime.admin.entity_configs import (
    Entity,
    NoSuchEntity,
    alter_config,
    check_exists,
    entities,
    read_config,
    read_configs,
)
from kraft_controller.wire.znodes import DamagedNode
from zab.cli.kit.failures import DONE, FAILED, Failed, Misused
from zab.cli.kit.output import progress, say, show
from zab.cli.kit.verb_group import Arguments
from zab.core.secrets import shown

F = TypeVar("F", bound=Callable[..., Any])


class _Configs(StoreVerbs):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, as_verbs(args))


@click.group(cls=_Configs)
def configs() -> None:
    """Show and change dynamic settings of topics, brokers, clients, users and IP addresses. A change needs no restart.

    \b
    zab-broker configs describe topics orders
    zab-broker configs describe topics orders --all                the built-in defaults, too
    zab-broker configs alter topics orders --set retention.ms=86400000 --set min.insync.replicas=2
    zab-broker configs alter brokers --default --set log.retention.ms=604800000
    zab-broker configs delete topics orders --unset retention.ms
    zab-broker configs alter users ann --client app --set producer_byte_rate=1048576
    zab-broker configs alter users ann --set 'SCRAM-SHA-512=[password=secret]'

    The main options of kafka-configs.sh (--alter --entity-type users ...) work, too, with --zookeeper in place of
    --bootstrap-server.
    """


def _entity(function: F) -> F:
    """Add the parameters that name one entity."""
    function = click.option(
        "--client",
        metavar="NAME",
        help="Only with users: the settings for the pair of this user and client id.",
    )(function)
    function = click.option(
        "--default",
        is_flag=True,
        help="The defaults of this entity type. Each applies to all entities that do not set the key.",
    )(function)
    function = click.argument("name", required=False)(function)
    return click.argument("kind", type=click.Choice(sorted(KEYS)), metavar=f"{{{','.join(sorted(KEYS))}}}")(function)


_unset: Final = "A key to remove, so that its default applies again. May be repeated."


def _named(arguments: Arguments) -> Entity:
    name = DEFAULT if arguments.default else arguments.name
    if arguments.default and arguments.kind == "topics":
        raise Misused("the defaults of topics are broker settings: use brokers --default")
    if name is None:
        raise Misused(
            f"missing NAME: expected one of the {arguments.kind}"
            + ("" if arguments.kind == "topics" else ", or --default")
        )
    if arguments.client is not None and arguments.kind != "users":
        raise Misused("--client requires the entity type users")
    try:
        return Entity.of(arguments.kind, name, arguments.client)
    except NoSuchEntity as error:
        raise Misused(str(error)) from None


@configs.verb(
    "describe",
    "Show settings. NAME is a topic, a broker id, a client id, a user or an IP address. With neither NAME "
    "nor --default, show the settings of all entities of the type.",
)
@_entity
@click.option("--all", is_flag=True, help="Also show keys that are not set, with their built-in defaults.")
async def _describe(session: zab.Session, arguments: Arguments) -> int:
    one = arguments.name is not None or arguments.default or arguments.client is not None
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
        of = entity.name if entity.name != DEFAULT else "(default)"
        rows += [{"of": of, "key": key, "value": _shown(key, value), "source": "here"} for key, value in found.items()]
        if arguments.all:
            rows += [
                {"of": of, "key": key.name, "value": key.default, "source": "default", "about": key.about}
                for key in KEYS[entity.kind].values()
                if key.name not in found
            ]
    show(arguments.json, rows, ["of", "key", "value", "source"] + (["about"] if arguments.all else []))
    return code


@configs.verb("alter", "Set or unset some keys; the others stay unchanged.")
@_entity
@click.option("--set", multiple=True, metavar="KEY=VALUE", help="A key and its value. May be repeated.")
@click.option("--unset", multiple=True, metavar="KEY", help=_unset)
async def _alter(session: zab.Session, arguments: Arguments) -> int:
    put = dict(pair("--set", text) for text in arguments.set)
    if not put and not arguments.unset:
        raise Misused("nothing to do: use --set KEY=VALUE or --unset KEY")
    both = sorted(set(put) & set(arguments.unset))
    if both:
        raise Misused(f"{', '.join(both)}: both set and unset")
    return await _change(session, arguments, put, arguments.unset)


@configs.verb("delete", "Unset some keys, so that their defaults apply again.")
@_entity
@click.option("--unset", multiple=True, required=True, metavar="KEY", help=_unset)
async def _delete(session: zab.Session, arguments: Arguments) -> int:
    return await _change(session, arguments, {}, arguments.unset)


async def _change(session: zab.Session, arguments: Arguments, put: dict[str, str], remove: Sequence[str]) -> int:
    entity = _named(arguments)
    try:
        await check_exists(session, entity)
        for key in (key_of(entity.kind, name) for name in put):
            if key.idle:
                progress(f"note: {key.name} has no effect: {key.idle}")
        if entity.kind == "brokers" and entity.name != DEFAULT and put and await _is_not_there(session, entity):
            progress(f"warning: broker {entity.name} is not registered; it applies its settings once it registers")
        missing = sorted(set(remove) - set(await read_config(session, entity)))
        if missing:
            raise Failed(f"{entity.path}: not set: {', '.join(missing)}")
        after = await alter_config(session, entity, _kept(entity, put), remove)
    except (ConfigError, NoSuchEntity, DamagedNode) as error:
        raise Failed(str(error)) from None
    shown = {key: _shown(key, value) for key, value in after.items()}
    text = " ".join(f"{key}={value}" for key, value in shown.items()) or "nothing"
    say(arguments.json, f"{entity.path}: {text}", entity=entity.path, config=shown)
    return DONE


async def _is_not_there(session: zab.Session, broker: Entity) -> bool:
    return await session.exists(f"/brokers/ids/{broker.name}") is None


_MECHANISMS = {mechanism.value: mechanism for mechanism in Mechanism}


def _kept(entity: Entity, put: dict[str, str]) -> dict[str, str]:
    """Replace the passwords in the settings of a user by SCRAM credentials."""
    if entity.kind == "clients" or not entity.path.startswith("users/"):
        return put
    return {
        key: asked_for(_MECHANISMS[key], text, os.urandom).text if key in _MECHANISMS else text
        for key, text in put.items()
    }


def _shown(key: str, text: str) -> str:
    """Return the text to show for a value, without secrets.

    For a SCRAM credential, return only the number of iterations: the rest would help to guess the password.
    """
    if key not in _MECHANISMS:
        return shown(key, text)
    try:
        return f"iterations={read_credential(_MECHANISMS[key], text).iterations}"
    except ConfigError:
        return "(damaged)"
