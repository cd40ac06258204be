"""`zab-broker acls`: list, add and remove ACLs in the store, with the options of kafka-acls.sh."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar

import click

import zab
from kraft_controller.cli.store_connection import store_options, with_session
from kraft_controller.runtime.bounded_requests import run_bounded
from kraft_controller.wire.znodes import DamagedNode
from replica.core.errors import KafkaError
from replica.core.security.acls import (
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
from replica.runtime.authorization.authorizer import write_acls
from replica.wire import acl_nodes
from zab.cli.kit.failures import DONE, FAILED, Failed, Misused
from zab.cli.kit.options import check_exclusive
from zab.cli.kit.output import progress, show
from zab.cli.kit.verb_group import Arguments, Handler, connected_command

F = TypeVar("F", bound=Callable[..., Any])

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


def _operation(text: str) -> Operation:
    for each in Operation:
        if each > Operation.ANY and text.lower() in (each.name.lower(), title(each).lower()):
            return each
    raise click.BadParameter(f"{text}: expected one of {', '.join(title(each) for each in Operation if each > 1)}")


def _pattern_type(text: str) -> PatternType:
    try:
        return PatternType[text.upper()]
    except KeyError:
        raise click.BadParameter(f"{text}: expected literal, prefixed, match or any") from None


_NAMED: Final = (
    ("--topic", "A topic"), ("--group", "A group"), ("--transactional-id", "A transactional id"),
    ("--delegation-token", "A delegation token"), ("--user-principal", "A user, for CreateTokens and DescribeTokens"),
)  # fmt: skip


def _resource_options(function: F) -> F:
    for name, what in reversed(_NAMED):
        function = click.option(
            name, multiple=True, metavar="NAME", help=f"{what}; an ACL for * applies to all. May be repeated."
        )(function)
    return function


@click.option("--add", is_flag=True, help="Add ACLs for principals on resources.")
@click.option("--remove", is_flag=True, help="Remove the given ACLs; without principals, all ACLs of the resources.")
@click.option("--list", is_flag=True, help="List all ACLs, or those of the given resources and principals.")
@_resource_options
@click.option("--cluster", is_flag=True, help="The cluster itself.")
@click.option(
    "--resource-pattern-type",
    type=_pattern_type,
    default="literal",
    show_default=True,
    metavar="TYPE",
    help="literal: the resource with this name. prefixed: all resources whose names begin with it. Two more types "
    "select ACLs for --list, and for --remove without principals: any (both types, with exactly this name), and match "
    "(all ACLs that apply to the resource with this name).",
)
@click.option("--allow-principal", multiple=True, metavar="User:NAME", help="A principal that is allowed.")
@click.option("--deny-principal", multiple=True, metavar="User:NAME", help="A principal that is denied.")
@click.option("--principal", multiple=True, metavar="User:NAME", help="With --list: only ACLs of this principal.")
@click.option("--allow-host", multiple=True, metavar="HOST", help="The host that is allowed.  [default: *]")
@click.option("--deny-host", multiple=True, metavar="HOST", help="The host that is denied.  [default: *]")
@click.option("--operation", type=_operation, multiple=True, metavar="OPERATION", help="The operation.  [default: All]")
@click.option(
    "--producer", is_flag=True, help="The operations that a producer needs on its topics and its transactional id."
)
@click.option("--consumer", is_flag=True, help="The operations that a consumer needs on its topics and its group.")
@click.option("--idempotent", is_flag=True, help="With --producer: IdempotentWrite, too.")
@click.option("--force", is_flag=True, help="Remove without confirmation.")
@click.option("--authorizer-properties", metavar="zookeeper.connect=HOST:PORT", help="The same as --store.")
@click.option("--authorizer", metavar="CLASS", help="Ignored, since there is only one authorizer.")
async def _acls(session: zab.Session, arguments: Arguments) -> int:
    return await (_add if arguments.add else _remove if arguments.remove else _list)(session, arguments)


def _connect(handler: Handler, arguments: Arguments) -> int:
    check_exclusive(arguments, "--add", "--remove", "--list", required=True)
    where = arguments.authorizer_properties
    if where is not None:
        if not where.startswith(_STORE):
            raise Misused(f"--authorizer-properties {where}: expected {_STORE}HOST:PORT")
        arguments.store = where.removeprefix(_STORE)
    return with_session(handler, arguments)


_HELP: Final = """List, add and remove ACLs in the store. The options about ACLs are those of kafka-acls.sh; --store
replaces --bootstrap-server.

\b
zab-broker acls --add --allow-principal User:ann --producer --topic orders
zab-broker acls --add --allow-principal User:bob --consumer --topic ord --group r- --resource-pattern-type prefixed
zab-broker acls --add --deny-principal User:eve --deny-host 10.0.0.7 --operation All --topic '*'
zab-broker acls --list --topic orders --resource-pattern-type match
zab-broker acls --remove --allow-principal User:ann --operation Write --topic orders --force

