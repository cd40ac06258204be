"""Find a user's machine by its name, `module:Class`, and its other parts by the usual names in its class or module.

The model is the attribute `model` of the class, or else the only class of its module with `initial` and `step`. The
requests are `requests` of the class, of the model or of the module. `state` of the class is optional. `requests` and
`state` of a class are static methods.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import shlex
import sys
import sysconfig
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

from harness.embed.child import Called, loading
from harness.embed.model import (
    MACHINE_METHODS,
    MODEL,
    MODEL_METHODS,
    REQUESTS,
    STATE,
    SystemUnderTest,
    lacks,
    system_of,
)
from harness.embed.world import world_of as world_of_system
from harness.script.checks import ScriptError
from harness.worlds import World

PARTS: Final = (MODEL, REQUESTS, STATE)


class NoMachine(ScriptError):
    """No machine has this name. The message says what was tried, and what to write instead."""


@cache
def system_named(name: str) -> SystemUnderTest:
    """Import the module, and return the system under test of this name."""
    machine = callable_named(name)
    module_name, _, path = name.partition(":")
    if isinstance(machine, type):
        _check_methods(name, machine)
    try:
        made = machine()
    except Exception as error:
        raise NoMachine(
            f"{name}: {path}() raises {error!r}. Each server makes a new machine without arguments: name a subclass or"
            " a function that needs none"
        ) from error
    _check_methods(name, made)
    parts = parts_of(machine)
    if parts[MODEL] is None:
        raise NoMachine(f"{name} {without_model(machine)}")
    try:
        return system_of(machine, name, model=parts[MODEL], requests=parts[REQUESTS], state=parts[STATE])
    except TypeError as error:
        where = f"{REQUESTS} is looked for in {path}, in {module_name} and in the model"
        raise NoMachine(f"{name}: {error} ({where})") from error


@cache
def callable_named(name: str) -> Callable[..., Any]:
    """Import the module, and return its class or function of this name."""
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise NoMachine(
            f"--machine {name!r}: expected module:Class, such as examples.bank:Bank, or module:main for a program"
        )
    if "<" in path:
        raise NoMachine(
            f"{name}: a class inside a function has no name outside of it; use harness.replay in Python, or"
            " harness.application for a program"
        )
    module, cut_short = _imported(module_name)
    return _class_in(module, module_name, path, cut_short)


def _check_methods(name: str, machine: object) -> None:
    missing = lacks(machine, MACHINE_METHODS)
    if missing:
        raise NoMachine(f"{name} is no machine: it has no {', '.join(missing)}; see zab.Machine")


def world_of(name: str) -> World:
    return world_of_system(system_named(name))


def name_of(machine: object) -> str:
    """Return `module:Class`. The name of a script that is run as `__main__` is that of its file."""
    module = getattr(machine, "__module__", type(machine).__module__)
    path = getattr(machine, "__qualname__", type(machine).__qualname__)
    if module == "__main__":
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        module = spec.name if spec is not None else Path(getattr(main, "__file__", None) or "__main__").stem
    return f"{module}:{path}"


def shell_prefix(machine: object, **given: object) -> str | None:
    """Return the prefix of a shell command with which `zab-harness` finds the machine and these parts, or None.

    It cannot find a machine inside a function, or a part that does not have its usual name.
    """
    usual = parts_of(machine)
    if any(part is not None and part is not usual[name] for name, part in given.items()):
        return None
    return path_prefix(machine)


def path_prefix(machine: object) -> str | None:
    """Return what a shell command needs before it to import the machine or the program; None if nothing suffices."""
    module = sys.modules.get(getattr(machine, "__module__", ""))
    path = getattr(machine, "__qualname__", "<none>")
    file = getattr(module, "__file__", None)
    if module is None or file is None or "<" in path:
        return None
    name = name_of(machine).partition(":")[0]
    root = Path(file).resolve().parents[name.count(".") + (Path(file).name == "__init__.py")]
    installed = {Path(sysconfig.get_path(key)).resolve() for key in ("purelib", "platlib", "stdlib")}
    return "" if root == Path.cwd().resolve() or root in installed else f"PYTHONPATH={shlex.quote(str(root))} "


# -- from the name to the class ------------------------------------------------------------------------


def _imported(name: str) -> tuple[ModuleType, bool]:
    """Import the module, also from the working directory. The second value is True if a campaign ended the import."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    if name in sys.modules:
        return sys.modules[name], False
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        raise NoMachine(_not_found(name, str(error))) from error
    except Exception as error:
        raise NoMachine(f"the package of {name} cannot be imported: {error!r}") from error
    if spec is None or spec.loader is None:
        raise NoMachine(_not_found(name, f"No module named {name!r}"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with loading():
            spec.loader.exec_module(module)
    except Called:
        return module, True  # the names above the campaign are defined by then
    except BaseException as error:
        del sys.modules[name]
        if not isinstance(error, Exception | SystemExit):
            raise
        raise NoMachine(f"{spec.origin} cannot be imported: {error!r}") from error
    return module, False


def _not_found(name: str, why: str) -> str:
    parent, _, last = name.rpartition(".")
    folder = Path(*parent.split(".")) if parent else Path()
    near = get_close_matches(last, sorted({path.stem for path in _modules_in(Path(sys.path[0]) / folder)}), 3)
    hint = f"; near it: {', '.join(f'{parent}.{each}' if parent else each for each in near)}" if near else ""
    return f"{why}: tried to import {name} from sys.path, which begins with {sys.path[0]!r}{hint}"


def _modules_in(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [each for each in folder.iterdir() if each.suffix == ".py" or (each.is_dir() and each.name.isidentifier())]


def _class_in(module: ModuleType, module_name: str, path: str, cut_short: bool) -> Callable[..., Any]:
    found: Any = module
    for part in path.split("."):
        names = [name for name, value in vars(found).items() if isinstance(value, type)] if found is module else []
        if not hasattr(found, part):
            machines = [name for name in names if not lacks(vars(module)[name], MACHINE_METHODS)]
            near = get_close_matches(part, names, 3, 0.5)
            near += [name for name in machines if name not in near and vars(module)[name].__module__ == module_name]
            hint = f"; near it: {', '.join(near)}" if near else ""
            above = " above the campaign that runs when it is imported" if cut_short else ""
            raise NoMachine(f"{module_name} ({module.__file__}) has no {path}{above}{hint}")
        found = getattr(found, part)
    if not callable(found):
        raise NoMachine(f"{module_name}:{path} is {found!r:.80}: expected a class")
    made: Callable[..., Any] = found
    return made


# -- the other parts -----------------------------------------------------------------------------------


def parts_of(machine: object) -> dict[str, Any]:
    """Return the model, the requests and the state by their usual names, and None for a missing part."""
    module = sys.modules.get(getattr(machine, "__module__", ""))
    names: Mapping[str, Any] = {} if module is None else vars(module)
    found = {part: _attribute(machine, part) for part in PARTS}
    models = _models(names, "" if module is None else module.__name__)
    if found[MODEL] is None and len(models) == 1:
        found[MODEL] = models[0]
    if found[REQUESTS] is None and not hasattr(found[MODEL], REQUESTS) and callable(names.get(REQUESTS)):
        found[REQUESTS] = names[REQUESTS]
    return found


def _attribute(machine: object, part: str) -> object:
    """Return an attribute of the class. A method or a property of this name means something else."""
    value = inspect.getattr_static(machine, part, None) if isinstance(machine, type) else None
    if isinstance(value, FunctionType | property) or (part == MODEL and lacks(value, MODEL_METHODS)):
        return None
    return value.__func__ if isinstance(value, staticmethod) else value


def _models(module: Mapping[str, Any], module_name: str) -> list[type]:
    return [
        each
        for each in module.values()
        if isinstance(each, type) and each.__module__ == module_name and not lacks(each, MODEL_METHODS)
    ]


def without_model(machine: object) -> str:
    """Describe the missing model, for an error message."""
    module = getattr(machine, "__module__", "")
    several = [each.__name__ for each in _models(vars(sys.modules[module]), module)] if module in sys.modules else []
    why = f"several, {', '.join(several)}" if several else f"no class with {' and '.join(MODEL_METHODS)}"
    path = getattr(machine, "__name__", "the class")
    return f"has no model, and its module has {why}. Write `model = ...` into {path} or a subclass; see harness.Model"
