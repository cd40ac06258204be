"""`python -m bench`: everything, in modest sizes. `python -m bench NAME`: one of them, in sizes of your own.

Tables go to stdout, and everything measured to bench/results as JSON. Exit status 1: a campaign found a violation.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import (
    broker,
    broker_log,
    clients,
    controller,
    failover,
    fsync,
    gate,
    importing,
    kill9,
    latency,
    memory,
    micro,
    migration,
    million,
    simulator,
    throughput,
    zookeeper,
)
from bench.broker import partitions


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0] if __doc__ else None)
    top.add_argument("--data", type=Path, default=Path("data/bench"), help="a directory on the disk to be measured")
    names = top.add_subparsers(dest="name", metavar="NAME")

    def add(name: str, doc: str | None) -> argparse.ArgumentParser:
        return names.add_parser(name, help=doc.splitlines()[0] if doc else None)

    add("all", "all of the following, in modest sizes")
    one = add("throughput", throughput.__doc__)
    one.add_argument("--runs", type=int, default=3)
    one.add_argument("--seconds", type=float, default=4.0)
    one = add("latency", latency.__doc__)
    one.add_argument("--runs", type=int, default=3)
    one.add_argument("--writes", type=int, default=1000)
    one = add("failover", failover.__doc__)
    one.add_argument("--rounds", type=int, default=10)
    one = add("memory", memory.__doc__)
    one.add_argument("--writes", type=int, default=1_000_000)
    one = add("kill9", kill9.__doc__)
    one.add_argument("--rounds", type=int, default=100)
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("--victims", nargs="+", choices=["leader", "follower"], default=["leader"])
    one = add("migration", migration.__doc__)
    one.add_argument("--rounds", type=int, default=10)
    one = add("simulator", simulator.__doc__)
    one.add_argument("--runs", type=int, default=20)
    one = add("fsync", fsync.__doc__)
    one.add_argument("--count", type=int, default=1000)
    one = add("micro", micro.__doc__)
    one.add_argument("--repeats", type=int, default=5)
    one = add("broker", broker.__doc__)
    one.add_argument("--brokers", type=int, nargs="+", choices=broker.BROKERS, default=list(broker.BROKERS))
    one.add_argument("--runs", type=int, default=3)
    one.add_argument("--megabytes", type=int, default=150, help="through a phase; some take a share of it")
    one.add_argument("--profile", type=Path, help="a folder for profiles of our brokers, from one more round")
    one.add_argument("--picture", type=Path, help="draw it there, as SVG")
    one = add("broker-partitions", partitions.__doc__)
    one.add_argument("--partitions", type=int, nargs="+", default=[100, 500, 2000], help="idle ones, ascending")
    one.add_argument("--sides", nargs="+", choices=["ours", "apache"], default=["ours", "apache"])
    one.add_argument("--runs", type=int, default=3)
    one.add_argument("--seconds", type=float, default=8.0, help="of each run")
    one = add("broker-log", broker_log.__doc__)
    one.add_argument("--repeats", type=int, default=3)
    one.add_argument("--partitions", type=int, default=1000, help="of the start after a kill")
    one = add("gate", gate.__doc__)
    one.add_argument(
        "--method", choices=[each.value for each in gate.Method], help="default: instructions, with valgrind"
    )
    one.add_argument("--store", action="store_true", help="keep these figures for the next time")
    one = add("import", importing.__doc__)
    one.add_argument("--repeats", type=int, default=15)
    one = add("clients", clients.__doc__)
    one.add_argument("--runs", type=int, default=3)
    one.add_argument("--operations", type=int, default=20_000, help="of a phase; a tenth where only one is outstanding")
    one = add("controller", controller.__doc__)
    one.add_argument("--partitions", type=int, nargs="+", default=list(controller.SIZES), help="ascending")
    one.add_argument("--rounds", type=int, default=3)
    one.add_argument("--picture", type=Path, help="draw it there, as SVG")
    one = add("controller-kill9", controller.campaign.__doc__)
    one.add_argument("--rounds", type=int, default=100)
    one.add_argument("--seed", type=int, default=1)
    one = add("million", million.__doc__)
    one.add_argument("--nodes", type=int, default=1_000_000)
    one = add("pipeline", "how long the analysis of stored histories takes, and how that grows")
    one.add_argument("--events", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000], help="ascending")
    one.add_argument("--master", default="local[2]", help="Spark's")
    one.add_argument("--memory", default="2g", help="of its JVM")
    one = add("zookeeper", zookeeper.__doc__)
    one.add_argument("--phases", nargs="+", choices=list(zookeeper.PHASES), help="default: all but memory-million")
    one.add_argument("--runs", type=int, default=3)
    one.add_argument("--operations", type=int, default=60_000, help="of a phase; some take a share of it")
    one.add_argument("--warm-up", type=int, default=1, help="rounds that are not counted: a cold JVM would flatter us")
    one.add_argument("--minutes", type=float, help="no further round is begun that would end later than this")
    one.add_argument("--profile", type=Path, help="a folder for profiles of our servers, from one more round")
    one.add_argument("--picture", type=Path, help="draw it there, as SVG")
    one = add("zookeeper-report", "tables and picture of a run of `zookeeper` that is over, from its JSON")
    one.add_argument("result", type=Path)
    one.add_argument("--picture", type=Path, help="draw it there, as SVG")
    return top


def perform(arguments: argparse.Namespace, data: Path) -> bool:
    works: dict[str, Callable[[], bool | None]] = {
        "throughput": lambda: throughput.run(arguments.runs, arguments.seconds, data),
        "latency": lambda: latency.run(arguments.runs, arguments.writes, data),
        "failover": lambda: failover.run(arguments.rounds, data),
        "memory": lambda: memory.run(arguments.writes, data),
        "migration": lambda: migration.run(arguments.rounds, data),
        "kill9": lambda: kill9.run(arguments.rounds, arguments.seed, tuple(arguments.victims), data),
        "simulator": lambda: simulator.run(arguments.runs),
        "fsync": lambda: fsync.run(arguments.count, data),
        "micro": lambda: micro.run(arguments.repeats),
        "broker": lambda: broker.run(
            tuple(arguments.brokers), arguments.runs, arguments.megabytes, data, arguments.profile, arguments.picture
        ),
        "broker-partitions": lambda: partitions.run(
            tuple(arguments.partitions), tuple(arguments.sides), arguments.runs, arguments.seconds, data
        ),
        "broker-log": lambda: broker_log.run(arguments.repeats, arguments.partitions, data),
        "gate": lambda: gate.run(arguments.method and gate.Method(arguments.method), arguments.store),
        "import": lambda: importing.run(arguments.repeats),
        "clients": lambda: clients.run(arguments.runs, arguments.operations, data),
        "controller": lambda: controller.speed.run(arguments.partitions, arguments.rounds, data, arguments.picture),
        "controller-kill9": lambda: controller.campaign.run(arguments.rounds, arguments.seed, data),
        "million": lambda: million.run(arguments.nodes, data),
        "pipeline": lambda: _pipeline(arguments, data),
        "zookeeper": lambda: zookeeper.run(_zookeeper(arguments), data),
        "zookeeper-report": lambda: zookeeper.tell(arguments.result, arguments.picture),
    }
    return works[arguments.name]() is not False


def _zookeeper(arguments: argparse.Namespace) -> zookeeper.Options:
    return zookeeper.Options(
        arguments.phases,
        arguments.runs,
        arguments.operations,
        arguments.warm_up,
        arguments.minutes,
        arguments.profile,
        arguments.picture,
    )


def _pipeline(arguments: argparse.Namespace, data: Path) -> bool:
    from bench import pipeline  # needs what only the harness does: pyarrow, Spark and Java

    return pipeline.run(arguments.events, arguments.master, arguments.memory, data)


def main() -> int:
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # cleans up as at any other end
    top = parser()
    arguments = top.parse_args()
    everything = arguments.name in (None, "all")
    small = [
        "fsync",
        "import",
        "micro",
        "broker-log",
        "simulator",
        "latency",
        "failover",
        "throughput",
        "memory",
        "kill9 --rounds 10",
        "zookeeper --runs 2 --operations 20000 --minutes 6",
        "broker --runs 2 --megabytes 60",
    ]
    plan = small if everything else [None]
    held = True
    arguments.data.mkdir(parents=True, exist_ok=True)
    for each in plan:
        chosen = arguments if each is None else top.parse_args(["--data", str(arguments.data), *each.split()])
        with TemporaryDirectory(prefix="bench-", dir=arguments.data) as data:
            held &= perform(chosen, Path(data))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
