"""Three of our members, each in a process of its own, started and found serving."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.ports import free_ports
from bench.workers import Answer, Worker, ask_all, closing, python

SERVING_S: Final = 60.0


class Members:
    """An ensemble whose processes can be killed and started again."""

    def __init__(self, directory: Path, count: int, module: str, *arguments: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.sids: Final = tuple(range(1, count + 1))
        self.workers: dict[int, Worker] = {}
        self._worker = (module, *arguments)
        ports = free_ports(2 * count)
        self.ensemble = directory / "ensemble"
        lines = [f"server.{sid}=127.0.0.1:{ports[2 * sid - 2]}:{ports[2 * sid - 1]}" for sid in self.sids]
        self.ensemble.write_text("\n".join(lines) + "\n")

    def data(self, sid: int) -> Path:
        return self.directory / f"data-{sid}"

    def arguments(self, sid: int) -> list[str]:
        """Return the arguments of this member alone."""
        return []

    def start(self, sid: int) -> Worker:
        assert sid not in self.workers or not self.workers[sid].alive, f"server {sid} runs already"
        arguments = ["--id", str(sid), "--ensemble", str(self.ensemble), "--data", str(self.data(sid))]
        arguments += self.arguments(sid)
        self.workers[sid] = Worker(python(*self._worker, *arguments), self.directory / f"member-{sid}.log")
        return self.workers[sid]

    def start_all(self) -> None:
        for sid in self.sids:
            self.start(sid)
        self.serving()

    def stop_all(self) -> None:
        for worker in self.workers.values():
            worker.close_input()
        for worker in self.workers.values():
            worker.stop()

    def serving(self, sids: Sequence[int] | None = None) -> dict[int, Answer]:
        """The status of each (or of `sids`), once they all serve."""
        asked = self.sids if sids is None else tuple(sids)
        answers = ask_all([self.workers[sid] for sid in asked], "status", SERVING_S + 5, serving_within_s=SERVING_S)
        for sid, answer in zip(asked, answers, strict=True):
            if not answer["serving"]:
                raise RuntimeError(f"server {sid} does not serve after {SERVING_S:g} s: {answer}")
        return dict(zip(asked, answers, strict=True))

    def leader(self) -> int:
        """Return the leader that all servers follow. Just after an election some may not know it yet."""
        for _ in range(50):
            leaders = {answer["leader"] for answer in self.serving().values()}
            if len(leaders) == 1:
                return int(leaders.pop())
        raise RuntimeError(f"the servers do not agree on a leader: {leaders}")


@contextmanager
def members(directory: Path, count: int = 3) -> Iterator[Members]:
    ensemble = Members(directory, count, "bench.worker")
    with closing(ensemble.workers):
        ensemble.start_all()
        yield ensemble
