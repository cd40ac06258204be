"""`python -m bench.gate.counted TURNS`: all works, so many times, for what counts the instructions of a process."""

from __future__ import annotations

import sys

from bench.gate.work import WORKS


def main() -> None:
    turns = int(sys.argv[1])
    print(sum(work() for _ in range(turns) for work in WORKS.values()))


if __name__ == "__main__":
    main()
