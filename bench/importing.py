"""Measure the cost of `import zab` in fresh interpreters."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from bench.report import Result, publish, spread

CODE: Final = "import time; began = time.perf_counter(); {}; print(time.perf_counter() - began)"
STATEMENTS: Final = ("import zab", "from zab import *", "import trio")


def import_ms(statement: str) -> float:
    done = subprocess.run([sys.executable, "-c", CODE.format(statement)], capture_output=True, text=True, check=True)
    return float(done.stdout) * 1000


def run(repeats: int) -> None:
    rows = []
    result: Result = {}
    for statement in STATEMENTS:
        import_ms(statement)  # the first one may have to write bytecode
        values = spread([import_ms(statement) for _ in range(repeats)])
        result[statement] = values
        rows.append({"statement": statement, **{f"{key} ms": value for key, value in values.items()}})
    publish("import", {"ms": result}, rows)
