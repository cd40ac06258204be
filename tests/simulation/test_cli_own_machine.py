"""The commands with a user's own machine, `module:Class`, from a package outside of this tree."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness.run.regressions import loads
from tests import forkserver

BANK = '''
from collections.abc import Iterable
from random import Random

import harness
import zab


class Bank(zab.Passive):
    def __init__(self) -> None:
        self.accounts: dict[str, int] = {}

    def apply(self, zxid: zab.Zxid, txn: bytes) -> int:
        who, amount = txn.decode().split()
        self.accounts[who] = self.accounts.get(who, 0) + int(amount)
        return self.accounts[who]

    def snapshot(self) -> Iterable[bytes]:
        return [f"{who} {have}".encode() for who, have in self.accounts.items()]

    def restore(self, chunks: Iterable[bytes]) -> None:
        pairs = [chunk.decode().split() for chunk in chunks]
        self.accounts = {who: int(have) for who, have in pairs}


class Strict:
    """The model: an account is never overdrawn. The machine above allows it."""

    def initial(self) -> dict[str, int]:
        return {}

    def step(self, state: dict[str, int], request: bytes) -> tuple[dict[str, int], int]:
        who, amount = request.decode().split()
        have = max(0, state.get(who, 0) + int(amount))
        return {**state, who: have}, have


class Right(Bank):
    def apply(self, zxid: zab.Zxid, txn: bytes) -> int:
        who, amount = txn.decode().split()
        self.accounts[who] = max(0, self.accounts.get(who, 0) + int(amount))
        return self.accounts[who]


class Sized(Bank):
    def __init__(self, size: int) -> None:
        super().__init__()


class Half:
    def apply(self, zxid: zab.Zxid, txn: bytes) -> None: ...
    def snapshot(self) -> Iterable[bytes]: ...


class Named(Right):
    model = Strict()

    @staticmethod
    def requests(random: Random) -> bytes:
        return random.choice([b"eve 1", b"eve -5"])

    def state(self) -> object:
        raise AssertionError("a method of this name means something else")


def requests(random: Random) -> bytes:
    return f"{random.choice(['ann', 'bob'])} {random.randint(-5, 9)}".encode()


harness.campaign(Bank, model=Strict, requests=requests).check()
'''
ALONE = """
from bank_app.accounts.{module} import Bank as _Bank


