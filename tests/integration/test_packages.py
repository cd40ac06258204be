"""The sdist and the wheel are complete. The wheel is installed without network, imported, run and type-checked.

The sdist is built from a copy of the tree, because setuptools leaves files where it builds, and the wheel from the
sdist, as pip does if it installs an sdist. The environment has the package and links to the distributions of this
environment, except the editable install of this tree.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("harness", "kraft_controller", "replica", "zab")
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BESIDE: Final = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md")
COMMANDS: Final = ("zab", "zab-broker", "zab-harness")
IMPORTS: Final = "import harness, kraft_controller, replica, replica.testing, zab, zab.recipes, zab.testing"
TYPED: Final = """
import zab
from kraft_controller import Registration
from replica.testing import MemoryCluster

async def typed(session: zab.Session, cluster: MemoryCluster, registration: Registration) -> None:
    reveal_type(await session.create("/a", b""))
    reveal_type(cluster)
    reveal_type(registration)
"""


def run(*arguments: str | Path, folder: Path) -> str:
    """Run without PYTHONPATH: this tree may be on it, with the metadata of its editable install."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{arguments}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def in_the_tree() -> set[str]:
    """Return all files of the packages: a file that is there is code, or is opened by code."""
    files = (file for package in PACKAGES for file in (ROOT / package).rglob("*") if file.is_file())
    return {str(file.relative_to(ROOT)) for file in files if "__pycache__" not in file.parts}


def build(kind: str, source: Path, output: Path) -> Path:
    """Build with the backend that pyproject.toml names, without an isolated environment and so without network."""
    call = f"from setuptools.build_meta import build_{kind}; build_{kind}({str(output)!r})"
    run(sys.executable, "-c", call, folder=source)
    (built,) = output.iterdir()
    return built


def install(package: Path, folder: Path) -> Path:
    """Install the package and return the directory of its commands. pip must find every dependency of `all`."""
    environment, others = folder / "environment", folder / "others"
    venv.create(environment, with_pip=False)
    others.mkdir()
    libraries = [Path(path) for path in sys.path if path.endswith("-packages")]
    for entry in (entry for library in libraries for entry in library.iterdir()):
        link = others / entry.name
        if not entry.name.startswith(("zab-", "__editable__")) and entry.suffix != ".pth" and not link.is_symlink():
            link.symlink_to(entry)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (environment / "lib" / version / "site-packages" / "others.pth").write_text(f"{others}\n")
    commands = environment / "bin"
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--python",
        commands / "python",
    ]
    options = ["--no-index", "--no-build-isolation", "--no-compile", "--quiet"]
    run(*pip, "install", *options, f"zab[all] @ {package.as_uri()}", folder=folder)
    return commands


def check_commands(commands: Path, folder: Path) -> None:
    isolated = (commands / "python", "-I", "-c")
    run(*isolated, IMPORTS, folder=folder)
    where = run(*isolated, f"{IMPORTS}; print(zab.__file__, harness.__file__)", folder=folder).split()
    assert all(path.startswith(str(commands.parent)) for path in where)
    metadata = run(*isolated, "from importlib.metadata import version; print(version('zab'))", folder=folder)
    assert metadata.strip() == PROJECT["version"]
    for command in COMMANDS:
        assert run(commands / command, "--version", folder=folder) == f"{command} {PROJECT['version']}\n"
    assert "commit-without-quorum" in run(commands / "zab-harness", "mutants", "--list", folder=folder)
    run(commands / "zab-harness", "show", "--seed", "1", "--ops", "5", "--output", "run.html", folder=folder)
    assert "<svg" in (folder / "run.html").read_text()


def build_sdist(folder: Path) -> Path:
    source = folder / "tree"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in BESIDE:
        shutil.copy(ROOT / name, source)
    return build("sdist", source, folder / "sdist")


def test_sdist_and_its_wheel_are_complete_and_the_wheel_can_be_installed_and_is_typed(tmp_path: Path) -> None:
    sdist = build_sdist(tmp_path)
    top = f"zab-{PROJECT['version']}"
    assert sdist.name == f"{top}.tar.gz"
    with tarfile.open(sdist) as archive:
        names = {name.removeprefix(f"{top}/") for name in archive.getnames() if archive.getmember(name).isfile()}
    assert in_the_tree() | set(BESIDE) <= names
    roots = {name.partition("/")[0] for name in names}
    assert roots == {*PACKAGES, *BESIDE, "PKG-INFO", "setup.cfg", "zab.egg-info"}

    run("tar", "-xzf", sdist, folder=tmp_path)
    wheel = build("wheel", tmp_path / top, tmp_path / "wheel")
    assert wheel.name == f"{top}-py3-none-any.whl"
    with ZipFile(wheel) as zipped:
        names = {name for name in zipped.namelist() if not name.endswith("/")}
    assert {name for name in names if ".dist-info/" not in name} == in_the_tree()
    assert f"{top}.dist-info/licenses/LICENSE" in names
    assert {f"{package}/py.typed" for package in PACKAGES} <= names

    commands = install(wheel, tmp_path)
    check_commands(commands, tmp_path)
    (tmp_path / "typed.py").write_text(TYPED)
    mypy = (sys.executable, "-m", "mypy", "--python-executable", commands / "python", "--strict", "typed.py")
    output = run(*mypy, folder=tmp_path)
    assert "Revealed type is" in output
    assert "Any" not in output


@pytest.mark.parametrize("field", ["description", "readme", "license", "keywords", "classifiers", "requires-python"])
def test_metadata_have_each_field(field: str) -> None:
    assert PROJECT[field]
