"""The mechanisms of the system, and the tests that show each: the source of `docs/reference/mechanisms.md`.

A test names its mechanisms by `@pytest.mark.mechanism(11, 12)`, a scenario by the line `# mechanism 11 12`. `python -m
tests.mechanisms` generates the page. A test compares page and marks, so the page names only tests that exist.
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
        1: "A topic has partitions, and each partition has replicas on several brokers",
        2: "The replicas of a partition have an order, the assignment, which changes only by a reassignment",
        3: "The in-sync replicas (ISR) are the leader and all followers that do not lag too far behind it",
        4: "Out-of-sync replicas are not stored: they are the assigned replicas outside of the ISR",
        5: "The leader removes a follower from the ISR if the follower lags or is silent",
        6: "The leader adds a follower to the ISR again when the follower has caught up",
        7: "A limit of the lag in messages, as early Kafka versions had it, can be configured",
        8: "The limit of the lag is a time, 30 s by default",
        9: "A follower lags if it has not fetched up to the leader's log end for that time",
        10: "Only a member of the ISR is elected as leader, unless unclean elections are enabled",
        11: "Consumers read below the high watermark (HW): of nine messages with HW 6, those at offsets 0 to 5",
        12: "The message at the HW itself is not committed",
        13: "Each replica keeps its log end offset (LEO), the offset of the next message",
        14: "The LEO is the offset of the last message plus one",
        15: "The HW is the smallest LEO of the ISR and of the replicas that are about to join it",
        16: "A write with acks=all is acknowledged when the whole ISR has it; it does not wait for other replicas",
        17: "The leader serves reads and writes; a follower may serve the reads of consumers in its rack",
        18: "A replica is identified by the id of its broker",
        19: "Followers truncate their logs to the common part with the leader's log, by leader epochs",
        20: "The leader computes ISR and HW, and sends the HW in fetch responses",
        21: "Followers fetch repeatedly, and store the leader's HW",
        22: "A fetch at an offset shows that the follower has everything before it, unless the logs diverge",
        23: "The HW in a fetch response is the HW at the time of the read",
        24: "The HW of a follower is behind the leader's",
        25: "It is not safe to truncate a log to its HW",
        26: "Leader and ISR become the same for the controller and all replicas",
        27: "High watermarks are written to a checkpoint file every few seconds",
        28: "One fetch of a follower covers many partitions",
        29: "acks=0: the broker sends no response",
        30: "acks=1: the leader responds when it has written the batch",
        31: "acks=all: the leader responds when the whole ISR has the batch, and refuses it if the ISR is too small",
        32: "An acknowledged batch may be in memory only, unless a setting requires a flush first",
    },
    "Assignment and elections": {
        33: "Replica j of partition i is on broker (i + j) mod n; by default with a random start and shifted followers",
        34: "There are elections of the controller, of partition leaders, and of the leaders of consumer groups",
        35: "A broker becomes controller by creating the ephemeral /controller, in one transaction with the next epoch",
        36: "When the controller's session ends, /controller is deleted, and all brokers are candidates again",
        37: "The controller elects partition leaders and sends them to the brokers with replicas",
        38: "The first replica in the order of the assignment that is alive and in the ISR becomes the leader",
        39: "The ISR is stored in the partition's state node, and changes with time",
        40: "If all replicas failed, the partition waits for one of the ISR or, if allowed, takes the first to return",
        41: "The first member of a group leads it; when it leaves, another member leads",
        42: "Committed offsets of consumers are stored in the topic __consumer_offsets",
    },
    "Metadata in the store": {
        43: "The znodes at the root are Kafka's",
        44: "/brokers has the children ids, topics and seqid",
        45: "/brokers/ids/<id> is an ephemeral node with the broker's listeners",
        46: "/brokers/topics/<t>/partitions/<p>/state has leader, ISR and their epochs; its version counts changes",
        47: "The shell prints nodes with all fields of their stat",
        48: "/controller names the broker that is the controller",
        49: "/controller_epoch is incremented for each new controller",
    },
    "Failover": {
        50: "The controller notices a failed broker by its watch on /brokers/ids",
        51: "The controller compares the list of live brokers and their epochs, and so notices a quick restart",
        52: "The controller finds the partitions that a failed broker led, and those that it followed",
        53: "The controller reads each partition's ISR from its state node",
        54: "A live member of the ISR becomes the leader; if there is none, the last member of the ISR stays recorded",
        55: "A state is written only with its expected version and under the current controller epoch",
        56: "Each broker concerned receives one command of each kind",
        57: "Every broker watches /controller and is a candidate",
        58: "A new controller reads the controller epoch",
        59: "A new controller increments the controller epoch, unless another broker has done so",
        60: "Every read of a new controller leaves a watch, and lists are read before their elements",
        61: "The controller watches for reassignment requests",
        62: "The controller watches for changes of ISRs",
        63: "The controller watches for requests of preferred leader elections",
        64: "The controller watches for new topics",
        65: "The controller watches for deletion requests",
        66: "The controller watches for brokers that start or fail",
        67: "The controller watches for new partitions of topics",
        68: "A new controller reads brokers, topics, leaders and ISRs into its context",
        69: "The replica state machine starts before the partition state machine",
        70: "A broker shows whether it is the controller",
        71: "A new controller resumes unfinished reassignments",
        72: "A new controller resumes unfinished elections of preferred leaders",
        73: "A new controller sends all brokers the leaders of all partitions",
        74: "The controller restores preferred leaders at intervals, first after 5 s",
        75: "A new controller resumes unfinished deletions",
        76: "A broker that shuts down does not become controller",
    },
    "Epochs and commands": {
        77: "The controller sets leader and ISR at an election; afterwards the leader changes the ISR",
        78: "The store has the state: a new controller queries no broker, and a broker watches no partition",
        79: "The controller writes to the store before it sends commands",
        80: "All changes for one broker are in one command of each kind",
        81: "A leader that shrinks its ISR uses the new ISR only after its write is confirmed",
        82: "Brokers refuse commands of an older controller epoch",
        83: "Brokers refuse commands of an older leader epoch",
        84: "Epochs and states are written only if their version is the one that was read",
        85: "If the ISR changes between the controller's read and its write, the controller reads it again",
        86: "A replaced leader whose write is refused does not try again with the new version",
        87: "Controller epoch, leader epoch and version do not prevent every mistake: simulation tests the rest",
        88: "A broker's metadata for clients comes from commands whose controller epoch is checked",
    },
    "Consensus and store": {
        89: "All writes go through one leader, and are committed by a majority",
        90: "Every server answers reads, and forwards writes to the leader",
        91: "The protocol has three phases: discovery, synchronization, broadcast",
        92: "A server is a leader, a follower, or an observer, which never votes",
        93: "The state of a server is LOOKING, FOLLOWING, OBSERVING or LEADING",
        94: "A learner dials its leader; a server that does not know yet that it leads keeps the early link",
        95: "A server has ports for its peers and a port for clients",
        96: "tickTime, initLimit, syncLimit, dataDir, dataLogDir, server.N and the file myid have ZooKeeper's meaning",
        97: "Servers run fast leader election over TCP",
        98: "Settings bound the wait for a better vote, and the intervals between repeated notifications",
        99: "An election begins at the start, and when the leader or its quorum is lost",
        100: "Votes are ordered by epoch, zxid, id",
        101: "A quorum is more than half of the voters",
        102: "A server that starts later follows the established leader",
        103: "A zxid is an epoch and a counter that restarts in each epoch; a used-up counter ends the epoch",
        104: "Three servers start one after the other: the second leads, and the third joins",
        105: "Two of five servers are gone: of the servers with the newest history, the highest id wins",
        106: "A LOOKING server begins a round, votes for itself, and repeats its vote at growing intervals",
        107: "A server joins a later round, and does not count votes of an earlier round",
        108: "With a quorum of votes, a server still waits for a better vote",
        109: "Votes of servers that already have a leader are counted separately",
        110: "A server of weight zero is never elected",
        111: "Quorums may be weighted, and in groups",
        112: "Each link has its own bounded queue",
        113: "A leader is established when a quorum has its initial history",
        114: "A server that reaches no quorum within initLimit starts an election again",
        115: "The history that the leader still has decides how a follower is synchronized",
        116: "DIFF: the follower receives the missing transactions",
        117: "TRUNC: a former leader discards proposals that no other server has",
        118: "TRUNC and DIFF: a follower discards its tail, and receives the transactions of a newer epoch",
        119: "SNAP: the follower receives the whole state",
        120: "Proposals are logged, acknowledged, committed and applied in the order of their zxids",
        121: "A read may be stale; after a sync it is not",
        122: "Watches fire for each change, and ephemeral nodes are deleted with their session",
    },
}

HEAD: Final = """# Mechanisms

This page lists the mechanisms of the system and the tests that show them. Each test names its mechanisms by
`@pytest.mark.mechanism`. `python -m tests.mechanisms` generates this page from these marks, and a test compares
them.
"""

STORY: Final = "# mechanism "

LISTED: Final = 4
"""The number of tests that the page names for each mechanism. It only counts the others."""


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
