"""The docs are true: links lead somewhere, names and paths exist, and every example runs.

An example that cannot run here gives the reason in its first line:
`# Not run by the tests: <reason>`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Final

import attrs
import pytest
from click.testing import CliRunner

import zab
from bench.__main__ import parser as bench_parser
from bench.ports import free_ports
from harness.cli.root import zab_harness
from replica.cli.properties.keys import KEYS
from replica.cli.root import zab_broker
from tests import forkserver
from zab.cli.kit.program import check_command_line
from zab.cli.root import zab as zab_command
from zab.core import errors

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
PACKAGES = "zab|harness|bench|kraft_controller|replica"

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
NOT_RUN = re.compile(r"# Not run by the tests: \S+")
EXAMPLE_SECONDS_MAX = 900

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """Return the anchors of common renderers: lower case, hyphens for spaces, no punctuation."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in HEADING.findall(prose(page))}


@pages
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{target}: no such file"
        assert not anchor or anchor in anchors(there), f"{target}: no such heading"


def resolve(name: str) -> object:
    """Return the value of a dotted name: a module, then attributes."""
    module, *rest = name.split(".")
    value: object = import_module(module)
    for part in rest:
        module = f"{module}.{part}"
        try:
            value = getattr(value, part)
        except AttributeError:
            names = (
                {field.name for field in attrs.fields(value)} if isinstance(value, type) and attrs.has(value) else {}
            )
            if part in names or part in getattr(value, "__annotations__", {}):
                return None
            value = import_module(module)
    return value


@pytest.mark.parametrize(
    "name", ["zab.Paxos", "zab.core.paxos", "zab.core.leader_election.Election.bribe", "zab.core.zxid.Zxid.x"]
)
def test_a_name_that_is_not_there_is_noticed(name: str) -> None:
    with pytest.raises((AttributeError, ImportError)):
        resolve(name)


def named(page: Path) -> Iterator[str]:
    for code in INLINE.findall(prose(page)):
        yield code.strip()


@pages
def test_names_in_backticks_exist(page: Path) -> None:
    for code in named(page):
        dotted = re.fullmatch(rf"((?:{PACKAGES})(?:\.\w+)+)(?:\(.*\))?", code)
        if dotted and not (ROOT / code).exists() and code not in KEYS:  # some of Kafka's keys begin like a package
            try:
                resolve(dotted[1])
            except (AttributeError, ImportError) as error:
                pytest.fail(f"`{code}`: {error}")


@pages
def test_paths_in_backticks_exist(page: Path) -> None:
    for code in named(page):
        path = re.fullmatch(rf"(?:{PACKAGES}|tests|docs|scripts|\.ci)(?:/[\w.-]+)+/?", code)
        if path or code in ("pyproject.toml", "Makefile", "LICENSE"):
            assert (ROOT / code).exists(), f"`{code}` is not there"


@pages
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = [code for code in named(page) if code.startswith("make ")]
    commands += [
        line.strip()
        for language, block in FENCE.findall(page.read_text())
        if language == "sh"
        for line in block.splitlines()
        if line.startswith("make ")
    ]
    for command in commands:
        assert command.split()[1] in targets, f"`{command}`: no such target"


def commands(page: Path) -> Iterator[tuple[str, list[str]]]:
    """The program behind every command of ours in a shell block, and its arguments."""
    for language, block in FENCE.findall(page.read_text()):
        for line in block.replace("\\\n", " ").splitlines() if language == "sh" else ():
            for each in re.split(r" (?:[|<>;]|&&) ", line.partition(" #")[0]):
                words = each.strip().removeprefix(".venv/bin/").split()
                if words[:1] in (["zab"], ["zab-broker"]):
                    yield words[0], shlex.split(each)[1:]
                elif words[:2] == ["python", "-m"] and words[2] in ("harness", "bench"):
                    yield words[2], shlex.split(each)[3:]


@cache
def help_of(program: str, *subcommand: str) -> str:
    """Return the help text, in this process: a process for each would take longer than all other tests."""
    if program == "zab":
        return CliRunner().invoke(zab_command, [*subcommand, "--help"], catch_exceptions=False).output
    return CliRunner().invoke(zab_harness, [*subcommand, "--help"], catch_exceptions=False).output


