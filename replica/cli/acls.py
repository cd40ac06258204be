"""Who may do what: show ACLs, add some, remove some, at the store. The options are those of kafka-acls.sh.

examples:
  zab-broker acls --add --allow-principal User:ann --producer --topic orders
  zab-broker acls --add --allow-principal User:bob --consumer --topic ord --group r- --resource-pattern-type prefixed
  zab-broker acls --add --deny-principal User:eve --deny-host 10.0.0.7 --operation All --topic '*'
  zab-broker acls --list --topic orders --resource-pattern-type match
  zab-broker acls --remove --allow-principal User:ann --operation Write --topic orders --force

Brokers heed them whose authorizer.class.name is kafka.security.authorizer.AclAuthorizer.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from functools import partial
from typing import Final

import zab
from kraft_controller.cli.common import (
    DONE,
    FAILED,
    Failed,
    Misuse,
    connected,
    output_arguments,
    progress,
    show,
    store_arguments,
)
from kraft_controller.runtime.together import together
from kraft_controller.wire.znodes import DamagedNode
from replica.core.acls import (
    ANY_HOST,
    CLUSTER_NAME,
    OPERATIONS,
    Acl,
    BadAcl,
    Entry,
    Filter,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
    check_acl,
    check_principal,
    title,
)
from replica.core.errors import KafkaError
from replica.runtime.authorizer import write_acls
from replica.wire import acl_nodes

_RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "delegation_token": ResourceType.DELEGATION_TOKEN,
    "user_principal": ResourceType.USER,
}
_PRODUCER: Final = (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
_OF_PRODUCERS_ID: Final = (Operation.WRITE, Operation.DESCRIBE)
_CONSUMER: Final = (Operation.READ, Operation.DESCRIBE)
_STORE: Final = "zookeeper.connect="


def add(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--add", action="store_true", help="ACLs, for principals on resources")
    what.add_argument(
        "--remove", action="store_true", help="those that are named; without principals all of a resource"
    )
    what.add_argument("--list", action="store_true", help="all, or those of resources and principals")
    for name, of in (
        ("--topic", "a topic"), ("--group", "a group"), ("--transactional-id", "what a transaction goes by"),
        ("--delegation-token", "a token"), ("--user-principal", "a user, for whom tokens may be made"),
    ):  # fmt: skip
        parser.add_argument(name, action="append", default=[], metavar="NAME", help=f"{of}; * is every one")
    parser.add_argument("--cluster", action="store_true", help="the cluster itself")
    parser.add_argument(
        "--resource-pattern-type", type=_pattern_type, default=PatternType.LITERAL, metavar="TYPE",
        help="literal: of this name (default); prefixed: of names that begin so; to list and remove also any; match: "
        "whatever fits a resource of this name",
    )  # fmt: skip
    parser.add_argument("--allow-principal", action="append", default=[], metavar="User:NAME", help="who may")
    parser.add_argument("--deny-principal", action="append", default=[], metavar="User:NAME", help="who may not")
    parser.add_argument("--principal", action="append", default=[], metavar="User:NAME", help="with --list: whose")
    parser.add_argument("--allow-host", action="append", default=[], metavar="HOST", help="from where (default *)")
    parser.add_argument("--deny-host", action="append", default=[], metavar="HOST", help="from where not (default *)")
    parser.add_argument("--operation", type=_operation, action="append", default=[], help="what (default All)")
    parser.add_argument("--producer", action="store_true", help="what a producer needs: Write, Describe, Create")
    parser.add_argument("--consumer", action="store_true", help="what a consumer needs of its topics and its group")
    parser.add_argument("--idempotent", action="store_true", help="with --producer: also IdempotentWrite")
    parser.add_argument("--force", action="store_true", help="do not ask before anything is removed")
    parser.add_argument("--authorizer-properties", metavar="zookeeper.connect=HOST:PORT", help="the same as --store")
    parser.add_argument("--authorizer", metavar="CLASS", help="taken, and not looked at: there is one")
    output_arguments(parser)
    store_arguments(parser)


def act(arguments: argparse.Namespace) -> int:
    where = arguments.authorizer_properties
    if where is not None:
        if not where.startswith(_STORE):
            raise Misuse(f"--authorizer-properties {where}: it is {_STORE}HOST:PORT")
        arguments.store = where.removeprefix(_STORE)
    arguments.work = _add if arguments.add else _remove if arguments.remove else _list
    return connected(arguments)


def _operation(text: str) -> Operation:
    for each in Operation:
        if each > Operation.ANY and text.lower() in (each.name.lower(), title(each).lower()):
            return each
    raise argparse.ArgumentTypeError(f"{text}: it is {', '.join(title(each) for each in Operation if each > 1)}")


def _pattern_type(text: str) -> PatternType:
    try:
        return PatternType[text.upper()]
    except KeyError:
        raise argparse.ArgumentTypeError(f"{text}: it is literal, prefixed, match or any") from None


# -- what is meant -----------------------------------------------------------------------------------------


def wanted_acls(arguments: argparse.Namespace) -> list[Acl]:
    """Those to be added, or to be removed one by one."""
    found: dict[Acl, None] = {}
    for pattern, operations in _operations_by_pattern(arguments).items():
        for entry in _entries(arguments, operations):
            acl = Acl(pattern, entry)
            try:
                check_acl(acl)
            except BadAcl as error:
                raise Misuse(str(error)) from None
            if entry.operation not in (*OPERATIONS[pattern.resource], Operation.ALL):
                can = ", ".join(title(each) for each in OPERATIONS[pattern.resource])
                what = f"{title(entry.operation)} is nothing to do with {title(pattern.resource)}"
                raise Misuse(f"{what}: there are {can}, and All")
            found[acl] = None
    if not found:
        raise Misuse("whose? --allow-principal User:NAME, or --deny-principal")
    return list(found)


def _entries(arguments: argparse.Namespace, operations: Iterable[Operation]) -> list[Entry]:
    allowed = (Permission.ALLOW, arguments.allow_principal, arguments.allow_host)
    denied = (Permission.DENY, arguments.deny_principal, arguments.deny_host)
    return [
        Entry(principal, host, operation, permission)
        for operation in operations
        for permission, principals, hosts in (allowed, denied)
        for principal in principals
        for host in hosts or [ANY_HOST]
    ]


def _operations_by_pattern(arguments: argparse.Namespace) -> dict[Pattern, dict[Operation, None]]:
    patterns = resources_of(arguments)
    if not patterns:
        raise Misuse("of what? --topic, --group, --cluster, --transactional-id, --delegation-token or --user-principal")
    if not (arguments.producer or arguments.consumer):
        if arguments.idempotent:
            raise Misuse("--idempotent goes with --producer")
        return {pattern: dict.fromkeys(arguments.operation or [Operation.ALL]) for pattern in patterns}
    if arguments.operation or arguments.deny_principal:
        raise Misuse("--producer and --consumer say what is allowed: --operation and --deny-principal do not go along")
    kinds = {pattern.resource for pattern in patterns}
    if ResourceType.TOPIC not in kinds or (arguments.consumer and ResourceType.GROUP not in kinds):
        raise Misuse("--producer needs a --topic, and --consumer a --topic and a --group")
    found: dict[Pattern, dict[Operation, None]] = {}
    for pattern in patterns:
        of = found.setdefault(pattern, {})
        if arguments.producer:
            of |= dict.fromkeys({ResourceType.TOPIC: _PRODUCER, ResourceType.TRANSACTIONAL_ID: _OF_PRODUCERS_ID}.get(
                pattern.resource, ()))  # fmt: skip
        if arguments.consumer:
            of |= dict.fromkeys({ResourceType.TOPIC: _CONSUMER, ResourceType.GROUP: (Operation.READ,)}.get(
                pattern.resource, ()))  # fmt: skip
    if arguments.idempotent:
        found.setdefault(_CLUSTER, {})[Operation.IDEMPOTENT_WRITE] = None
    return found


_CLUSTER: Final = Pattern(ResourceType.CLUSTER, CLUSTER_NAME)


def resources_of(arguments: argparse.Namespace) -> list[Pattern]:
    kind = arguments.resource_pattern_type
    found = [
        Pattern(resource, name, kind) for option, resource in _RESOURCES.items() for name in getattr(arguments, option)
    ]
    return [*found, *([_CLUSTER] if arguments.cluster else [])]


def filters(arguments: argparse.Namespace, principals: Iterable[str]) -> list[Filter]:
    """Any of them."""
    whose: list[str | None] = [*principals] or [None]
    for each in principals:
        try:
            check_principal(each)
        except BadAcl as error:
            raise Misuse(str(error)) from None
    patterns = resources_of(arguments)
    if not patterns:
        return [Filter(principal=principal) for principal in whose]
    return [
        Filter(pattern.resource, pattern.name, pattern.kind, principal=principal)
        for pattern in patterns
        for principal in whose
    ]


# -- at the store --------------------------------------------------------------------------------------------


async def _add(session: zab.Session, arguments: argparse.Namespace) -> int:
    wanted = wanted_acls(arguments)
    for pattern in dict.fromkeys(acl.pattern for acl in wanted):
        more = frozenset(acl.entry for acl in wanted if acl.pattern == pattern)
        await _write(session, pattern, more, frozenset())
    _show(arguments, wanted)
    return DONE


async def _remove(session: zab.Session, arguments: argparse.Namespace) -> int:
    there, damaged = await _read(session)
    if arguments.allow_principal or arguments.deny_principal:
        named = set(wanted_acls(arguments))
        gone = [acl for acl in there if acl in named]
    elif resources_of(arguments):
        some = filters(arguments, ())
        gone = [acl for acl in there if any(acl in each for each in some)]
    else:
        raise Misuse("which? Name a resource: --topic, --group, ...")
    if not gone:
        raise Failed("there are no such ACLs")
    if not arguments.force and not _agreed(gone):
        raise Failed("nothing was removed")
    for pattern in dict.fromkeys(acl.pattern for acl in gone):
        await _write(session, pattern, frozenset(), frozenset(acl.entry for acl in gone if acl.pattern == pattern))
    _show(arguments, gone)
    return _told(damaged)


def _agreed(gone: Iterable[Acl]) -> bool:
    for acl in gone:
        progress(f"{acl.pattern}: {acl.entry}")
    progress("Remove these? (y/n)")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


async def _list(session: zab.Session, arguments: argparse.Namespace) -> int:
    some = filters(arguments, arguments.principal)
    there, damaged = await _read(session)
    _show(arguments, [acl for acl in there if any(acl in each for each in some)])
    return _told(damaged)


async def _write(session: zab.Session, pattern: Pattern, more: frozenset[Entry], gone: frozenset[Entry]) -> None:
    try:
        await write_acls(session, pattern, lambda before: (before | more) - gone)
    except (DamagedNode, KafkaError) as error:
        raise Failed(str(error)) from None


async def _read(session: zab.Session) -> tuple[list[Acl], list[str]]:
    """In order; and what cannot be read."""

    async def names(resource: ResourceType, kind: PatternType) -> list[Pattern]:
        try:
            found = await session.children(acl_nodes.folder(resource, kind))
        except zab.NoNode:
            return []
        return [Pattern(resource, name, kind) for name in sorted(found)]

    async def entries(pattern: Pattern) -> frozenset[Entry] | DamagedNode:
        path = acl_nodes.path(pattern)
        try:
            return acl_nodes.read_entries(path, (await session.get(path))[0])
        except zab.NoNode:
            return frozenset()
        except DamagedNode as error:
            return error

    listed = await together([partial(names, resource, kind) for kind in acl_nodes.ROOTS for resource in acl_nodes.KEPT])
    patterns = [pattern for some in listed for pattern in some]
    found = await together([partial(entries, pattern) for pattern in patterns])
    acls: list[Acl] = []
    damaged = []
    for pattern, held in zip(patterns, found, strict=True):
        if isinstance(held, DamagedNode):
            damaged.append(str(held))
        else:
            acls += [Acl(pattern, entry) for entry in sorted(held)]
    return acls, damaged


def _told(damaged: Iterable[str]) -> int:
    code = DONE
    for why in damaged:
        progress(f"damaged, and denies everything: {why}")
        code = FAILED
    return code


def _show(arguments: argparse.Namespace, acls: Iterable[Acl]) -> None:
    rows = [
        {
            "resource": title(acl.pattern.resource),
            "name": acl.pattern.name,
            "pattern": acl.pattern.kind.name.lower(),
            "principal": acl.entry.principal,
            "host": acl.entry.host,
            "operation": title(acl.entry.operation),
            "permission": title(acl.entry.permission),
        }
        for acl in acls
    ]
    show(arguments, rows, ["resource", "name", "pattern", "principal", "host", "operation", "permission"])