A broker applies ACLs if its authorizer.class.name is kafka.security.authorizer.AclAuthorizer.
"""
acls: Final = connected_command("acls", _HELP, _acls, _connect, store_options())


# -- the ACLs and filters that the options describe -----------------------------------------------------------


def wanted_acls(arguments: Arguments) -> list[Acl]:
    """Return the ACLs that the options describe: one for each resource, operation, principal and host."""
    found: dict[Acl, None] = {}
    for pattern, operations in _operations_by_pattern(arguments).items():
        for entry in _entries(arguments, operations):
            acl = Acl(pattern, entry)
            try:
                check_acl(acl)
            except BadAcl as error:
                raise Misused(str(error)) from None
            if entry.operation not in (*OPERATIONS[pattern.resource], Operation.ALL):
                can = ", ".join(title(each) for each in OPERATIONS[pattern.resource])
                what = f"{title(entry.operation)} does not apply to {title(pattern.resource)}"
                raise Misused(f"{what}: expected one of {can}, or All")
            found[acl] = None
    if not found:
        raise Misused("missing principal: --allow-principal User:NAME, or --deny-principal")
    return list(found)


def _entries(arguments: Arguments, operations: Iterable[Operation]) -> list[Entry]:
    allowed = (Permission.ALLOW, arguments.allow_principal, arguments.allow_host)
    denied = (Permission.DENY, arguments.deny_principal, arguments.deny_host)
    return [
        Entry(principal, host, operation, permission)
        for operation in operations
        for permission, principals, hosts in (allowed, denied)
        for principal in principals
        for host in hosts or [ANY_HOST]
    ]


def _operations_by_pattern(arguments: Arguments) -> dict[Pattern, dict[Operation, None]]:
    patterns = resources_of(arguments)
    if not patterns:
        raise Misused(
            "missing resource: --topic, --group, --cluster, --transactional-id, --delegation-token or --user-principal"
        )
    if not (arguments.producer or arguments.consumer):
        if arguments.idempotent:
            raise Misused("--idempotent requires --producer")
        return {pattern: dict.fromkeys(arguments.operation or [Operation.ALL]) for pattern in patterns}
    if arguments.operation or arguments.deny_principal:
        raise Misused("--producer and --consumer exclude --operation and --deny-principal")
    kinds = {pattern.resource for pattern in patterns}
    if ResourceType.TOPIC not in kinds or (arguments.consumer and ResourceType.GROUP not in kinds):
        raise Misused("--producer needs a --topic, and --consumer a --topic and a --group")
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


def resources_of(arguments: Arguments) -> list[Pattern]:
    kind = arguments.resource_pattern_type
    found = [
        Pattern(resource, name, kind) for option, resource in _RESOURCES.items() for name in getattr(arguments, option)
    ]
    return [*found, *([_CLUSTER] if arguments.cluster else [])]


def filters(arguments: Arguments, principals: Iterable[str]) -> list[Filter]:
    """Return the filters that the options describe. An ACL is selected if any of them matches it."""
    whose: list[str | None] = [*principals] or [None]
    for each in principals:
        try:
            check_principal(each)
        except BadAcl as error:
            raise Misused(str(error)) from None
    patterns = resources_of(arguments)
    if not patterns:
        return [Filter(principal=principal) for principal in whose]
    return [
        Filter(pattern.resource, pattern.name, pattern.kind, principal=principal)
        for pattern in patterns
        for principal in whose
    ]


# -- reads and writes in the store -------------------------------------------------------------------------------


async def _add(session: zab.Session, arguments: Arguments) -> int:
    wanted = wanted_acls(arguments)
    for pattern in dict.fromkeys(acl.pattern for acl in wanted):
        more = frozenset(acl.entry for acl in wanted if acl.pattern == pattern)
        await _write(session, pattern, more, frozenset())
    _show(arguments, wanted)
    return DONE


async def _remove(session: zab.Session, arguments: Arguments) -> int:
    there, damaged = await _read(session)
    if arguments.allow_principal or arguments.deny_principal:
        named = set(wanted_acls(arguments))
        gone = [acl for acl in there if acl in named]
    elif resources_of(arguments):
        some = filters(arguments, ())
        gone = [acl for acl in there if any(acl in each for each in some)]
    else:
        raise Misused("missing resource: --topic, --group, ...")
    if not gone:
        raise Failed("no ACL matches the options")
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


async def _list(session: zab.Session, arguments: Arguments) -> int:
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
    """Return all ACLs, sorted, and an error for each node that cannot be parsed."""

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

    listed = await run_bounded(
        [partial(names, resource, kind) for kind in acl_nodes.ROOTS for resource in acl_nodes.STORED]
    )
    patterns = [pattern for some in listed for pattern in some]
    found = await run_bounded([partial(entries, pattern) for pattern in patterns])
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
        progress(f"{why}: until this node is repaired, only super users may use the resource")
        code = FAILED
    return code


def _show(arguments: Arguments, acls: Iterable[Acl]) -> None:
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
    show(arguments.json, rows, ["resource", "name", "pattern", "principal", "host", "operation", "permission"])
