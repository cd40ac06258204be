"""Translation of the options of `kafka-configs.sh` to the arguments of `zab-broker configs`, so that scripts keep
working.

    --alter --entity-type users --entity-name ann --add-config 'SCRAM-SHA-512=[password=secret]'
    alter users ann --set 'SCRAM-SHA-512=[password=secret]'
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import click

from zab.cli.kit.failures import Misused
from zab.cli.kit.verb_group import Arguments

_PAIR: Final = re.compile(r"\s*([^=,\s]+)=(\[[^\]]*\]|[^,]*)\s*(?:,|$)")
_SHORT: Final = {"--topic": "topics", "--user": "users", "--client": "clients", "--broker": "brokers", "--ip": "ips"}


_DEFAULT: Final = "--entity-default"
_VALUES: Final = (
    "--zookeeper", "--store", "--bootstrap-server", "--bootstrap-controller",
    "--add-config", "--delete-config", *_SHORT,
)  # fmt: skip
_PARSER: Final = click.Command(
    "kafka-configs.sh",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    add_help_option=False,
    params=[
        *(click.Option([name], is_flag=True) for name in ("--alter", "--describe", "--all", "--force")),
        *(click.Option([name]) for name in _VALUES),
        *(click.Option([name], multiple=True) for name in ("--entity-type", "--entity-name")),
    ],
)


def as_verbs(arguments: Sequence[str]) -> list[str]:
    """Translate Kafka's options. Return the arguments unchanged if they contain neither `--alter` nor `--describe`."""
    if "--alter" not in arguments and "--describe" not in arguments:
        return list(arguments)
    words = [word for each in arguments for word in (("--entity-name", "") if each == _DEFAULT else (each,))]
    try:
        context = _PARSER.make_context(None, words)
    except click.UsageError as error:
        raise Misused(f"options of kafka-configs.sh: {error.format_message()}") from None
    given, rest = Arguments(**context.params), context.args
    if given.bootstrap_server or given.bootstrap_controller:
        raise Misused("configurations are in the store: use --zookeeper HOST:PORT in place of --bootstrap-...")
    if given.alter == given.describe:
        raise Misused("use either --alter or --describe, not both")
    made = ["alter" if given.alter else "describe", *_entity(given)]
    store = given.store or given.zookeeper
    made += ["--store", store] if store else []
    made += ["--all"] if given.all else []
    for key, value in _pairs(given.add_config or ""):
        made += ["--set", f"{key}={value}"]
    for key in filter(None, (part.strip() for part in (given.delete_config or "").split(","))):
        made += ["--unset", key]
    return made + rest


def _entity(given: Arguments) -> list[str]:
    kinds, names = list(given.entity_type), list(given.entity_name)
    for option, kind in _SHORT.items():
        name = getattr(given, option.removeprefix("--"))
        if name is not None:
            kinds.append(kind)
            names.append(name)
    if not kinds:
        raise Misused("--entity-type: expected topics, brokers, clients, users or ips")
    if len(names) > len(kinds) or (names and len(names) < len(kinds)):
        raise Misused("expected one --entity-name or --entity-default for each --entity-type")
    named = dict(zip(kinds, names, strict=False))
    if "users" in named and "clients" in named and len(kinds) == 2:
        return ["users", *_name(named["users"]), "--client", named["clients"] or "<default>"]
    if len(kinds) != 1:
        raise Misused(f"{', '.join(kinds)}: only users and clients can be combined")
    return [kinds[0], *(_name(names[0]) if names else [])]


def _name(name: str) -> list[str]:
    return [name] if name else ["--default"]


def _pairs(text: str) -> list[tuple[str, str]]:
    """Parse `a=1,b=[2,3]`, where brackets enclose a value with commas. The values of SCRAM keys keep their brackets."""
    found, at = [], 0
    while at < len(text):
        match = _PAIR.match(text, at)
        if match is None or match.end() == at:
            raise Misused(f"--add-config, from character {at + 1}: expected key=value or key=[value,value]")
        key, value = match[1], match[2]
        found.append((key, value if key.startswith("SCRAM-") else value.removeprefix("[").removesuffix("]")))
        at = match.end()
    return found
