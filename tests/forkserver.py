"""Start Python programs without waiting for their imports.

`python -m zab serve` imports for more than half a second before it does anything. Hundreds of tests start such
processes, and hardly one of them is about the imports. `start` and `run` give the command to a server process, one for
each process that runs tests. The server has imported the product once. It forks, and the fork becomes the program: it
takes the arguments, environment, working directory and standard streams of the command, and then runs it as the
interpreter does.

The program is a child of the caller, so `wait`, signals, exit statuses and resource usage are those of any child. The
interpreter itself ends it: exit status, traceback, exit handlers and the last flush of the streams are the real ones.
Five things differ from a real start. The modules of the product are in memory already, so a missing or slow import
does not show. All programs of one server share a hash seed. Memory is shared with the server. `/proc/PID/cmdline`
names the server. A traceback begins with lines of the server. A test about one of these, or about signals during the
start, uses `subprocess`.
"""

from __future__ import annotations

import atexit
import builtins
import ctypes
import gc
import json
import os
import runpy
import socket
import struct
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.machinery import BuiltinImporter
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, Final, NamedTuple

import trio

ROOT: Final = Path(__file__).resolve().parents[1]
TABLES: Final = ("zab.cli.root", "replica.cli.root", "harness.cli.root")
"""Modules with the commands of a program; each command names a module that the program imports when it runs."""
HEAVY: Final = "harness.cli.stored"
"""It imports pyarrow and numpy, which would double the memory of every program."""
OTHERS: Final = ("harness.worlds.cores.world", "harness.worlds.stack.world", "tests.integration.stores")
_LENGTH: Final = struct.Struct("!I")
_PR_SET_CHILD_SUBREAPER: Final = 36


class Order(NamedTuple):
    """What a fork becomes: `words` are the arguments of the interpreter, `folder` is its working directory."""

    words: list[str]
    environment: dict[str, str]
    folder: str
    new_session: bool


# -- the caller ----------------------------------------------------------------------------------------


