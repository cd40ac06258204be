"""The mechanisms of the system, each with the tests that show it: what `docs/reference/mechanisms.md` is made of.

A test says which it shows with `@pytest.mark.mechanism(11, 12)`, a story with the line `# mechanism 11 12`.
`python -m tests.mechanisms` writes the page anew; a test holds the page and the marks together, so the page cannot name
a test that is not there.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs" / "reference" / "mechanisms.md"

MECHANISMS: Final[dict[str, dict[int, str]]] = {
    "Replication": {
        1: "A topic is split into partitions, and each partition has replicas on several brokers",
        2: "The assigned replicas of a partition have an order, which stays until they are reassigned",
        3: "The in-sync replicas (ISR) are those, the leader among them, that do not lag too far",
        4: "Who is out of sync is computed, never stored: assigned, but not in the ISR",
        5: "The leader removes a follower from the ISR that lags or is silent",
        6: "The leader takes a follower in again that has caught up",
        7: "A lag counted in messages can be switched on, as it was once the rule",
        8: "The lag is counted in time, 30 s by default",
        9: "A follower lags when it has not fetched up to the leader's end for that time",
        10: "Only a member of the ISR is elected, unless the topic allows otherwise",
        11: "Consumers read below the high watermark (HW): of nine messages with HW 6, those from 0 to 5",
        12: "The message at the HW itself is not committed",
        13: "Each replica keeps the offset of the next message of its own log (LEO)",
        14: "LEO is one behind the last message",
        15: "The HW is the smallest LEO of the ISR, and of those who are about to join it",
        16: "A write is acknowledged when the whole ISR has it; who is out of sync is not waited for",
        17: "The leader serves reads and writes; a follower may serve reads where it is asked to",
        18: "A replica is named by its broker",
        19: "Followers truncate to what the leader has, by leader epochs",
        20: "The leader keeps ISR and HW, and tells the HW with what it hands out",
        21: "Followers fetch again and again, and remember the leader's HW",
        22: "A fetch at an offset says that the follower has everything before; one that diverges says nothing",
        23: "The HW in a fetch's answer is that of the moment of the read",
        24: "The HW of a follower is behind the leader's",
        25: "The HW alone is not a safe place to truncate to",
        26: "Leader and ISR are the same for the controller and for all replicas, in the end",
        27: "High watermarks are written to a checkpoint file every few seconds",
        28: "Followers fetch many partitions at once",
        29: "acks=0: nobody answers",
        30: "acks=1: the leader has written it",
        31: "acks=all: every member of the ISR has it, and there are enough of them",
        32: "What is acknowledged may be in memory only; how to have it on disk is a setting",
    },
    "Assignment and elections": {
        33: "Replica j of partition i goes to broker (i + j) mod n; with a start and a shift by default",
        34: "Three elections: controller, partition leader, leader of a consumer group",
        35: "Who creates the ephemeral /controller is the controller, in one step with the new epoch",
        36: "When the session of the controller ends, its node goes, and all stand for election again",
        37: "The controller elects partition leaders and tells the brokers concerned",
        38: "The first in the order of assignment that is alive and in the ISR leads",
        39: "The ISR is kept in the store and changes with time",
        40: "With all replicas dead: wait for one of the ISR, or, if allowed, take the first that returns",
        41: "The first member of a group leads it, and another one when it leaves",
        42: "Offsets of consumers are kept in a topic, __consumer_offsets",
    },
    "The tree of metadata": {
        43: "The nodes at the root are Kafka's",
        44: "/brokers has ids, topics and seqid",
        45: "/brokers/ids/<id> is an ephemeral node with the broker's listeners",
        46: "/brokers/topics/<t>/partitions/<p>/state has leader, ISR and their epochs; its version counts changes",
        47: "A shell shows nodes with all fields of their stat",
        48: "/controller says who the controller is",
        49: "/controller_epoch counts controllers",
    },
    "Failover": {
        50: "A broker's death is noticed by the watch on /brokers/ids",
        51: "The list of living brokers is read, with the births that tell a quick return",
        52: "The partitions of a dead broker are found: those it led, and those it followed",
        53: "The ISR is read from the state of each",
        54: "A leader is chosen from the ISR that lives; without one there is none, and the last of the ISR is kept",
        55: "The state is written with its version, under the controller's epoch",
        56: "The brokers concerned are told, in one command each",
        57: "Every broker watches /controller, and tries to be the next",
        58: "A new controller reads the epoch",
        59: "A new controller raises the epoch, if nobody else has",
        60: "Watches are set before anything is read",
        61: "Reassignments are watched for",
        62: "Changes of the ISR are watched for",
        63: "Wishes for preferred leaders are watched for",
        64: "New topics are watched for",
        65: "Deletions are watched for",
        66: "Brokers that come and go are watched for",
        67: "Topics that grow are watched for",
        68: "The picture of the cluster is built: brokers, topics, leaders, ISRs",
        69: "Replicas are started up before partitions",
        70: "A broker knows that it is the controller",
        71: "Unfinished reassignments are taken up",
        72: "Unfinished elections of preferred leaders are taken up",
        73: "All brokers are told who leads what",
        74: "Leaders are balanced from time to time, first after 5 s",
        75: "Unfinished deletions are taken up",
        76: "A broker that shuts down does not become controller",
    },
    "Epochs, and how news travels": {
        77: "The controller sets leader and ISR at an election; afterwards the ISR is the leader's",
        78: "The store remembers, commands tell: a new controller asks nobody, a broker watches no partition",
        79: "First the store is written, then the brokers are told",
        80: "All changes for one broker go in one command",
        81: "A leader that changes its ISR writes first and believes afterwards",
        82: "Commands of an older controller are refused",
        83: "Commands about an older leadership are refused",
        84: "Epochs and states are written only if their version is the one that was read",
        85: "The ISR shrinks between the controller's look and its write: it looks again",
        86: "An old leader whose write is refused does not try again with the new version",
        87: "The three numbers are not enough for everything: what remains is tested by simulation",
        88: "What a broker tells clients of the cluster comes from one place, checked by the controller's epoch",
    },
    "Consensus and store": {
        89: "All writes go through one leader, and are committed by a majority",
        90: "Every server answers reads, and passes writes on",
        91: "Three phases: discovery, synchronization, broadcast",
        92: "Leader, follower, and observer, which never votes",
        93: "A server is looking, following, observing or leading",
        94: "Of two servers one makes the connection, by a rule that both know",
        95: "A server has a port for its peers and one for clients",
        96: "tickTime, initLimit, syncLimit, dataDir, dataLogDir, server.N and myid are taken from the file",
        97: "Fast leader election, over TCP",
        98: "How long a candidate waits for a better vote, and how far apart its notifications get",
        99: "An election begins at the start, when the leader is gone, or its majority",
        100: "Votes are ordered by epoch, zxid, id",
        101: "A quorum is more than half",
        102: "A newcomer accepts the leader that is there",
        103: "A zxid is an epoch and a counter that begins anew; one that is used up makes a new epoch",
        104: "Three servers start one after the other: the second leads, and the third joins",
        105: "Of five, those with the newest history decide by their ids",
        106: "A looking server counts its rounds, votes for itself, and says it again less and less often",
        107: "A notification of a newer round is followed, one of an older round is not",
        108: "After a quorum of votes a better one is waited for",
        109: "Votes of those who already have a leader are counted apart",
        110: "A server without weight is never elected",
        111: "Quorums may be weighted, and in groups",
        112: "Each link has its own bounded queue",
        113: "A leader is established when a majority has its history",
        114: "A follower that does not get through looks for a leader again",
        115: "What the leader still has in memory decides how a follower is synchronized",
        116: "DIFF: the follower gets what it lacks",
        117: "TRUNC: an old leader gives up what nobody else has",
        118: "TRUNC and DIFF",
        119: "SNAP: the follower gets everything",
        120: "Proposals are logged, acknowledged, committed and applied in the order of their zxids",
        121: "A read may be old; after sync it is not",
        122: "Watches and sessions",
    },
}

HEAD: Final = """# Mechanisms

