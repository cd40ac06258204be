"""The store: nodes that go by themselves, and subtrees of which there is a limit."""

from __future__ import annotations

from typing import Final

from harness.mutants.edit import Mutant, mutant

PREPARER: Final = "zab.store.request_preparer:RequestPreparer"
QUOTAS: Final = "zab.store.quota:Quotas"
TREE: Final = "zab.store.tree:Tree"
CANDIDATES: Final = "zab.store.reaper:_candidates"
LEFT: Final = "if node[CVERSION] or (never_used_ms and now_ms - node[MTIME] > never_used_ms):"

MUTANTS: Final[tuple[Mutant, ...]] = (
    mutant(
        "time-since-creation",
        "a TTL node expires by its creation time, although it was written since",
        (CANDIDATES, "now_ms - node[MTIME] > ttl", "now_ms - node[4] > ttl"),
        (
            f"{PREPARER}._delete_container",
            "current.now_ms - node[MTIME] <= ttl",
            "current.now_ms - node[4] <= ttl",
        ),
        machine="store",
    ),
    mutant(
        "written-and-gone",
        "an expired TTL node is deleted although it was written before the deletion was executed",
        (
            f"{PREPARER}._delete_container",
            "(ttl is None or current.now_ms - node[MTIME] <= ttl)",
            "ttl is None",
        ),
        machine="store",
    ),
    mutant(
        "left-and-still-there",
        "a container whose last child is deleted stays",
        (CANDIDATES, LEFT, "if never_used_ms and now_ms - node[MTIME] > never_used_ms:"),
        machine="store",
    ),
    mutant(
        "gone-before-it-was-used",
        "a container is deleted before it ever had a child",
        (CANDIDATES, LEFT, "if True:"),
        machine="store",
    ),
    mutant(
        "for-ever-in-a-snapshot",
        "a server that restores a snapshot does not recognize its TTL nodes, so they stay if it leads",
        (f"{TREE}._insert", "if node[9]:", "if node[9] and (is_session(node[9]) or node[9] == CONTAINER):"),
        (f"{TREE}._disown", "del self.ttls[path]", "self.ttls.pop(path, None)"),
        machine="store",
    ),
    mutant(
        "soft-limits-refuse",
        "requests above a soft limit are refused",
        (f"{PREPARER}._check_quota", "exceeded.is_hard and self", "self"),
        machine="store",
    ),
    mutant(
        "one-beyond-the-limit",
        "a hard limit admits one node too many",
        (
            f"{QUOTAS}.exceeded",
            "-1 < limit < wanted",
            "-1 < limit < wanted - nodes",
        ),
        machine="store",
    ),
    mutant(
        "limits-not-for-data",
        "data that is written to an existing node is not counted against quotas",
        (f"{PREPARER}._set_data", "if self._quotas.limited:", "if False:"),
        machine="store",
    ),
    mutant(
        "what-ends-is-counted-on",
        "ephemeral nodes of a closed session still count for quotas",
        (
            "zab.store.apply:Applier._close_session",
            """
            for path in closed.body[0]:
                self._delete_path(zxid, path)
            """,
            """
            limited, self._quotas.limited = self._quotas.limited, {}
            for path in closed.body[0]:
                self._delete_path(zxid, path)
            self._quotas.limited = limited
            """,
        ),
        machine="store",
    ),
    mutant(
        "limits-not-in-snapshots",
        "a server that restores a snapshot loses the quotas and stops counting",
        (f"{QUOTAS}.__init__", "if QUOTA in tree.nodes:", "if False:"),
        machine="store",
    ),
)
