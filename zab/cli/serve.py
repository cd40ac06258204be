"""`zab serve`: a server of the coordination store, from ZooKeeper's configuration file."""

from __future__ import annotations

import logging
import sys
from functools import partial
from pathlib import Path

import click
import trio

from zab.cli.kit.failures import run_in_trio
from zab.cli.kit.log_options import format_option, level_option, log_to_stderr
from zab.cli.kit.signals import notify_systemd, stop_on_signal
from zab.cli.kit.standard_streams import announce
from zab.cli.zoo_cfg.dynamic_file import write_membership
from zab.cli.zoo_cfg.effective import effective
from zab.cli.zoo_cfg.plan import ServerPlan, read_plan
from zab.cli.zoo_cfg.remembered_members import OPTION, differences
from zab.config.config_source import BadConfig
from zab.core.addresses import with_port
from zab.core.ensemble import Ensemble
from zab.core.messages import State
from zab.core.zxid import ServerId, show
from zab.host.logs import LEVELS
from zab.host.process_tuning import raise_open_files, tune_collector
from zab.host.watchdog import LoopMonitor
from zab.net.listener import check_free
from zab.net.loop_wait import claim_this_loop
from zab.runtime.directory_owner import claim_directory
from zab.runtime.member_arguments import single_server_ensemble
from zab.runtime.store_server.open_store import make_server, run_server
from zab.runtime.store_server.server_runtime import ServerRuntime
from zab.storage.disk import Disk
from zab.storage.offline import replace_membership
from zab.storage.real_disk import RealDisk
from zab.storage.split_disk import SplitDisk
from zab.store.store import Store

ENSEMBLE_NAME = "zab"
MEMBERSHIP_PAUSE_S = 1.0


@click.command()
@click.argument("config", type=click.Path(path_type=Path), metavar="ZOO.CFG")
@click.option(
    "-D",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a key, in place of the file's value. The prefix `zookeeper.` is optional. May be repeated.",
)
@click.option("--check", is_flag=True, help="Report all mistakes, or print the settings in force; start nothing.")
@click.option(
    OPTION,
    "from_file",
    is_flag=True,
    help="Use the servers of the file in place of those in the data directory. The last resort: stop ALL servers "
    "first, then start ALL servers of the file with this option. Transactions that only the omitted servers have are "
    "lost. New servers must not be a majority. See docs/howto/grow-a-server.md.",
)
@level_option("info")
@format_option
def serve(
    config: Path, options: tuple[str, ...], check: bool, from_file: bool, log_level: str, log_format: str
) -> None:
    """Run one server of the coordination store until SIGINT or SIGTERM. SIGHUP is logged and ignored.

    ZOO.CFG is ZooKeeper's configuration file, unchanged. A warning names each key whose value asks for an effect that
    this server lacks, and all mistakes are reported together. As with ZooKeeper, `myid` is a file in the dataDir.

    The dataDir stores the membership of the ensemble. If the membership in ZOO.CFG differs from the stored one in more
    than the client addresses, the server does not start. It starts with a warning in four cases: it is the only server
    in both; the stored membership does not include it; reconfigEnabled is on and the stored membership includes other
    servers, too; or --membership-from-file is given. Change members while the ensemble runs, with `zab shell reconfig`.

    With peerProtocol=zookeeper, the server is a member of an ensemble with servers of Apache ZooKeeper 3.5 to 3.9.

    \b
    zab serve zoo.cfg                      serve clients at clientPort
    zab serve --check zoo.cfg              print the settings in force
    zab serve zoo.cfg -D tickTime=500      serve with a shorter tick

    \b
    Exit status:
      0  stopped by a signal; with --check: no mistakes
      1  the server could not start, or failed: a port is taken, the disk is full, ...
      2  the command line or the configuration is wrong
    """
    report = _print
    if log_format == "json" and not check:  # a program that reads JSON lines must not get plain text
        log_to_stderr(log_level, log_format)
        report = _log
    try:
        plan = read_plan(config, [_pair(option) for option in options], from_file=from_file)
    except BadConfig as bad:
        report("warning", bad.warnings)
        report("error", bad.problems)
        sys.exit(2)
    if check:
        click.echo(effective(plan), nl=False)
        _print("warning", plan.warnings)
        return
    log_to_stderr(log_level, log_format)
    report("warning", plan.warnings)
    try:
        run_in_trio(run, plan)
    except click.ClickException as failed:
        if report is _print:
            raise
        _log("error", (failed.message,), "failed")
        sys.exit(failed.exit_code)


def _pair(option: str) -> tuple[str, str]:
    key, equals, value = option.partition("=")
    if not key or not equals:
        raise click.UsageError("-D: expected KEY=VALUE, as in -D tickTime=500")
    return key, value


def _print(kind: str, lines: tuple[str, ...]) -> None:
    for line in lines:
        click.echo(f"{kind}: {line}", err=True)


def _log(kind: str, lines: tuple[str, ...], event: str = "configuration") -> None:
    level = LEVELS[kind]
    for line in lines:
        logging.getLogger("zab").log(level, line, extra={"event": event, "fields": {"what": line}})


