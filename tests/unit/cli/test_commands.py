"""What a person can type, as far as it needs no ensemble."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from zab.cli.client import shown
from zab.cli.commands import zab
from zab.cli.dev import Layout, layout_of
from zab.cli.kv import KeyValue
from zab.cli.page import PAGE, page
from zab.core.zxid import Epoch, make
from zab.runtime.errors import Refused
from zab.runtime.machine import View

VIEW = View(make(1, 1), Epoch(1), 0, ())


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(zab, list(words), catch_exceptions=False)
    return result.exit_code, result.output


# -- the commands -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", [(), ("serve",), ("dev",), ("import",), ("log", "dump"), ("snapshot", "dump"), ("member",), ("kv",)]
)
def test_help_tells_what_it_is_and_has_examples(command: tuple[str, ...]) -> None:
    status, output = run(*command, "--help")
    assert status == 0
    assert len(output.splitlines()) > 10


def test_every_command_is_listed_with_a_word_on_what_it_does() -> None:
    _, output = run("--help")
    listed = dict(re.findall(r"^  (\w+)  +(\w.*)$", output, re.MULTILINE))
    assert {"serve", "dev", "log", "snapshot", "import", "export", "member", "kv"} <= set(listed)


def test_asking_for_one_command_does_not_load_the_others() -> None:
    code = (
        "import sys, zab.cli.commands as c; c.zab.main(['log', '--help'], standalone_mode=False); "
        "print([name for name in sys.modules if name in ('zab.cli.serve', 'zab.cli.dev', 'rich')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("dev", "--servers", "0"), "--servers"),
        (("dev", "--port-base", "80"), "--port-base"),
        (("member", "--id", "1", "--data", "x", "--ensemble", "nonsense"), "nonsense"),
        (("member", "--id", "1", "--data", "x"), "--ensemble"),
        (("member", "--id", "1", "--data", "x", "--ensemble", "server.1=a:1:2:observer"), "no participant"),
        (("member", "--id", "1", "--data", "x", "--ensemble", "server.1=a:1:2,server.2=a:1:3"), "both claim a:1"),
        (("kv", "--timeout-s", "-1", "status"), "--timeout-s"),
        (("kv", "set", "/a", "b\nset /c d"), "newline"),
        (("kv",), "COMMAND"),
        (("kv", "--server", "nowhere", "get", "/a"), "a server looks like 127.0.0.1:2181"),
        (("kv", "--server", "a:1", "--server", "b:2", "get", "/a"), "only `status` asks more than one server"),
    ],
)
def test_misuse_is_status_2_and_says_what_was_expected(words: tuple[str, ...], says: str) -> None:
    status, output = run(*words)
    assert status == 2
    assert says in output


def test_tls_files_belong_together(tmp_path: Path) -> None:
    pem = tmp_path / "cert.pem"
    pem.touch()
    ensemble = "server.1=127.0.0.1:1:2"
    status, output = run("member", "--id", "1", "--data", "x", "--ensemble", ensemble, "--tls-cert", str(pem))
    assert status == 2
    assert "belong together" in output


def test_nobody_there_is_status_1_and_one_line() -> None:
    status, output = run("kv", "--server", "127.0.0.1:1", "get", "/a")
    assert status == 1
    assert output.startswith("Error: cannot reach 127.0.0.1:1")
    assert len(output.splitlines()) == 1


def test_a_server_that_is_none_of_the_ensemble_is_told(tmp_path: Path) -> None:
    status, output = run("member", "--id", "2", "--data", str(tmp_path), "--ensemble", "server.1=127.0.0.1:1:2")
    assert status == 1
    assert "server 2 is none of the ensemble's, [1]" in output


def test_values_are_shown_for_people() -> None:
    assert [shown(value) for value in (True, [1, 2, 3], "2/1", 7)] == ["true", "1,2,3", "2/1", "7"]


# -- the layout of a development ensemble ---------------------------------------------------------------------


def test_the_customary_ports() -> None:
    lines = Layout(3, 2181).ensemble().text().splitlines()
    assert lines[0] == "server.1=127.0.0.1:2888:3888:participant;127.0.0.1:2181"
    assert lines[2] == "server.3=127.0.0.1:2890:3890:participant;127.0.0.1:2183"


def test_data_keeps_what_it_was_made_for(tmp_path: Path) -> None:
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
def test_a_layout_that_says_nothing_is_one_line_and_status_2(tmp_path: Path, kept: str) -> None:
    (tmp_path / "dev.json").write_text(kept)
    status, output = run("dev", "--data", str(tmp_path))
    assert status == 2
    assert output.startswith(f"Error: {tmp_path}/dev.json does not say")
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


# -- the machine --------------------------------------------------------------------------------------------


def test_the_machine_sets_adds_and_deletes() -> None:
    machine = KeyValue()
    replies = [
        machine.apply(make(1, number), machine.prepare(line, VIEW))
        for number, line in enumerate([b"set /a some words", b"add /n 5", b"add /n -7", b"add /a 1", b"delete /n"], 1)
    ]
    assert replies == ["zxid=1/1", "5 zxid=1/2", "-2 zxid=1/3", "1 zxid=1/4", "zxid=1/5"]
    assert machine.items == {"/a": "1"}


@pytest.mark.parametrize("line", [b"set", b"set /a", b"add /a", b"add /a x", b"delete", b"delete /a b", b"get /a", b""])
def test_what_makes_no_sense_is_refused(line: bytes) -> None:
    with pytest.raises(Refused):
        KeyValue().prepare(line, VIEW)


def test_a_snapshot_holds_it_all_and_does_not_change_with_the_machine() -> None:
    machine, other = KeyValue(), KeyValue()
    for number in range(2500):
        machine.apply(make(1, number + 1), b"set /%d %d" % (number, number))
    chunks = machine.snapshot()
    before = dict(machine.items)
    machine.apply(make(1, 9999), b"set /0 changed")
    other.restore(chunks)
    assert other.items == before


def test_the_reference_page_is_current() -> None:
    """To write it anew: python -m zab.cli.page"""
    assert (Path(__file__).resolve().parents[3] / PAGE).read_text() == page(zab)
