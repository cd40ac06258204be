"""The four-letter words: what a person types at the client port instead of speaking the protocol.

As a length they would be beyond any frame (the smallest is over a billion), so four bytes decide.
"""

from __future__ import annotations

from typing import Final

WORDS: Final = {
    word.encode(): word
    for word in (
        "conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "hash", "isro", "mntr",
        "ruok", "srst", "srvr", "stat", "stmk", "wchc", "wchp", "wchs",
    )
}  # fmt: skip

ARGUMENT_BYTES: Final = {"stmk": 8}
"""`stmk` is followed by the mask it sets."""