async def run(plan: ServerPlan) -> None:
    claim_this_loop()
    tune_collector()
    raise_open_files()
    async with trio.open_nursery() as nursery:
        await nursery.start(stop_on_signal, nursery.cancel_scope, True)
        for each in plan.listens:  # before anything is written, so that a start without its ports leaves no history
            await check_free(each.host, each.port, each.purpose)
        if plan.replaces:
            assert plan.ensemble is not None
            await trio.to_thread.run_sync(replace_remembered, plan, plan.ensemble)
        server = make_server(
            plan.data,
            store=plan.store,
            client_ports=plan.client_ports,
            limits=plan.limits,
            server_id=plan.server_id,
            ensemble=plan.ensemble,
            name=ENSEMBLE_NAME,
            settings=plan.settings,
            storage=plan.storage,
            listen_host=plan.listen_host,
            tls=plan.quorum_tls,
            admit_non_members=plan.admit_non_members,
            zookeeper=plan.zookeeper,
            disk=await trio.to_thread.run_sync(split_disk, plan.data, plan.log, plan.server_id),
        )
        http = [settings for settings in (plan.admin, plan.metrics) if settings is not None]
        start = partial(run_server, secure_client_port=plan.secure_port, secure_client_host=plan.secure_host)
        await nursery.start(start, server, plan.client_host, plan.client_port, http)
        if server.ports.client is not None:
            where = with_port(plan.client_host or "*", server.ports.client)
            announce(f"server {plan.server_id} listens for clients on {where}")
        if server.ports.secure_client is not None:
            where = with_port(plan.secure_host or plan.client_host or "*", server.ports.secure_client)
            announce(f"server {plan.server_id} listens for clients on {where}, over TLS")
        nursery.start_soon(announce_readiness, server)
        nursery.start_soon(LoopMonitor(server.member.watchdogs.add("event loop")).run)
        nursery.start_soon(keep_membership, server, plan)


async def announce_readiness(server: ServerRuntime) -> None:
    """Print a line when the server is ready, and notify systemd.

    If the server serves but is not a member, print that and notify systemd; print the line once it is a member.
    """
    role = await server.member.wait_serving()
    if not is_member(server):
        announce(
            f"server {server.me} follows server {role.leader} in epoch {role.epoch}, but IS NOT A MEMBER of its "
            "ensemble: it serves without a vote until `reconfig -add` adds it"
        )
        notify_systemd("READY=1")
        while True:
            await trio.sleep(MEMBERSHIP_PAUSE_S)
            if is_member(server):
                break
        role = await server.member.wait_serving()
    what = {State.LEADING: "leads", State.FOLLOWING: "follows", State.OBSERVING: "observes"}[role.state]
    whom = "" if role.state is State.LEADING else f" server {role.leader}"
    announce(f"server {server.me} is ready: it {what}{whom} in epoch {role.epoch}")
    notify_systemd("READY=1")


def is_member(server: ServerRuntime) -> bool:
    return server.me in server.member.status().ensemble.by_id


async def keep_membership(server: ServerRuntime, plan: ServerPlan) -> None:
    """Write a changed membership to a new dynamic file, if reconfigEnabled is on and this server is a member.

    If reconfigEnabled is off, only log a warning, unless only client addresses have changed. If this server is not a
    member, only log a warning: the file must keep this server's line, which the new membership lacks. Also log a
    warning if the file lacks keys that an ensemble needs.
    """
    known = plan.ensemble or single_server_ensemble(plan.server_id)
    while True:
        ensemble = server.member.status().ensemble
        if not ensemble.same_members(known):
            different, known = differences(known, ensemble), ensemble
            version = show(ensemble.version)
            if plan.lacks and len(ensemble.servers) > 1:
                why = "these keys are not set, so their defaults apply: copy them from the other servers"
                server.log.say("keys_missing", "warning", file=plan.path, keys=", ".join(plan.lacks), why=why)
            if not is_member(server):
                why = f"server {server.me} is not in the membership: it has no vote until reconfig -add adds it"
                server.log.say("not_a_member", "warning", version=version, members=list(ensemble.by_id), why=why)
            elif plan.client_ports.reconfig_enabled:
                await _write(server, plan, ensemble)
            elif different:
                why = "the members changed, and reconfigEnabled is off: correct the file before the next start"
                server.log.say(
                    "membership_not_written",
                    "warning",
                    file=plan.path,
                    version=version,
                    why=why,
                    members=ensemble.text(),
                )
        await trio.sleep(MEMBERSHIP_PAUSE_S)


async def _write(server: ServerRuntime, plan: ServerPlan, ensemble: Ensemble) -> None:
    try:
        written = await trio.to_thread.run_sync(write_membership, plan.path, ensemble, plan.server_id)
        server.log.say("membership_written", file=written)
    except OSError as error:
        server.log.say("membership_not_written", "warning", file=plan.path, why=error.strerror or error)


def replace_remembered(plan: ServerPlan, ensemble: Ensemble) -> None:
    disk = split_disk(plan.data, plan.log, plan.server_id) or RealDisk(plan.data)
    try:
        claim_directory(disk, plan.data, ENSEMBLE_NAME, ServerId(plan.server_id), Store.kind)
        new = replace_membership(disk, ensemble, plan.storage)
    finally:
        disk.close()
    announce(f"server {plan.server_id} has stored the members of {plan.path} as version {show(new.version)}")


def split_disk(data: Path, log: Path | None, sid: int) -> Disk | None:
    """Claim `log`, the log's own directory, and return a disk that joins it with `data`. Return None without `log`."""
    if log is None:
        return None
    main = RealDisk(data)
    try:
        logs = RealDisk(log)
        try:
            claim_directory(logs, log, ENSEMBLE_NAME, ServerId(sid), Store.kind)
            return SplitDisk(main, logs)
        except BaseException:
            logs.close()
            raise
    except BaseException:
        main.close()
        raise
