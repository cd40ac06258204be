"""Each planted bug fits the present code, and the page of planted bugs names all that there are, and no others."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from harness.mutants.edit import planted
from harness.mutants.hunt import examined, hunt, table, write
from harness.mutants.table import BY_NAME, IMPOSSIBLE
from tests.checker_mutation.cases import TARGETS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "mutants.md"


def test_the_page_has_a_row_for_each() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| (.+?) \|", PAGE.read_text(), re.MULTILINE)
    bugs = {name: mutant.bug for name, mutant in BY_NAME.items()}
    assert dict(rows) == bugs | IMPOSSIBLE
    assert len(rows) == len(BY_NAME) + len(IMPOSSIBLE)


@pytest.mark.parametrize("name", BY_NAME)
def test_bug_can_be_planted_in_the_present_code(name: str) -> None:
    with planted(BY_NAME[name].edits):
        pass


def test_the_page_has_a_row_for_each_group_of_checkers() -> None:
    rows = re.findall(r"^\| (\w+) \| \d+ \| \d+ \| \d+ \| ([\d.]+)% \| \d+ \|$", PAGE.read_text(), re.MULTILINE)
    assert [name for name, _ in rows] == list(TARGETS)
    assert all(float(share) >= 95 for _, share in rows)


def test_mutants_table_describes_each_bug(tmp_path: Path) -> None:
    found = examined(hunt(BY_NAME["multi-half-applied"], runs_max=40), shrink_runs=30)
    missed = hunt(BY_NAME["M20"], runs_max=1)
    assert found.invariant == "a multi is atomic"
    assert found.shrunk is not None
    assert found.script is not None
    assert len(found.shrunk.ops) < len(found.script.ops)
    write(tmp_path, [found, missed])
    assert {path.name for path in tmp_path.iterdir()} == {"mutants.json", "mutants.md", "multi-half-applied.txt"}
    stored = json.loads((tmp_path / "mutants.json").read_text())
    assert [each["invariant"] for each in stored] == [found.invariant, None]
    assert "**not noticed**" in table([missed])


def test_hunt_lists_other_checkers() -> None:
    found = examined(hunt(BY_NAME["M04"], runs_max=40), shrink_runs=0)
    assert found.others
    assert found.invariant not in found.others
