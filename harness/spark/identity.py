"""Hashes of the inputs of a run besides its seed: the code, and the settings of the plan."""

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
"""The packages that a run uses. Executors on other machines receive them."""
NOT_THE_RUN: Final = ("harness/cli", "harness/spark", "harness/report")
"""Folders that do not affect the result of a run. A change of the rows changes the version of the schema."""


def _digest(words: list[bytes]) -> str:
    digest = blake2b(digest_size=6)
    for word in words:
        digest.update(len(word).to_bytes(8) + word)
    return digest.hexdigest()


@cache
def code_hash() -> str:
    """Return the hash of the sources that this process runs, also from an archive."""
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
    """Return the settings of a plan that determine the run of a seed."""
    return attrs.asdict(plan, filter=lambda attribute, _: attribute.name not in ("runs", "base"))


def config_hash(plan: Plan) -> str:
    return _digest([json.dumps({**settings(plan), "version": VERSION}, sort_keys=True).encode()])


def campaign_name(plan: Plan) -> str:
    return f"{plan.world}-{config_hash(plan)}-{code_hash()}"


def share(seed: int, what: str, parts: int) -> int:
    """Return the part, of `parts` equal ones, to which a seed belongs; independent for each `what`."""
    return int.from_bytes(blake2b(f"{what}/{seed}".encode(), digest_size=8).digest()) % parts