What the system consists of, and which tests show it. Each test carries the numbers it stands for
(`@pytest.mark.mechanism`), and this page is made from them: `python -m tests.mechanisms` writes it, and a test fails
when it is not what the tests say.
"""

STORY: Final = "# mechanism "

LISTED: Final = 4
"""Tests named on the page for each; how many more there are is said."""


@cache
def marked() -> dict[int, list[str]]:
    """The tests of each mechanism, as path::name, in the order of the tree."""
    found: dict[int, list[str]] = defaultdict(list)
    for path in sorted(ROOT.glob("tests/**/test_*.py")):
        source = path.read_text()
        if "mark.mechanism(" not in source:
            continue
        for name, numbers in _marks(ast.parse(source)):
            for number in numbers:
                found[number].append(f"{path.relative_to(ROOT)}::{name}")
    for path in sorted(ROOT.glob("tests/scenario/stories/**/*.scenario")):
        for line in path.read_text().splitlines():
            if line.startswith(STORY):
                for word in line.removeprefix(STORY).split():
                    found[int(word)].append(str(path.relative_to(ROOT)))
    return dict(found)


def _marks(tree: ast.Module) -> Iterator[tuple[str, list[int]]]:
    for each in tree.body:
        bodies = [each, *each.body] if isinstance(each, ast.ClassDef) else [each]
        for one in bodies:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for decorator in one.decorator_list:
                    if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.mechanism":
                        yield one.name, [ast.literal_eval(argument) for argument in decorator.args]


def page(tests: dict[int, list[str]]) -> str:
    lines = [HEAD]
    for title, rows in MECHANISMS.items():
        lines += [f"\n## {title}\n", "| # | Mechanism | Shown by |", "|---|---|---|"]
        for number, text in rows.items():
            shown = tests.get(number, [])
            cell = "<br>".join(f"`{name.removeprefix('tests/')}`" for name in shown[:LISTED])
            if len(shown) > LISTED:
                cell += f"<br>and {len(shown) - LISTED} more"
            lines.append(f"| {number} | {text} | {cell or '**nothing yet**'} |")
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(marked()))
    missing = [number for rows in MECHANISMS.values() for number in rows if number not in marked()]
    print(f"{PAGE.relative_to(ROOT)}: shown by no test: {missing or 'none'}")
