"""What the other process does: load the file that defines the machine, and tell it the same transactions.

It loads nothing of the harness that the file does not ask for: it is begun with every campaign.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from zab.core.zxid import Zxid

CHILD: Final = "ZAB_HARNESS_ELSEWHERE"


class Called(BaseException):
    """The file runs a campaign when it is loaded. All that stands above is defined by then."""


def shown(result: object) -> str | None:
    """None where the text says where in memory something is."""
    text = repr(result)
    return None if " at 0x" in text else text


def main() -> None:
    asked = json.loads(sys.stdin.read())
    with open(asked["file"]) as file:
        code = compile(file.read(), asked["file"], "exec")
    names: dict[str, Any] = {"__name__": "__elsewhere__", "__file__": asked["file"]}
    try:
        exec(code, names)
    except Called:
        pass
    made: Any = names
    for part in asked["name"].split("."):
        made = made[part] if isinstance(made, dict) else getattr(made, part)
    machine = made()
    told = [
        shown(machine.apply(Zxid(1 << 32 | number), bytes.fromhex(txn)))
        for number, txn in enumerate(asked["txns"], start=1)
    ]
    sys.stdout.write("\n" + json.dumps(told) + "\n")