class Alone(_Bank):
    pass
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A working directory with a package, whose file runs a campaign of its own when it is imported."""
    package = tmp_path / "bank_app" / "accounts"
    package.mkdir(parents=True)
    (tmp_path / "bank_app" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "bank.py").write_text(BANK)
    (package / "plain.py").write_text(BANK.rpartition("harness.campaign")[0])
    (package / "alone.py").write_text(ALONE.format(module="plain"))
    (package / "nested.py").write_text(ALONE.format(module="bank"))
    (package / "broken.py").write_text("import no_such_library\n")
    return tmp_path


def command(app: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    code = "import sys; sys.path.remove(''); from harness.cli import main; sys.exit(main(sys.argv[1:]))"
    return forkserver.run(["-c", code, *arguments], cwd=app, env=env, capture_output=True, text=True)


MACHINE = ("--machine", "bank_app.accounts.bank:Bank")
SMALL = ("--ops", "10", "--faults", "3", "--length-ms", "600")


def test_fuzz_keeps_a_failure_that_replay_show_and_shrink_find_again(app: Path) -> None:
    ran = command(
        app, "fuzz", *MACHINE, "--runs", "3", "--jobs", "2", "--keep", "kept", "--diagram", "run.html", *SMALL
    )
    assert ran.returncode == 1, ran.stderr
    assert "History: time in ms, process, event." in ran.stdout
    assert "--world stack" in ran.stdout
    assert "--machine bank_app.accounts.bank:Bank" in ran.stdout
    assert "zab-harness replay --script kept/" in ran.stdout
    assert "results match the model" in (app / "run.html").read_text()
    kept = next((app / "kept").iterdir())
    assert loads(kept.read_text()).script.machine == MACHINE[1]
    replayed = command(app, "replay", "--script", str(kept))
    assert replayed.returncode == 1
    assert "VIOLATED" in replayed.stdout
    assert "client " in replayed.stdout
    shown = command(app, "show", "--script", str(kept), "--output", "shown.html")
    assert shown.returncode == 1
    assert "client 1" in (app / "shown.html").read_text()
    shrunk = command(app, "shrink", "--script", str(kept), "--seconds", "20", "--output", "small.json", "--trace", "0")
    assert shrunk.returncode == 1, shrunk.stderr
    assert command(app, "replay", "--script", "small.json").returncode == 1
    code = (
        "import harness; from bank_app.accounts.plain import Bank, Right\n"
        f"print(harness.replay(Bank, {str(kept)!r}))\nharness.replay(Right, {str(kept)!r}).check()"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    ran = forkserver.run(["-c", code], cwd=app, env=env, capture_output=True, text=True, check=True)
    assert f"zab-harness replay --script {kept}" in ran.stdout


def test_printed_line_of_a_run_replays_it(app: Path) -> None:
    ran = command(app, "fuzz", *MACHINE, "--runs", "5", "--jobs", "1", "--no-shrink", *SMALL)
    line = next(line.strip() for line in ran.stdout.splitlines() if line.startswith("  zab-harness replay"))
    again = command(app, *line.split()[1:])
    assert again.returncode == 1
    assert "VIOLATED" in again.stdout


@pytest.mark.parametrize("name", ["Right", "Named"])
def test_right_machine_holds(name: str, app: Path) -> None:
    ran = command(app, "fuzz", "--machine", f"bank_app.accounts.bank:{name}", "--runs", "2", "--jobs", "1", *SMALL)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_campaign_with_output_keeps_rows_and_shrinks_from_them(app: Path) -> None:
    pytest.importorskip("pyarrow")
    ran = command(app, "fuzz", *MACHINE, "--runs", "2", "--jobs", "1", "--output", "found", "--master", "none", *SMALL)
    assert ran.returncode == 1, ran.stderr
    assert "the first failure, shrunk" in ran.stdout
    assert "--machine bank_app.accounts.bank:Bank" in ran.stdout


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        ("bank_app.accounts.bnk:Bank", "near it: bank_app.accounts.bank"),
        ("bank_ap.accounts:Bank", "No module named 'bank_ap'"),
        ("bank_app.accounts.bank:Bnk", "has no Bnk above the campaign that runs when it is imported; near it: Bank"),
        ("bank_app.accounts.bank:Half", "Half is no machine: it has no prepare, restore"),
        ("bank_app.accounts.bank:Strict", "Strict is no machine: it has no prepare, apply, snapshot, restore"),
        ("bank_app.accounts.bank:Sized", "missing 1 required positional argument: 'size'"),
        ("bank_app.accounts.bank:BANK.f.<locals>.Bank", "use harness.replay in Python"),
        ("bank_app.accounts.alone:Alone", "its module has no class with initial and step. Write `model = ...`"),
        ("bank_app.accounts.nested:Alone", "has no Alone above the campaign that runs when it is imported"),
        ("bank_app.accounts.broken:Bank", "cannot be imported: ModuleNotFoundError"),
        ("bank_app.accounts.bank:", "expected module:Class, such as examples.bank:Bank"),
        ("Bank", "there is no 'Bank'; there are list, store, controller, partitions, and your own as module:Class"),
    ],
)
def test_name_that_leads_to_no_machine_is_refused(machine: str, said: str, app: Path) -> None:
    ran = command(app, "fuzz", "--machine", machine, "--runs", "1", "--jobs", "1")
    assert ran.returncode == 2
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr
    if "No module" in ran.stderr and "cannot be imported" not in ran.stderr:
        assert f"sys.path, which begins with {str(app)!r}" in ran.stderr


def test_other_worlds_refuse_a_users_machine(app: Path) -> None:
    ran = command(app, "run", "--seed", "1", "--world", "cores", *MACHINE)
    assert ran.returncode == 2
    assert "your own machine runs in the world stack" in ran.stderr


def test_help_shows_an_example(app: Path) -> None:
    assert "examples.bank:Bank" in command(app, "fuzz", "--help").stdout
    assert "--machine examples.bank:Bank" in command(app, "--help").stdout
