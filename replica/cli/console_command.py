"""`zab-broker console`: the console of the store, with pages about brokers."""

from __future__ import annotations

from html import escape
from typing import Any

import click

from replica.cli.bootstrap import connection_of, console_broker_options
from replica.console.broker_part import CLIENT, BrokerPart, related
from replica.runtime.network.broker_client import Client
from zab.cli.console_options import CONSOLE_OPTIONS, FILE, serve_console, store_part
from zab.cli.kit.failures import report_failures
from zab.cli.kit.log_options import format_option, level_option, log_to_stderr
from zab.cli.kit.options import client_tls
from zab.cli.kit.verb_group import Arguments, params_of
from zab.core.addresses import with_port


@click.command()
@click.option("--store-tls", is_flag=True, help="Use TLS to the store. Implied by --store-ca and --store-cert.")
@click.option("--store-ca", type=FILE, help="The authorities that sign the certificates of the store's servers (PEM).")
@click.option("--store-cert", type=FILE, help="The certificate of the console at the store (PEM).")
@click.option("--store-key", type=FILE, help="The key of --store-cert, if it is not in the same file (PEM).")
@level_option("warning")
@format_option
@report_failures
def console(
    store_tls: bool,
    store_ca: str | None,
    store_cert: str | None,
    store_key: str | None,
    log_level: str,
    log_format: str,
    **values: Any,
) -> None:
    """Show the brokers and their store in a browser, until Ctrl-C: topics, records, groups, transactions, nodes.

    The console is a client. It shows what its own identities may see (--login at the brokers, --auth and --sasl at the
    store), to every visitor that it admits. It changes nothing at the brokers. --connect, --admin, --writable and the
    other options about the store are those of `zab console`.

    \b
    zab-broker console --bootstrap b1:9092,b2:9092 --connect db1:2181/kafka --admin http://db1:8080
    zab-broker console --command-config client.properties --listen 0.0.0.0:8090 --password-file console.password
    """
    log_to_stderr(log_level, log_format)
    arguments = Arguments(**values)
    bootstrap, tls, identity = connection_of(arguments)
    named = ",".join(with_port(host, port) for host, port in bootstrap)
    store = store_part(arguments, client_tls(store_tls or None, store_ca, store_cert, store_key, False), [related])
    brokers = BrokerPart(Client(bootstrap, CLIENT, tls, identity), named)
    where = f"Brokers {escape(named)}, store {escape(arguments.connect)}"
    serve_console(arguments, [store, brokers], where)


console.params[:0] = [*console_broker_options(), *params_of(*CONSOLE_OPTIONS)]
