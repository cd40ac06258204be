"""Hostile requests drawn from one seed after the other, at a running store, until something is too dear.

python -m tests.cost.store_campaign [--seconds N] [--seed N]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from tests.cost import store_frames as frames
from tests.cost.test_store import WORK_MAX, Attacked, build
from tests.cost.zookeeper import FRAME_BYTES_MAX, Client, encode, store_process
from zab.store.operations import Op


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    ends, seed, found = time.monotonic() + options.seconds, options.seed, 0
    while time.monotonic() < ends and not found:
        found = one_round(seed)
        seed += 1
    return 1 if found else 0


def one_round(seed: int) -> int:
    """Attack a new server; return how many requests were too dear. The state changes under the attacks."""
    chance, found, asked = Random(seed), 0, 0
    with (
        tempfile.TemporaryDirectory() as folder,
        store_process(Path(folder)) as store,
        store.client() as owner,
        store.meter() as meter,
    ):
        build(owner)
        attacked = Attacked(store, meter)
        for op in chance.sample(list(frames.SCHEMA), len(frames.SCHEMA)):
            size = chance.choice((1_000, 30_000, FRAME_BYTES_MAX - 200))
            attacks = {each.name: each.frame for each in frames.drawn(chance, op, size)}
            attacks[f"a pipeline of {Op(op).name}"] = frames.small(chance.randrange(1 << 30), op, 3_000)
            attacks[f"a write and a pipeline of {Op(op).name}"] = encode(
                Op.SET_DATA, "/large", None, -1
            ) + frames.small(chance.randrange(1 << 30), op, 3_000)
            for name, data in attacks.items():
                work_max = WORK_MAX if "pipeline" not in name else None

                def attack(client: Client, data: bytes = data) -> None:
                    client.throw(data)

                asked += 1
                try:
                    attacked.bounded(name, attack, work_max=work_max)
                except AssertionError as error:
                    found += 1
                    print(f"seed {seed}, {size} bytes: {error}", flush=True)
        meter.check_alive()
    print(f"seed {seed}: {asked} attacks, {found} too dear; a control is {meter.control_ns / 1e6:.1f} ms", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
