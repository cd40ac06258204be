"""The command `zab-harness`. It needs click; `import harness` does not need it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Final

from harness.cli.root import MISUSED
from harness.script.checks import ScriptError

_EXTRA_OF: Final = (
    dict.fromkeys(("click", "hypothesis", "rich"), "harness")
    | dict.fromkeys(("matplotlib", "pandas", "py4j", "pyarrow", "pyspark"), "spark")
    | dict.fromkeys(("cramjam", "google_crc32c", "prometheus_client"), "harness,broker")
)
"""The extra that installs a module, by the module that is missing."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0 valid, 1 invalid or unknown, 2 wrong usage, 74 no output."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        from zab.cli.kit.standard_streams import with_standard_streams

        return with_standard_streams(partial(_run, given))
    except ModuleNotFoundError as error:
        extra = _EXTRA_OF.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        missing = f"zab-harness {' '.join(given[:1])}: this needs {error.name}, which is not installed"
        print(f"{missing}. Try: pip install '.[{extra}]' where the source is, or 'zab[{extra}]'", file=sys.stderr)
        return MISUSED


def _run(given: list[str]) -> int:
    import click

    from harness.cli.root import INTERRUPTED, Stopped, zab_harness

    try:
        if not given:
            with click.Context(zab_harness, info_name="zab-harness") as context:
                print(zab_harness.get_help(context), file=sys.stderr)
            return MISUSED
        with zab_harness.make_context("zab-harness", given) as context:
            status: int = zab_harness.invoke(context)
    except click.exceptions.Exit as ended:  # after --help and --version
        return ended.exit_code
    except click.UsageError as error:
        path = "zab-harness" if error.ctx is None else error.ctx.command_path
        print(f"{path}: {error.format_message()}\nsee {path} --help", file=sys.stderr)
        return MISUSED
    except click.ClickException as error:
        print(error.message, file=sys.stderr)
        return error.exit_code
    except ScriptError as error:
        print(error, file=sys.stderr)
        return MISUSED
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        return stopped.status
    except KeyboardInterrupt:  # while the command was loaded
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return status
