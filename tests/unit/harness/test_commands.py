"""What a command says that cannot begin."""

from __future__ import annotations

import pytest

from harness.cli import main


def lacks(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def imported(name: str) -> object:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr("harness.cli.import_module", imported)


@pytest.mark.parametrize(("missing", "extra"), [("pyarrow.parquet", "harness"), ("google_crc32c", "harness,broker")])
def test_what_is_not_installed_is_named_and_where_to_get_it(
    missing: str, extra: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lacks(missing, monkeypatch)
    assert main(["analyze", "nowhere"]) == 2
    said = capsys.readouterr().err
    assert f"zab-harness analyze: this needs {missing}, which is not installed" in said
    assert f"pip install '.[{extra}]'" in said


def test_a_module_of_its_own_that_is_not_there_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    lacks("harness.cli.analyze", monkeypatch)
    with pytest.raises(ModuleNotFoundError):
        main(["analyze", "nowhere"])
