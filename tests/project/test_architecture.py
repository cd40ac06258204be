"""The layers, read from the source: pure modules import nothing that acts, and `import zab` needs little.

The contracts in pyproject.toml hold the order of the layers. This file checks the rest: which foreign
modules a layer may use, and which modules a fresh interpreter loads.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

import zab

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("zab", "kraft_controller", "replica", "harness")

PURE_LAYERS = ("core", "wire", "store", "service")
MOVES = frozenset({
    "asyncio", "datetime", "io", "logging", "multiprocessing", "os", "pathlib", "random", "secrets", "select", "shutil",
    "signal", "socket", "ssl", "subprocess", "tempfile", "threading", "time", "trio", "uuid",
})  # fmt: skip
"""Clocks, chance, sockets, files, threads. A layer that has none of them is a function of its arguments."""

NEEDED_BY_ZAB = frozenset({"attrs", "msgpack", "trio"})
NEEDED_BY_ITS_COMMAND = frozenset({"click", "rich"})
BEHIND_AN_EXTRA = {
    "net/tls/key_stores.py": {"cryptography"},
    "wire/certificates.py": {"cryptography"},
    "admin/admin_port.py": {"prometheus_client"},
    "admin/admin_query.py": {"h11"},
    "admin/exposition.py": {"prometheus_client"},
    "admin/http_connection.py": {"h11"},
    "testing/pytest_plugin.py": {"pytest"},
}
"""Loaded when such a key store is opened, a certificate is read, or an admin port is opened; the plugin by pytest."""


def modules_under(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def imported_by(source: str) -> Iterator[tuple[int, str]]:
    """Line and full name of everything imported, wherever in the module the import stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import hides which layer it reaches"
            assert node.module is not None
            yield node.lineno, node.module
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "__import__":
            yield node.lineno, "__import__"


def top(name: str) -> str:
    return name.partition(".")[0]


def offences(source: str, forbidden: frozenset[str]) -> list[tuple[int, str]]:
    return sorted({(line, top(name)) for line, name in imported_by(source) if top(name) in forbidden})


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "import os.path",
        "from time import monotonic",
        "import json, random",
        "def later():\n    import trio",
        "if TYPE_CHECKING:\n    from trio import Nursery",
        "try:\n    import ssl\nexcept ImportError: ...",
    ],
)
def test_this_test_would_notice(source: str) -> None:
    assert offences(source, MOVES)


PURE_MODULES = [path for package in PACKAGES for layer in PURE_LAYERS for path in modules_under(ROOT / package / layer)]


