"""Mistakes of drivers, of the client port and of the client, which no core can make: for the world of real drivers."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from harness.mutants.edit import Mutant, mutant

COORDINATION: Final = "zab.runtime.coordination"


def _of_drivers(name: str, bug: str, *edits: tuple[str, str, str], machine: str = "store") -> Mutant:
    return evolve(mutant(name, bug, *edits), world="stack", machine=machine)


MUTANTS: Final[tuple[Mutant, ...]] = (
    _of_drivers(
        "saved-when-handed-over",
        "what was handed to the writing thread counts as durable at once",
        (
            "zab.runtime.driver:Driver._perform",
            "if ready.save and self._writer.put(ready.save):",
            "if ready.save and (self._writer.put(ready.save) or True):",
        ),
        machine="list",
    ),
    _of_drivers(
        "log-cut-short",
        "the first batch of a log that is sent to a learner is left out",
        ("zab.runtime.transfers:Transfers._log_frames", "for batch in batches:", "for batch in list(batches)[1:]:"),
        machine="list",
    ),
    _of_drivers(
        "submissions-forgotten",
        "the answers to some submissions go to nobody, and whoever waits for them waits for ever",
        (
            "zab.runtime.origin:Origin.applied",
            "if submission is None:",
            "if submission is None or submission.counter % 7 == 0:",
        ),
    ),
    _of_drivers(
        "event-behind-the-reply",
        "events leave behind the replies of the same turn, and those show their changes",
        (
            f"{COORDINATION}.replies:Replies.notify",
            "self.send(change.frame)",
            "vars(self).setdefault('late', []).append(change.frame); self.server.dirty(self)",
        ),
        (
            f"{COORDINATION}.replies:Replies.flush",
            "if self._outlet.flush() and self._finishing:",
            "if (self._outlet.frames.extend(vars(self).pop('late', [])) or self._outlet.flush()) and self._finishing:",
        ),
    ),
    _of_drivers(
        "watches-not-told-again",
        "a client that is back does not tell its new server what it watches",
        ("zab.client.machine:Machine._begin", "for frame in self._watch_requests():", "for frame in ():"),
    ),
    _of_drivers(
        "stopped-server-keeps-connections",
        "a server that has ended leaves its connections open",
        (
            f"{COORDINATION}.connection:Connection.run",
            "await trio.aclose_forcefully(self._stream)",
            "await trio.lowlevel.checkpoint()",
        ),
    ),
)
