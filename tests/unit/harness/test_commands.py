"""What a command says that cannot begin."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from harness.cli import main


def lacks(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def imported(name: str) -> object:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr("zab.cli.kit.program.import_module", imported)


@pytest.mark.parametrize(
    ("missing", "extra"),
    [
        ("pyarrow.parquet", "spark"),
        ("pyspark.sql", "spark"),
        ("hypothesis", "harness"),
        ("google_crc32c", "harness,broker"),
    ],
)
def test_missing_package_is_named_with_its_extra(
    missing: str, extra: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lacks(missing, monkeypatch)
    assert main(["analyze", "nowhere"]) == 2
    said = capsys.readouterr().err
    assert f"zab-harness analyze: this needs {missing}, which is not installed" in said
    assert f"pip install '.[{extra}]'" in said


def test_a_module_of_its_own_that_is_not_there_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    lacks("harness.cli.stored", monkeypatch)
    with pytest.raises(ModuleNotFoundError):
        main(["analyze", "nowhere"])


OF_SPARK = {"matplotlib", "pandas", "py4j", "pyarrow", "pyspark"}


def test_spark_is_an_extra_of_its_own() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    extras = {name: " ".join(needs) for name, needs in project["optional-dependencies"].items()}
    assert {name for name, needs in extras.items() if "pyspark" in needs} == {"spark"}
    assert all(package in extras["spark"] for package in OF_SPARK)
    assert not any(package in extras["harness"] for package in OF_SPARK)
