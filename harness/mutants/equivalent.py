"""Mistakes that are none: what they change, nobody can see. Each with the reason."""

from __future__ import annotations

from typing import Final

EQUIVALENT: Final[dict[str, str]] = {
    "order replies: `one.told_place >= other.told_place` for `one.told_place > other.told_place`": (
        "no two replies have one place"
    ),
    "replay Replay.__init__: `zxid < last` for `zxid <= last`": "changes of one zxid that are neighbours are one group",
    "calls Calls._match: `known.zxid <= group.zxid` for `known.zxid < group.zxid`": (
        "what is looked for is claimed by no call, so no call has its zxid"
    ),
    "sequences check: without `call.write` in `call.write and call.group is not None and"
    " (not call.group.refused)`": "only writes have a group",
    "sequences check: without `request.op == 'create'` in `request.op == 'create' and"
    " 'sequential' in request.mode`": "only a create has a mode",
    "judge Verdict.held: without `self.store.held` in `self.store.held and"
    " isinstance(self.linear, linear.Legal)`": "what broke a promise is not searched for an order",
    "model Moment._change_for: 1 for 0": "a moment is thrown away before anybody looks at a zxid in it",
    "models Model.initial: answers nothing": "what a protocol says is not run",
    "models Model.step: answers nothing": "what a protocol says is not run",
    "models Model.pure: answers nothing": "what a protocol says is not run",
    "models Model.touches: answers nothing": "what a protocol says is not run",
    "models Model.removable: answers nothing": "what a protocol says is not run",
    "decide _proved: never `wrong is not None`": "it stands between a wrong checker and its user; there is none here",
}
