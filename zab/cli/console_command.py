"""`zab console`."""

from __future__ import annotations

from html import escape
from typing import Any

import click

from zab.cli.console_options import CONSOLE_OPTIONS, serve_console, store_part
from zab.cli.kit.failures import report_failures
from zab.cli.kit.log_options import format_option, level_option, log_to_stderr
from zab.cli.kit.options import client_tls, tls_options
from zab.cli.kit.verb_group import Arguments, params_of


@click.command()
@tls_options
@level_option("warning")
@format_option
@report_failures
def console(log_level: str, log_format: str, **values: Any) -> None:
    """Show the servers and the nodes of a store in a browser, until Ctrl-C. It also shows a store of Apache ZooKeeper.

    The console is a client of the store: it shows what its own identity (--auth, --sasl) may read, to every visitor
    that it admits. Without --password-file it listens on loopback only. Nothing can be changed unless --writable is
    given. docs/howto/console.md says how to put it behind TLS.

    \b
    zab console --connect db1:2181,db2:2181 --admin http://db1:8080 --admin http://db2:8080
    zab console --listen 0.0.0.0:8090 --password-file console.password --writable
    """
    log_to_stderr(log_level, log_format)
    arguments = Arguments(**values)
    tls = client_tls(*(values[name] for name in ("tls", "ca", "cert", "key", "any_hostname")))
    serve_console(arguments, [store_part(arguments, tls)], f"Store {escape(arguments.connect)}")


console.params[:0] = params_of(*CONSOLE_OPTIONS)
