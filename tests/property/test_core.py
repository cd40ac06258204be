"""Three servers under random faults: they never disagree, and serve after the faults.

The world of the scenarios checks every step. Hypothesis shrinks a failure to a few commands for a story.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scenario.story import Story
from zab.core.errors import ZabError
from zab.core.messages import State
from zab.core.zxid import ServerId

SERVERS = [ServerId(sid) for sid in (1, 2, 3)]
server = st.sampled_from(SERVERS)
pair = st.sampled_from([(1, 2), (1, 3), (2, 3)])

steps = st.one_of(
    st.tuples(st.just("deliver"), pair, st.booleans(), st.integers(1, 4)),
    st.tuples(st.just("run")),
    st.tuples(st.just("propose"), st.integers(1, 3)),
    st.tuples(st.just("time"), st.sampled_from([1, 60, 200, 500, 2000])),
    st.tuples(st.just("crash"), server, st.booleans()),
    st.tuples(st.just("restart"), server),
    st.tuples(st.just("cut"), pair),
    st.tuples(st.just("heal"), pair),
    st.tuples(st.just("break"), pair),
    st.tuples(st.just("slow"), server, st.booleans()),
    st.tuples(st.just("save"), server, st.integers(1, 3)),
    st.tuples(st.just("barrier"), server),
    st.tuples(st.just("snapshot"), server),
)


class Luck:
    def __init__(self) -> None:
        self.story = Story()
        self.world = self.story.world
        self.story.tell("settings window_entries=3")
        self.story.tell("ensemble 1 2 3 leader=3 epoch=2")
        self.proposed = 0

    def meet(self, step: tuple[object, ...]) -> None:
        """A command that makes no sense just now is no command."""
        world, servers = self.world, self.world.servers
        match step:
            case ("deliver", (int(one), int(other)), bool(back), int(count)):
                source, to = (other, one) if back else (one, other)
                if world.queue(ServerId(source), ServerId(to)):
                    self.story.tell(f"deliver {source}->{to} {count}")
            case ("run",):
                self.story.tell("run")
            case ("propose", int(count)):
                for sid, node in world.running():
                    if node.state is State.LEADING and node.serving:
                        self.proposed += 1
                        words = " ".join(f'"{self.proposed}.{part}"' for part in range(count))
                        self.story.tell(f"propose {sid} {words}")
            case ("time", int(ms)):
                self.story.tell(f"time +{ms}")
            case ("crash", int(sid), bool(keep)):
                if servers[ServerId(sid)].node is not None:
                    self.story.tell(f"crash {sid}{' keep' if keep else ''}")
            case ("restart", int(sid)):
                if servers[ServerId(sid)].node is None:
                    self.story.tell(f"restart {sid}")
            case ("cut" | "heal" | "break" as verb, (int(one), int(other))):
                self.story.tell(f"{verb} {one}-{other}")
            case ("slow", int(sid), bool(slow)):
                if servers[ServerId(sid)].node is not None:
                    self.story.tell(f"disk {sid} {'slow' if slow else 'instant'}")
            case ("save", int(sid), int(count)):
                if 0 < count <= len(servers[ServerId(sid)].disk.pending):
                    self.story.tell(f"save {sid} {count}")
            case ("barrier", int(sid)):
                if servers[ServerId(sid)].node is not None:
                    self.story.tell(f"barrier {sid} 1")
            case ("snapshot", int(sid)):
                chosen = servers[ServerId(sid)]
                if chosen.node is not None and chosen.node.applied and not chosen.disk.pending:
                    self.story.tell(f"snapshot {sid} purge")
            case _:
                raise AssertionError(step)

    def ends(self) -> None:
        self.story.tell("heal all")
        for sid in SERVERS:
            if self.world.servers[sid].node is None:
                self.story.tell(f"restart {sid}")
            self.story.tell(f"disk {sid} instant")
        assert self.world.stabilize(60_000), self.story.tell("show")


@given(st.lists(steps, max_size=60))
@settings(max_examples=300)
def test_three_servers_survive_a_run_of_bad_luck(script: list[tuple[object, ...]]) -> None:
    luck = Luck()
    for step in script:
        try:
            luck.meet(step)
        except ZabError as error:
            raise AssertionError(f"{step}: an error that was meant for nobody") from error
    luck.ends()
    states = {tuple(server.state) for server in luck.world.servers.values()}
    digests = {node.digest() for _, node in luck.world.running()}
    assert len(states) == len(digests) == 1
