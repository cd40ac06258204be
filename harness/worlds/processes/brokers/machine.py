"""`python -m harness.worlds.processes.brokers.machine UNDER.json server.properties` is `zab-broker serve`."""

from __future__ import annotations

import sys

from harness.worlds.processes.machine import arranged


def main(under: str, config: str) -> None:
    with arranged(under):
        from replica.cli import main as command

        sys.argv = ["zab-broker", "serve", config]
        sys.exit(command())


if __name__ == "__main__":
    main(*sys.argv[1:])