def start(words: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Start `python *words`, where the words begin with `-m MODULE`, `-c CODE` or the path of a file.

    The options are those of `subprocess.Popen`, except for the few that a fork cannot obey: they raise `ValueError`.
    """
    return _Forked([sys.executable, *words], **options)


def run(
    words: Sequence[str], *, given: Any = None, timeout: float | None = None, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run `python *words` to its end, as `subprocess.run` does. `given` is its standard input."""
    if given is not None:
        options["stdin"] = subprocess.PIPE
    if options.pop("capture_output", False):
        options["stdout"] = options["stderr"] = subprocess.PIPE
    with start(words, **options) as process:
        try:
            out, errors = process.communicate(given, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    assert process.returncode is not None
    done = subprocess.CompletedProcess([sys.executable, *words], process.returncode, out, errors)
    if check:
        done.check_returncode()
    return done


async def run_in_thread(words: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run `python *words` to its end while the loop goes on."""
    return await trio.to_thread.run_sync(partial(run, words, **options), abandon_on_cancel=True)


class _Forked(subprocess.Popen[Any]):
    """A `Popen` whose process the server forks."""

    def _execute_child(  # type: ignore[no-untyped-def]  # private, the same in Python 3.11 and 3.13
        self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite,
        restore_signals, gid, gids, uid, umask, start_new_session, process_group,
    ) -> None:  # fmt: skip
        try:
            changed = any((preexec_fn, pass_fds, shell, executable)) or {gid, gids, uid} != {None}
            if changed or umask != -1 or process_group != -1 or not close_fds or not restore_signals:
                raise ValueError("a fork cannot obey this option: start the command with subprocess")
            environment = dict(os.environ if env is None else env)
            if _interpreter(environment) != _interpreter(os.environ):
                raise ValueError("a fork cannot change how the interpreter starts: start the command with subprocess")
            streams = [own if given == -1 else given for own, given in enumerate((p2cread, c2pwrite, errwrite))]
            order = Order([str(word) for word in args[1:]], environment, str(cwd or Path.cwd()), start_new_session)
            self.pid = _server().fork(order, streams)
            self._child_created = True
        finally:
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]


def _interpreter(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the interpreter reads only while it starts."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(("PYTHON", "LC_", "LANG")) and name != "PYTHONPATH"
    }


class _Server:
    """The server's process, as the caller sees it."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._lock = Lock()
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forkserver", str(theirs.fileno())],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self.close)

    def fork(self, order: Order, streams: Sequence[int]) -> int:
        """Return the process id of a new child of this process."""
        data = json.dumps(order).encode("utf-8", "surrogateescape")
        with self._lock:
            _adopt_orphans(True)
            try:
                socket.send_fds(self._socket, [_LENGTH.pack(len(data))], streams)
                self._socket.sendall(data)
                reply = self._socket.recv(_LENGTH.size, socket.MSG_WAITALL)
            finally:
                _adopt_orphans(False)
        if len(reply) < _LENGTH.size:
            raise RuntimeError("the fork server has ended; its error is above, on stderr")
        pid: int = _LENGTH.unpack(reply)[0]
        return pid

    def close(self) -> None:
        if os.getpid() == self.owner:
            self._socket.close()
            self._process.wait()


_servers: Final[list[_Server]] = []


def _server() -> _Server:
    """Return the server of this process, and start it at the first call."""
    if not _servers or _servers[-1].owner != os.getpid():
        _servers.append(_Server())
    return _servers[-1]


def _adopt_orphans(wanted: bool) -> None:
    """Let orphans among the descendants of this process become its children, or those of init again.

    The server forks twice, and the process between ends at once. So the second fork becomes a child of this process.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


# -- the server ----------------------------------------------------------------------------------------


def _serve(control: socket.socket) -> Order | None:
    """Fork for each order. Return the order in the fork, and None in the server when the caller has ended."""
    while True:
        try:
            head, streams, _, _ = socket.recv_fds(control, _LENGTH.size, 3)
        except (KeyboardInterrupt, ConnectionError):
            return None
        if not head:
            return None
        data = b""
        while len(data) < _LENGTH.unpack(head)[0]:
            data += control.recv(_LENGTH.unpack(head)[0] - len(data))
        told, telling = os.pipe()
        between = os.fork()
        if between == 0:
            own = os.getpid()
            pid = os.fork()
            if pid != 0:
                os.write(telling, _LENGTH.pack(pid))
                os._exit(0)
            while os.getppid() == own:
                time.sleep(0.0005)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            for descriptor in (*streams, told, telling):
                os.close(descriptor)
            control.close()
            return Order(*json.loads(data.decode("utf-8", "surrogateescape")))
        os.waitpid(between, 0)
        control.sendall(os.read(told, _LENGTH.size))
        for descriptor in (*streams, told, telling):
            os.close(descriptor)


def _become(order: Order, installed: Sequence[str]) -> None:
    """Set what the interpreter sets at its start, and run the program. Its exceptions end the interpreter as usual."""
    if order.new_session:
        os.setsid()
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.environment)
    time.tzset()
    words = order.words
    while words[0] == "-W":
        sys.warnoptions.append(words[1])
        warnings.simplefilter(words[1])  # type: ignore[arg-type]
        words = words[2:]
    sys.orig_argv = [sys.executable, *order.words]
    kind, what = (words[0], words[1]) if words[0] in ("-m", "-c") else ("", words[0])
    sys.argv = [kind, *words[2:]] if kind else words
    first = {"-m": os.getcwd(), "-c": "", "": str(Path(what).resolve().parent)}[kind]
    named = [path for path in order.environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [first, *named, *(path for path in installed if path not in named)]
    sys.path_importer_cache.clear()
    main = sys.modules["__main__"] = ModuleType("__main__")
    if kind == "-m":
        runpy._run_module_as_main(what)  # type: ignore[attr-defined]  # as the interpreter does
        return
    vars(main).update(__builtins__=builtins, __loader__=BuiltinImporter)
    if not kind:
        vars(main)["__file__"] = what
    text = what if kind else Path(what).read_text()
    exec(compile(text, what if not kind else "<string>", "exec", dont_inherit=True), vars(main))


def _preload() -> None:
    for table in TABLES:
        for command in import_module(table).COMMANDS.values():
            if command.module != HEAVY:
                import_module(command.module)
    for name in OTHERS:
        import_module(name)


def _installed() -> list[str]:
    """Return the part of `sys.path` that neither the command line nor PYTHONPATH gave."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [path for path in sys.path[1:] if path not in named]


if __name__ == "__main__":
    _found = _installed()
    _preload()
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as _control:
        _order = _serve(_control)
    if _order is not None:
        _become(_order, _found)