@pages
def test_commands_and_their_options_exist(page: Path) -> None:
    for program, arguments in commands(page):
        if program == "bench":
            bench_parser().parse_args(arguments)
        elif program == "zab-broker" and arguments[0] != "--help":
            check_command_line(zab_broker, arguments)
        else:
            subcommand = arguments[:1] if arguments and not arguments[0].startswith("-") else []
            if arguments[:1] in (["log"], ["snapshot"], ["migrate"]):
                subcommand = arguments[:2]
            known = help_of(program, *subcommand)
            for argument in arguments:
                if argument.startswith("--"):
                    option = argument.partition("=")[0]
                    assert re.search(rf"(?<![\w-]){option}(?![\w-])", known), f"{program} {subcommand} has no {option}"


def test_every_page_can_be_reached_from_the_index() -> None:
    reached, waiting = set(), [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        for target in LINK.findall(prose(page)):
            there = (page.parent / target.partition("#")[0]).resolve()
            if there.suffix == ".md" and there.is_file():
                waiting.append(there)
    assert set(DOCS.rglob("*.md")) <= reached


# -- completeness --------------------------------------------------------------------------------------


def test_every_error_has_its_section() -> None:
    public = {value for name in zab.__all__ if isinstance(value := getattr(zab, name), type)}
    defined = {value for value in vars(errors).values() if isinstance(value, type)}
    wanted = {value.__name__ for value in public | defined if issubclass(value, Exception)}
    assert wanted == set(re.findall(r"^## (\w+)$", (DOCS / "errors.md").read_text(), re.MULTILINE))


def test_the_tree_of_errors_is_the_real_one() -> None:
    """Each error is indented below its base class."""
    (tree,) = [block for _, block in FENCE.findall((DOCS / "errors.md").read_text()) if block.startswith("ZabError")]
    above: list[str] = []
    for line in tree.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        name = line.split()[0]
        above[depth:] = [name]
        value = getattr(zab, name, None) or getattr(errors, name)
        assert isinstance(value, type)
        assert value.__mro__[1].__name__ == (above[depth - 1] if depth else "Exception")


@pytest.mark.parametrize("settings", [zab.Settings, zab.Limits])
def test_every_setting_is_explained(settings: type[attrs.AttrsInstance]) -> None:
    explained = set(re.findall(r"`(\w+)`", (DOCS / "howto" / "tune-timeouts.md").read_text()))
    assert {field.name for field in attrs.fields(settings)} <= explained


def test_every_operation_of_a_session_is_explained() -> None:
    page = (DOCS / "reference" / "session.md").read_text()
    explained = set(re.findall(r"`(\w+)\b", page)) | set(re.findall(r"`\w+`, `(\w+)\(", page))
    operations = {name for name in vars(zab.Session) if not name.startswith("_")}
    assert len(operations) > 25
    settings = {field.name for field in attrs.fields(zab.ClientSettings)}
    assert operations | settings | set(zab.Event.__members__) | set(zab.SessionState.__members__) <= explained


# -- examples ------------------------------------------------------------------------------------------


def script_of(text: str) -> str:
    """Return all Python blocks of a page on their own lines, so that a traceback points into the page."""
    lines = [""] * (text.count("\n") + 1)
    for match in FENCE.finditer(text):
        if match[1] != "python" or NOT_RUN.match(match[2]):
            continue
        first = text.count("\n", 0, match.start(2))
        block = match[2].splitlines()
        lines[first : first + len(block)] = block
    return "\n".join(lines)


def on_free_ports(script: str) -> str:
    """The ports that an example names may be taken on this machine, be it by another run of this test."""
    named = sorted({port for pair in re.findall(r":(\d{4}):(\d{4})\b", script) for port in pair})
    free = dict(zip(named, map(str, free_ports(len(named))), strict=True))
    return re.sub(r":(\d{4}):(\d{4})\b", lambda match: f":{free[match[1]]}:{free[match[2]]}", script)


def prepare(text: str, folder: Path) -> None:
    """Shell blocks of nothing but openssl make the certificates that the examples of their page use."""
    blocks = [block for language, block in FENCE.findall(text) if language == "sh"]
    for block in blocks:
        if all(line.startswith("openssl ") for line in block.splitlines()):
            if shutil.which("openssl") is None:
                pytest.skip("openssl is not installed: apt install openssl")
            subprocess.run(["sh", "-ec", block], cwd=folder, capture_output=True, check=True)


def run(script: str, name: str, folder: Path) -> None:
    file = folder / f"{name}.py"
    file.write_text(on_free_ports(script))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = forkserver.run(
        ["-W", "error", str(file)],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=EXAMPLE_SECONDS_MAX,
    )  # fmt: skip
    assert done.returncode == 0, f"the examples of {name} failed:\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if script_of(page.read_text()).strip()],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_examples_run(page: Path, tmp_path: Path) -> None:
    text = page.read_text()
    prepare(text, tmp_path)
    run(script_of(text), page.stem, tmp_path)


def harness_lines(page: Path) -> list[str]:
    found = FENCE.findall(page.read_text())
    blocks = [block for language, block in found if language == "sh" and not NOT_RUN.match(block)]
    lines = [line.removeprefix(".venv/bin/") for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("zab-harness ")]


def harness_examples() -> dict[Path, list[str]]:
    """Return the commands of each page, without those of an earlier page."""
    known: set[str] = set()
    found: dict[Path, list[str]] = {}
    for page in PAGES:
        lines = {line.partition(" #")[0].strip(): line for line in harness_lines(page)}
        if new := [line for command, line in lines.items() if command not in known]:
            found[page] = new
        known |= lines.keys()
    return found


HARNESS_EXAMPLES: Final = harness_examples()


@pytest.mark.parametrize("page", HARNESS_EXAMPLES, ids=lambda page: str(page.relative_to(ROOT)))
def test_harness_examples_run(page: Path, tmp_path: Path) -> None:
    """Run commands in order in one folder. The exit status must be 0, or N of a comment `exit status N`."""
    (tmp_path / "docs").symlink_to(DOCS)
    for line in HARNESS_EXAMPLES[page]:
        command, _, comment = line.partition(" #")
        done = forkserver.run(
            ["-m", "harness", *command.split()[1:]],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=EXAMPLE_SECONDS_MAX,
            check=False,
        )
        wanted = re.search(r"exit status (\d)", comment)
        assert done.returncode == (int(wanted[1]) if wanted else 0), f"{line}:\n{done.stdout}\n{done.stderr}"


def test_the_examples_in_the_docstring_run(tmp_path: Path) -> None:
    assert zab.__doc__ is not None
    store, member = re.findall(r"\n\n((?:    .*\n|\n)+)", zab.__doc__)
    for name, example in (("store", store), ("member", member)):
        assert f"zab.open_{name}(" in example
        run(f"import trio\nimport zab\n\n{dedent(example)}", f"docstring_{name}", tmp_path)


def test_imports_raise_no_warning(tmp_path: Path) -> None:
    """The other examples find these modules imported."""
    names = ["zab", "zab.recipes", "zab.testing", "kraft_controller", "replica", "replica.testing", "harness"]
    command = [sys.executable, "-W", "error", "-c", "".join(f"import {name}\n" for name in names)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_failing_example_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run(script_of("Words.\n\n```python\n1 / 0\n```\n"), "page", tmp_path)
    run(script_of("```python\n# Not run by the tests: needs a second planet\n1 / 0\n```\n"), "page", tmp_path)


def test_every_setting_of_a_store_stands_in_the_reference_with_its_default() -> None:
    page = (DOCS / "reference" / "open-store.md").read_text()
    for kind in (zab.StoreSettings, zab.ClientPortSettings):
        for setting in attrs.fields(kind):
            row = next((line for line in page.splitlines() if line.startswith(f"| `{setting.name}` |")), None)
            assert row is not None, f"{kind.__name__}.{setting.name} is not told"
            if isinstance(setting.default, int | str | None):
                shown = f"{setting.default:,}" if type(setting.default) is int else str(setting.default)
                assert row.split("|")[2].strip(" `") == shown
