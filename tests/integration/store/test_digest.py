"""The tests of `tests/unit/store/test_digest.py` that need sockets or processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.unit.store.test_digest import busy


def test_another_process_with_another_order_of_hashes() -> None:
    it = busy()
    script = (
        "import json, sys\n"
        "from zab.store.store import Store\n"
        "store = Store()\n"
        "for zxid, txn in json.load(sys.stdin): store.apply(zxid, bytes.fromhex(txn))\n"
        "chunks = b''.join(store.snapshot())\n"
        "print(json.dumps([store.digest.value, chunks.hex(), list(store.tree.nodes)]))\n"
    )
    log = json.dumps([(zxid, txn.hex()) for zxid, txn in it.log])
    expected = [it.store.digest.value, b"".join(it.store.snapshot()).hex(), list(it.store.tree.nodes)]
    for seed in ("0", "1234"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[3])}
        done = subprocess.run(
            [sys.executable, "-c", script], input=log, env=environment, capture_output=True, text=True, check=True
        )
        assert json.loads(done.stdout) == expected
