"""A program behaves the same whether the fork server or the interpreter starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import forkserver
from tests.integration.processes import ROOT

PLACE = "import os, sys, __main__; print(sys.argv, sys.path[0], os.getcwd(), sys.orig_argv[1:], __name__, __main__)"
SETTINGS = "import os, random, sys, warnings; print(os.environ, sys.path, sys.warnoptions, warnings.filters)"
STREAMS = "import sys; print([(each.fileno(), each.encoding, each.errors, each.line_buffering) for each in STREAMS])"
PROGRAMS = {
    "code": ["-c", PLACE, "-c", "a b"],
    "settings": ["-W", "error", "-c", SETTINGS],
    "streams": ["-c", STREAMS.replace("STREAMS", "(sys.stdin, sys.stdout, sys.stderr)")],
    "module": ["-m", "zab", "--version"],
    "package": ["-m", "replica.cli", "--help"],
    "command": ["-m", "harness", "run", "--seed", "7", "--ops", "5", "--faults", "1"],
    "wrong usage": ["-m", "zab", "serve"],
    "input": ["-c", "print(input() + input())"],
    "exit status": ["-c", "import atexit; atexit.register(print, 'at exit'); print('before'); raise SystemExit(41)"],
    "exit message": ["-c", "import sys; sys.exit('a message')"],
    "thread": ["-c", "from threading import *; Timer(0.1, print, 'x').start()"],
    "own exit": ["-c", "import os; print('lost'); os._exit(7)"],
    "signals": ["-c", "from signal import *; print([(s, getsignal(s)) for s in valid_signals()])"],
    "interrupt": ["-c", "import os; os.kill(os.getpid(), 2)"],
    "killed": ["-c", "import os; os.kill(os.getpid(), 9)"],
    "warning": ["-W", "error", "-c", "import warnings; warnings.warn('a warning')"],
    "exception": ["-c", "1 / 0"],
    "syntax": ["-c", "1 +"],
    "no module": ["-m", "zab.no_such_module"],
}


@pytest.mark.parametrize("words", PROGRAMS.values(), ids=PROGRAMS)
def test_program_has_the_same_output_and_status(words: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    forked = forkserver.run(
        words, given="one\ntwo\n", cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    real = subprocess.run(
        [sys.executable, *words],
        input="one\ntwo\n", cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (forked.returncode, forked.stdout) == (real.returncode, real.stdout)
    if "Traceback" in forked.stderr:
        assert forked.stderr.splitlines()[-1] == real.stderr.splitlines()[-1]
    else:
        assert forked.stderr == real.stderr


def test_file_is_run_as_a_script(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("VALUE = 5\n")
    script = tmp_path / "script.py"
    script.write_text("import sys\nimport beside\nprint(beside.VALUE, __file__, __name__, sys.argv, sys.path[0])\n")
    words = [str(script), "argument"]
    forked = forkserver.run(words, capture_output=True, text=True, check=True)
    real = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
    assert forked.stdout == real.stdout


def test_program_is_a_child_that_can_be_signalled_and_waited_for() -> None:
    code = "import os, time; print(os.getppid(), os.getpgid(0), os.getsid(0), flush=True); time.sleep(600)"
    with forkserver.start(["-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().split() == [str(os.getpid()), str(os.getpgid(0)), str(os.getsid(0))]
        assert process.poll() is None
        process.terminate()
        assert process.wait(60) == -signal.SIGTERM
        assert process.stdout.read() == ""
    with forkserver.start(["-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().split()[1:] == [str(process.pid)] * 2
        process.kill()


def test_program_inherits_no_descriptor_but_its_streams() -> None:
    code = "import os; print(sorted(os.listdir('/proc/self/fd'), key=int)[:-1])"
    for _ in range(2):
        assert forkserver.run(["-c", code], capture_output=True, text=True).stdout == "['0', '1', '2']\n"


def test_closed_pipe_reaches_the_program() -> None:
    code = "import sys; sys.stdin.read(); print('x' * 100_000)"
    with forkserver.start(["-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as it:
        assert it.stdin is not None
        assert it.stdout is not None
        it.stdout.close()
        it.stdin.close()
        assert it.wait(60) == 1
        assert it.stderr is not None
        assert it.stderr.read().splitlines()[-1] == b"BrokenPipeError: [Errno 32] Broken pipe"


def test_programs_differ_in_their_random_numbers() -> None:
    code = "import random; print(random.random())"
    assert len({forkserver.run(["-c", code], capture_output=True).stdout for _ in range(2)}) == 2


def test_timeout_kills_the_program() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        forkserver.run(["-c", "import time; time.sleep(600)"], timeout=0.1)


def test_orphans_of_other_programs_are_not_adopted() -> None:
    code = "import os, sys, time\nif os.fork():\n    os._exit(0)\ntime.sleep(0.2); print(os.getppid())"
    with forkserver.start(["-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        time.sleep(0)
        assert process.stdout.read() != f"{os.getpid()}\n"


@pytest.mark.parametrize(
    "option", [{"preexec_fn": print}, {"shell": True}, {"umask": 0}, {"env": {"PYTHONHASHSEED": "5"}}, {"user": "root"}]
)
def test_option_that_a_fork_cannot_obey_is_refused(option: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="start the command with subprocess"):
        forkserver.start(["-c", "pass"], **option)
