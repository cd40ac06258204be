"""Commands about the host and the process of a server. Keys that begin with `java.` have Python's equivalents."""

from __future__ import annotations

import getpass
import os
import platform
import resource
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from zab.runtime.admin.report import VERSION

if TYPE_CHECKING:
    from zab.runtime.store_server.server_runtime import ServerRuntime


def environment(server: ServerRuntime) -> Mapping[str, object]:
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    limit = _memory_mb()
    return {
        "zookeeper.version": VERSION,
        "host.name": platform.node(),
        "java.version": platform.python_version(),
        "java.vendor": platform.python_implementation(),
        "java.home": sys.prefix,
        "java.class.path": os.pathsep.join(sys.path),
        "java.library.path": os.environ.get("LD_LIBRARY_PATH", ""),
        "java.io.tmpdir": tempfile.gettempdir(),
        "java.compiler": "<NA>",
        **_system(),
        "os.memory.free": f"{max(0, limit - used)}MB",
        "os.memory.max": f"{limit}MB",
        "os.memory.total": f"{used}MB",
    }


def system_properties(server: ServerRuntime) -> Mapping[str, object]:
    """Return properties of the system and of Python, but no settings or environment variables: some are secret."""
    return {
        "java.version": platform.python_version(),
        "java.vendor": platform.python_implementation(),
        "java.home": sys.prefix,
        "java.io.tmpdir": tempfile.gettempdir(),
        "file.encoding": sys.getfilesystemencoding(),
        "file.separator": os.sep,
        "line.separator": os.linesep,
        "path.separator": os.pathsep,
        **_system(),
    }


def _system() -> dict[str, str]:
    return {
        "os.name": platform.system(),
        "os.arch": platform.machine(),
        "os.version": platform.release(),
        "user.name": _user(),
        "user.home": os.path.expanduser("~"),
        "user.dir": os.getcwd(),
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _memory_mb() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    except (ValueError, OSError):
        return 0


def descriptors() -> tuple[int, int]:
    """Return the number of open descriptors, -1 if the system does not tell it, and the limit, -1 if there is none."""
    folder = Path("/proc/self/fd")
    opened = sum(1 for _ in folder.iterdir()) if folder.is_dir() else -1
    return opened, resource.getrlimit(resource.RLIMIT_NOFILE)[0]
