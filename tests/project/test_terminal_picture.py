"""The picture of a terminal in the README shows the commands of its script, and every reader can read it."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    loader = SourceFileLoader("terminal_picture", str(ROOT / "scripts" / "terminal_picture"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def picture() -> ET.Element:
    return ET.parse(ROOT / "docs" / "pictures" / "terminal.svg").getroot()


def lines(picture: ET.Element) -> list[str]:
    return ["".join(line.itertext()) for line in picture.iter(f"{SVG}text")]


def test_picture_shows_the_commands_of_the_script(script: ModuleType, picture: ET.Element) -> None:
    commands = [line.removeprefix("$ ") for line in lines(picture) if line.startswith("$ ")]
    assert commands == [step.command for step in (script.START, *script.STEPS)], "run scripts/terminal_picture"


def test_picture_has_title_description_and_dark_colors(picture: ET.Element) -> None:
    names = picture.attrib["aria-labelledby"].split()
    assert [child.attrib.get("id") for child in picture][:2] == names
    assert all(child.text for child in picture.iterfind("*[@id]"))
    (style,) = picture.iter(f"{SVG}style")
    assert "prefers-color-scheme: dark" in (style.text or "")


def test_colors_and_gaps_split_a_line(script: ModuleType) -> None:
    assert script.spans("\x1b[1;32mup\x1b[0m  a b  <c>") == [
        ("bold green", "up"),
        ("", "  "),
        ("", "a b  "),
        ("", "<c>"),
    ]


def test_a_line_wider_than_the_picture_is_refused(script: ModuleType) -> None:
    with pytest.raises(AssertionError, match="a line of 105 characters"):
        script.draw([[("", "x" * 105)]])
