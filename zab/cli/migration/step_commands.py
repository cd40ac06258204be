"""The command lines of one step: replace a server of ZooKeeper by one of zab, or the other way round."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Final

from attrs import frozen

from zab.cli.migration.ensemble_config import WORDS, EnsembleConfig

SUFFIX: Final = "-zab"
STOP_ZOOKEEPER: Final = "bin/zkServer.sh stop"
START_ZOOKEEPER: Final = "bin/zkServer.sh start"
_REPLACED: Final = r"'^[[:space:]]*(zookeeper\.)?(dataDir|dataLogDir|4lw\.commands\.whitelist)[[:space:]=:]'"


@frozen
class Part:
    """Some command lines of a step, and the reason to run them. All of them run on the server's host."""

    about: str
    lines: tuple[str, ...]


@frozen
class Directories:
    """The directories of one server: those of ZooKeeper, and those of zab beside them."""

    theirs: Path
    their_log: Path | None
    ours: Path
    our_log: Path | None

    @classmethod
    def of(cls, config: EnsembleConfig, target: Path | None) -> Directories:
        ours = target or _beside(config.data)
        return cls(config.data, config.log, ours, None if config.log is None else _beside(config.log))


def _beside(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)


def our_file(config: EnsembleConfig) -> Path:
    """Return the path of the configuration file for `zab serve`, beside the zoo.cfg."""
    return config.path.with_name("zab.cfg")


def to_zab(config: EnsembleConfig, directories: Directories) -> tuple[Part, ...]:
    """Return the parts of a step forwards. The first one runs while ZooKeeper still serves.

    `mkdir` fails if the directory exists, as after an earlier move: the import would refuse it after the stop.
    """
    file, ours = our_file(config), directories.ours
    words = ",".join(dict.fromkeys([*config.words, *WORDS])) if "*" not in config.words else "*"
    settings = [f"dataDir={ours}", "peerProtocol=zookeeper", f"4lw.commands.whitelist={words}"]
    if directories.our_log is not None:
        settings.insert(1, f"dataLogDir={directories.our_log}")
    made = [ours, *([directories.our_log] if directories.our_log else [])]
    return (
        Part(
            "while ZooKeeper still runs, as the user of the service: prepare the directory, and check the file",
            _chain(
                f"mkdir {_words(*made)}",
                f"cp {_words(directories.theirs / 'myid', ours)}/",
                f"{{ grep -vE {_REPLACED} {_words(config.path)};\n"
                f"  printf '%s\\n' {' '.join(quote(each) for each in settings)}; }} > {_words(file)}",
                f"zab serve --check {_words(file)}",
            ),
        ),
        Part("stop ZooKeeper (or: systemctl stop zookeeper)", (f"{STOP_ZOOKEEPER} {_words(config.path)}",)),
        start_zab(config, directories),
    )


def start_zab(config: EnsembleConfig, directories: Directories) -> Part:
    """Return the part after the stop of ZooKeeper. The import does not change the directory of ZooKeeper.

    `zab serve` must not run after a failed import: a voter with an empty directory has lost its promises.
    """
    log = "" if directories.their_log is None else f" --log-dir {_words(directories.their_log)}"
    return Part(
        "take its history and its promises over, and start (better: as a service)",
        _chain(
            f"zab import {_words(directories.theirs, directories.ours)}{log}",
            f"zab serve {_words(our_file(config))}",
        ),
    )


def to_zookeeper(config: EnsembleConfig, directories: Directories) -> tuple[Part, ...]:
    """Return the parts of a step backwards."""
    return (
        Part("stop zab (or: systemctl stop zab)", ("kill -TERM PID_OF_ZAB_SERVE",)),
        export_and_start(config, directories),
    )


def export_and_start(config: EnsembleConfig, directories: Directories) -> Part:
    """Return the part after the stop of zab.

    The directories of zab are put aside, too: a second export of them would lack what ZooKeeper has acknowledged since.
    """
    exported = directories.theirs.with_name(directories.theirs.name + ".exported")
    aside = [each for each in (directories.ours, directories.our_log, directories.their_log) if each is not None]
    log = "" if directories.our_log is None else f" --log-dir {_words(directories.our_log)}"
    return Part(
        "take the history over, put the old directories aside, and start ZooKeeper (or: systemctl start zookeeper)",
        _chain(
            f"zab export {_words(directories.ours, exported)}{log}",
            _aside(directories.theirs),
            f"mv {_words(exported, directories.theirs)}",
            *map(_aside, aside),
            *([] if directories.their_log is None else [f"mkdir {_words(directories.their_log)}"]),
            f"{START_ZOOKEEPER} {_words(config.path)}",
        ),
    )


def _aside(path: Path) -> str:
    return f"mv {_words(path)} {_words(path)}.$(date +%Y%m%d-%H%M%S)"


def _chain(*commands: str) -> tuple[str, ...]:
    """Return lines for a shell that ends with the first command that fails."""
    return tuple(" &&\n".join(commands).split("\n"))


def _words(*paths: Path) -> str:
    return " ".join(quote(str(path)) for path in paths)
