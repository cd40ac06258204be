"""One script at both servers, and their first difference."""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import Final

from attrs import frozen

from tests.differential.drive import END, play
from tests.differential.normal import TIMES, TREE, Line, normal
from tests.differential.peers import Peers
from tests.differential.script import Ask, Script, printed
from tests.differential.shrink import shrunk
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op

_RANK: Final = re.compile(r"\b(zxid|c|m|p)=\d+")


@frozen
class Unlike:
    script: Script
    theirs: Line | None
    ours: Line | None

    def __str__(self) -> str:
        theirs, ours = _said(self.theirs, self.script), _said(self.ours, self.script)
        return f"{printed(self.script)}\n  theirs: {theirs}\n  ours:   {ours}"


def _said(line: Line | None, script: Script) -> str:
    if line is None:
        return "nothing more"
    step, client, text = line
    if step in (TREE, TIMES):
        return f"in the end: {text}"
    where = "in the end" if step == END else f"step {step}, {script[step]!r}"
    return f"client {client}, {where}: {text}"


def compare(peers: Peers, script: Script, *, excuses: bool = True) -> Unlike | None:
    theirs, ours = normal(play(peers.theirs, script)), normal(play(peers.ours, script))
    if excuses and any(one != other and excused(script, one, other) for one, other in zip(theirs, ours, strict=False)):
        # One of them has counted it as a change, and the other has not.
        theirs, ours = _unnumbered(theirs), _unnumbered(ours)
    for one, other in zip_longest(theirs, ours):
        if one != other and not (excuses and one and other and excused(script, one, other)):
            return Unlike(script, one, other)
    return None


def _unnumbered(lines: list[Line]) -> list[Line]:
    return [(step, client, _RANK.sub("", text)) for step, client, text in lines]


def excused(script: Script, theirs: Line, ours: Line) -> bool:
    """For an invalid body the original decodes a part, and we decode nothing: both refuse it."""
    step = theirs[0]
    if theirs[:2] != ours[:2] or step < 0:
        return False
    asked = script[step]
    if not isinstance(asked, Ask) or not isinstance(asked.fields, bytes):
        return False
    if asked.op == Op.MULTI_READ:
        return bytes(4) in asked.fields  # an empty path: a node of the original, and none of ours
    refused = ours[2].endswith(f"error={int(ErrorCode.MARSHALLING_ERROR)}")
    return refused and ("error=" in theirs[2] or asked.op == Op.SYNC)


def smallest(peers: Peers, found: Unlike) -> Unlike:
    """Return the script without all steps that the difference does not need."""
    last = found

    def fails(script: Script) -> bool:
        nonlocal last
        peers.equalize()
        unlike = compare(peers, script)
        if unlike is None:
            return False
        last = unlike
        return True

    peers.equalize()
    script = shrunk(found.script, fails)
    if last.script != script:
        fails(script)
    peers.equalize()
    return last
