"""Commands that need no ensemble."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from zab.cli.dev import Layout, layout_of
from zab.cli.reference import PAGES
from zab.cli.root import zab


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(zab, list(words), catch_exceptions=False)
    return result.exit_code, result.output


# -- the commands -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [(), ("serve",), ("dev",), ("import",), ("log", "dump"), ("snapshot", "dump")])
def test_help_has_a_summary_and_examples(command: tuple[str, ...]) -> None:
    status, output = run(*command, "--help")
    assert status == 0
    assert len(output.splitlines()) > 10


def test_every_command_is_listed_with_a_summary() -> None:
    _, output = run("--help")
    listed = dict(re.findall(r"^  (\w+)  +(\w.*)$", output, re.MULTILINE))
    assert {"serve", "dev", "log", "snapshot", "import", "export"} <= set(listed)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("dev", "--servers", "0"), "--servers"),
        (("dev", "--port-base", "80"), "--port-base"),
    ],
)
def test_misuse_is_status_2_and_names_the_expected_arguments(words: tuple[str, ...], says: str) -> None:
    status, output = run(*words)
    assert status == 2
    assert says in output


# -- the layout of a development ensemble ---------------------------------------------------------------------


def test_the_customary_ports() -> None:
    lines = Layout(3, 2181).ensemble().text().splitlines()
    assert lines[0] == "server.1=127.0.0.1:2888:3888:participant;127.0.0.1:2181"
    assert lines[2] == "server.3=127.0.0.1:2890:3890:participant;127.0.0.1:2183"


def test_data_directory_keeps_its_kind(tmp_path: Path) -> None:
    assert layout_of(tmp_path, None, None) == Layout(3, 2181)
    (tmp_path / "dev.json").unlink()
    assert layout_of(tmp_path, 5, 4000) == Layout(5, 4000)
    assert layout_of(tmp_path, None, None) == Layout(5, 4000)
    assert layout_of(tmp_path, 5, None) == Layout(5, 4000)
    assert json.loads((tmp_path / "dev.json").read_text()) == {"holds": "store", "servers": 5, "port_base": 4000}


@pytest.mark.parametrize(("words", "says"), [(("--servers", "3"), "--servers 5"), (("--port-base", "2181"), "4000")])
def test_other_wishes_than_the_data_has_are_refused(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    layout_of(tmp_path, 5, 4000)
    status, output = run("dev", "--data", str(tmp_path), *words)
    assert status == 2
    assert says in output
    assert len(output.splitlines()) == 1


@pytest.mark.parametrize(
    "kept",
    ["", "{", "[]", '{"holds": "store", "servers": 0, "port_base": 2181}',
     '{"holds": "store", "servers": "3", "port_base": 2181}', '{"holds": "store", "servers": 3}'],
)  # fmt: skip
def test_empty_layout_is_one_line_and_status_2(tmp_path: Path, kept: str) -> None:
    (tmp_path / "dev.json").write_text(kept)
    status, output = run("dev", "--data", str(tmp_path))
    assert status == 2
    assert output.startswith(f"Error: {tmp_path}/dev.json does not say which servers")
    assert len(output.splitlines()) == 1


def test_data_of_another_machine_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text('{"servers": 3, "port_base": 2181}')
    status, output = run("dev", "--data", str(tmp_path))
    assert (status, len(output.splitlines())) == (2, 1)
    assert f"remove {tmp_path}" in output


def test_data_that_is_no_directory_is_one_line_and_status_2(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for data in (tmp_path / "file", tmp_path / "file" / "below"):
        status, output = run("dev", "--data", str(data))
        assert status == 2
        assert output.startswith(f"Error: --data {data}: ")
        assert len(output.splitlines()) == 1


@pytest.mark.parametrize("path", PAGES)
def test_reference_page_is_current(path: str) -> None:
    """`python -m zab.cli.reference` writes the pages anew."""
    assert (Path(__file__).resolve().parents[3] / path).read_text() == PAGES[path]()