@pytest.mark.parametrize("path", PURE_MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pure_layers_use_no_clock_socket_file_or_thread(path: Path) -> None:
    assert offences(path.read_text(), MOVES | {"__import__", "importlib"}) == []


def test_there_is_a_core_to_be_judged() -> None:
    assert len([path for path in PURE_MODULES if path.is_relative_to(ROOT / "zab" / "core")]) > 5


def third_party(path: Path) -> set[str]:
    names = {top(name) for _, name in imported_by(path.read_text())}
    return names - set(sys.stdlib_module_names) - set(PACKAGES) - {"__import__"}


@pytest.mark.parametrize("path", modules_under(ROOT / "zab"), ids=lambda path: str(path.relative_to(ROOT)))
def test_zab_needs_three_libraries(path: Path) -> None:
    allowed = NEEDED_BY_ZAB
    if path.relative_to(ROOT / "zab").parts[0] in ("cli", "cli.py"):
        allowed |= NEEDED_BY_ITS_COMMAND
    allowed |= BEHIND_AN_EXTRA.get(str(path.relative_to(ROOT / "zab")), set())
    assert third_party(path) <= allowed


RECIPES_MAY = ("zab.recipes", "zab.session", "zab.store", "zab.core.errors", "zab.core.argument_names")
"""One and the same recipe works in the process and over the wire, because it cannot know which it is."""


@pytest.mark.parametrize("path", modules_under(ROOT / "zab" / "recipes"), ids=lambda path: path.name)
def test_recipes_stand_on_the_session_api(path: Path) -> None:
    ours = {name for _, name in imported_by(path.read_text()) if top(name) in PACKAGES}
    assert {
        name for name in ours if not f"{name}.".startswith(tuple(f"{allowed}." for allowed in RECIPES_MAY))
    } == set()


# -- tables --------------------------------------------------------------------------------------------


def repeated_keys(source: str) -> list[tuple[int, str]]:
    """Line and text of each key that stands in one dict literal before. The linter sees constants and names alone."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Dict):
            seen: set[str] = set()
            for key in node.keys:
                text = None if key is None or any(isinstance(e, ast.Call) for e in ast.walk(key)) else ast.unparse(key)
                if text is not None and text in seen:
                    found.append((key.lineno, text))  # type: ignore[union-attr]  # None has no text
                if text is not None:
                    seen.add(text)
    return found


def test_a_repeated_key_would_be_noticed() -> None:
    assert repeated_keys("{A.b: 1, 2: 3, A.b: 4, **x, 2: 5}") == [(1, "A.b"), (1, "2")]
    assert repeated_keys("{A.b: {A.b: 1}, next(x): 1, next(x): 2, **{A.b: 3}}") == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_table_has_a_key_twice(package: str) -> None:
    """The second row would silently take the place of the first."""
    found = {str(path): repeated_keys(path.read_text()) for path in modules_under(ROOT / package)}
    assert {path: keys for path, keys in found.items() if keys} == {}


# -- what is loaded ------------------------------------------------------------------------------------


def loaded_by(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after running `code`."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted({{name.partition('.')[0] for name in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    names: list[str] = json.loads(done.stdout)
    return set(names)


NOT_FOR_ZAB = {
    "click", "cramjam", "cryptography", "google_crc32c", "h11", "harness", "hypothesis", "kraft_controller",
    "matplotlib", "prometheus_client", "pyarrow", "pyspark", "replica", "rich",
}  # fmt: skip


def test_import_zab_loads_nothing_of_the_others() -> None:
    assert not loaded_by("import zab") & NOT_FOR_ZAB


def test_all_of_zab_loads_nothing_of_the_others() -> None:
    """This includes every public name."""
    loaded = loaded_by("from zab import *")
    assert not loaded & NOT_FOR_ZAB
    foreign = loaded - loaded_by("") - set(sys.stdlib_module_names)
    assert "attrs" in foreign, "else this test looks at the wrong interpreter"


def test_import_zab_alone_does_not_wait_for_trio() -> None:
    """Trio is most of the cost of a start, and `zab.Ensemble` does not need it."""
    assert "trio" not in loaded_by("import zab; zab.Ensemble")


# -- private names of Trio -----------------------------------------------------------------------------

TOUCHES_TRIO = "zab/net/loop_wait.py"
OWN_PROCESSES = {"zab/cli/serve.py", "zab/cli/dev.py", "bench/zookeeper/server.py"}
"""Commands whose process does nothing but serve. A library must never claim the loop of its application."""


def mentions(text: str) -> set[str]:
    paths = [path for package in (*PACKAGES, "bench") for path in modules_under(ROOT / package)]
    return {str(path.relative_to(ROOT)) for path in paths if text in path.read_text()}


def test_one_module_touches_private_names_of_trio() -> None:
    """The harness schedules tasks in an order of its own, in processes that no application shares."""
    assert {path for path in mentions("trio._core") if not path.startswith("harness/")} == {TOUCHES_TRIO}


def test_only_commands_with_a_process_of_their_own_claim_the_loop() -> None:
    assert mentions("claim_this_loop()") == OWN_PROCESSES | {TOUCHES_TRIO}


# -- the face ------------------------------------------------------------------------------------------


def test_every_public_name_is_there() -> None:
    assert len(set(zab.__all__)) == len(zab.__all__)
    for name in zab.__all__:
        assert getattr(zab, name) is not None
    assert set(zab.__all__) <= set(dir(zab))


def test_unknown_public_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Paxos'"):
        _ = zab.Paxos  # type: ignore[attr-defined]


def test_lazy_names_match_the_type_checkers() -> None:
    """The names are listed twice, once for each of them."""
    tree = ast.parse((ROOT / "zab" / "__init__.py").read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        (alias.asname or alias.name, node.module)
        for node in ast.walk(guarded)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == set(zab._HOME_OF.items())
    assert set(zab.__all__) == set(zab._HOME_OF)


# -- the picture ---------------------------------------------------------------------------------------


def test_the_picture_shows_the_layers_of_the_contract() -> None:
    check = subprocess.run([sys.executable, "scripts/architecture_picture", "--check"], cwd=ROOT, check=False)
    assert check.returncode == 0, "run scripts/architecture_picture"


# -- circles -------------------------------------------------------------------------------------------


def imports_inside(package: str) -> dict[str, set[str]]:
    """Return the modules of a package that each of them imports, for type checking included."""
    paths = {}
    for path in modules_under(ROOT / package):
        parts = path.relative_to(ROOT).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {module: modules_in(path.read_text(), paths.keys()) - {module} for module, path in paths.items()}


def modules_in(source: str, names: Collection[str]) -> set[str]:
    """Return which of these modules a source imports. `from a import b` imports `a.b` if that is a module, else `a`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            found.update(name if name in names else node.module for name in inner)
    return found.intersection(names)


def circle_in(imports: dict[str, set[str]]) -> list[str]:
    """Return modules that import each other in a circle, or nothing: what is left once every module without imports is
    taken away, and again."""
    left = {module: set(found) for module, found in imports.items()}
    while ground := [module for module, found in left.items() if not found]:
        for module in ground:
            del left[module]
        for found in left.values():
            found.difference_update(ground)
    return sorted(left)


def test_a_circle_is_found() -> None:
    assert circle_in({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert circle_in({"a": {"b"}, "b": {"a"}, "c": set()}) == ["a", "b"]


@pytest.mark.parametrize("package", ["zab", "kraft_controller", "replica", "harness"])
def test_no_modules_import_each_other_in_a_circle(package: str) -> None:
    assert circle_in(imports_inside(package)) == []
