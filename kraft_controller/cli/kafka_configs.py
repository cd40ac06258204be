"""The options of `kafka-configs.sh`, in our verbs: who has them at hand, or in scripts, need not learn anew.

--alter --entity-type users --entity-name ann --add-config 'SCRAM-SHA-512=[password=secret]'
alter users ann --set 'SCRAM-SHA-512=[password=secret]'
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Final, NoReturn

from kraft_controller.cli.common import Misuse

_PAIR: Final = re.compile(r"\s*([^=,\s]+)=(\[[^\]]*\]|[^,]*)\s*(?:,|$)")
_SHORT: Final = {"--topic": "topics", "--user": "users", "--client": "clients", "--broker": "brokers", "--ip": "ips"}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Misuse(f"in the form of kafka-configs.sh: {message}")


def as_verbs(arguments: Sequence[str]) -> list[str]:
    """What is in our own form stays as it is."""
    if "--alter" not in arguments and "--describe" not in arguments:
        return list(arguments)
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--alter", action="store_true")
    parser.add_argument("--describe", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--force", action="store_true")
    for option in ("--zookeeper", "--store", "--bootstrap-server", "--bootstrap-controller", *_SHORT):
        parser.add_argument(option)
    parser.add_argument("--entity-type", action="append", default=[])
    parser.add_argument("--entity-name", action="append", default=[])
    parser.add_argument("--entity-default", action="append_const", const="", dest="entity_name")
    parser.add_argument("--add-config", default="")
    parser.add_argument("--delete-config", default="")
    given, rest = parser.parse_known_args(list(arguments))
    if given.bootstrap_server or given.bootstrap_controller:
        raise Misuse("--bootstrap-server: configurations are changed at the store: name it by --zookeeper HOST:PORT")
    if given.alter == given.describe:
        raise Misuse("--alter or --describe: one of both")
    made = ["alter" if given.alter else "describe", *_entity(given)]
    store = given.store or given.zookeeper
    made += ["--store", store] if store else []
    made += ["--all"] if given.all else []
    for key, value in _pairs(given.add_config):
        made += ["--set", f"{key}={value}"]
    for key in filter(None, (part.strip() for part in given.delete_config.split(","))):
        made += ["--unset", key]
    return made + rest


def _entity(given: argparse.Namespace) -> list[str]:
    kinds, names = list(given.entity_type), list(given.entity_name)
    for option, kind in _SHORT.items():
        name = getattr(given, option.removeprefix("--"))
        if name is not None:
            kinds.append(kind)
            names.append(name)
    if not kinds:
        raise Misuse("--entity-type: topics, brokers, clients, users or ips")
    if len(names) > len(kinds) or (names and len(names) < len(kinds)):
        raise Misuse("each --entity-type has its --entity-name, or --entity-default")
    named = dict(zip(kinds, names, strict=False))
    if "users" in named and "clients" in named and len(kinds) == 2:
        return ["users", *_name(named["users"]), "--client", named["clients"] or "<default>"]
    if len(kinds) != 1:
        raise Misuse(f"{', '.join(kinds)}: of two kinds only users and clients go together")
    return [kinds[0], *(_name(names[0]) if names else [])]


def _name(name: str) -> list[str]:
    return [name] if name else ["--default"]


def _pairs(text: str) -> list[tuple[str, str]]:
    """`a=1,b=[2,3]`: a value with commas stands in brackets. Those of a password stay: it is not kept as it is."""
    found, at = [], 0
    while at < len(text):
        match = _PAIR.match(text, at)
        if match is None or match.end() == at:
            raise Misuse(f"--add-config, from character {at + 1}: this is no key=value, or key=[value,value]")
        key, value = match[1], match[2]
        found.append((key, value if key.startswith("SCRAM-") else value.removeprefix("[").removesuffix("]")))
        at = match.end()
    return found
