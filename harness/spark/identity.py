"""What a run depends on besides its seed: the code, and how seeds become scripts. Each has a hash."""

from __future__ import annotations

import json
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import attrs

from harness.run.plan import Plan
from harness.spark.schema import VERSION

PACKAGES: Final = ("harness", "zab", "kraft_controller", "replica")
"""All that a run may run. They also travel to executors elsewhere."""
NOT_THE_RUN: Final = ("harness/cli", "harness/spark", "harness/report")
"""What only starts runs and adds them up does not make them others. What makes rows of them counts by the version."""


def _digest(words: list[bytes]) -> str:
    digest = blake2b(digest_size=6)
    for word in words:
        digest.update(len(word).to_bytes(8) + word)
    return digest.hexdigest()


@cache
def code_hash() -> str:
    """Of the sources that this process runs, also out of an archive that was shipped to it."""
    words: list[bytes] = []
    for package in PACKAGES:
        _read(files(package), package, words)
    return _digest(words)


def _read(folder: Traversable, path: str, words: list[bytes]) -> None:
    if path in NOT_THE_RUN:
        return
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        here = f"{path}/{each.name}"
        if each.is_dir():
            _read(each, here, words)
        elif each.name.endswith((".py", ".diff")):
            words += [here.encode(), each.read_bytes()]


def settings(plan: Plan) -> dict[str, object]:
    """What of a plan decides what the run of a seed is; which seeds are run does not."""
    return attrs.asdict(plan, filter=lambda attribute, _: attribute.name not in ("runs", "base"))


def config_hash(plan: Plan) -> str:
    return _digest([json.dumps({**settings(plan), "version": VERSION}, sort_keys=True).encode()])


def campaign_name(plan: Plan) -> str:
    return f"{plan.world}-{config_hash(plan)}-{code_hash()}"


def share(seed: int, what: str, parts: int) -> int:
    """In which of so many equal parts a seed falls: the same for everybody, and independent for each `what`."""
    return int.from_bytes(blake2b(f"{what}/{seed}".encode(), digest_size=8).digest()) % parts
