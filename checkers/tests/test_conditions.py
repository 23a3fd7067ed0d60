"""What is decided has its place in checkers/CONDITIONS.md, and what docstrings cite of that page is there."""

import re
from pathlib import Path

import pytest

from checkers.models.all_models import MODELS
from checkers.properties.all_properties import PROPERTIES

ROOT = Path(__file__).parents[2]
ROOMS = ("checkers", "infra", "results", "suites")
PAGE = (ROOT / "checkers/CONDITIONS.md").read_text()
TITLES = {int(number): title for number, title in re.findall(r"^## (\d+)\. (.*)", PAGE, re.MULTILINE)}
CITED = r"sections?\s+(\d+(?:(?:,| and| to)\s+\d+)*)"


def sections(text: str, pattern: str = CITED) -> set[int]:
    """The numbers of the sections that a text cites."""
    return {int(number) for numbers in re.findall(pattern, text) for number in re.findall(r"\d+", numbers)}


@pytest.mark.parametrize("name", sorted({*PROPERTIES, *MODELS}))
def test_every_property_and_model_has_its_section(name: str) -> None:
    assert any(f"`{name}`" in title for title in TITLES.values())


def test_every_section_that_is_cited_exists() -> None:
    assert list(TITLES) == list(range(1, len(TITLES) + 1))
    assert sections(PAGE) <= TITLES.keys()
    citing = 0
    for file in (file for room in ROOMS for file in (ROOT / room).rglob("*.py") if "tests" not in file.parts):
        text = file.read_text()
        citations = re.findall(rf"CONDITIONS\.md,\s+{CITED}", text)
        assert len(citations) == text.count("CONDITIONS.md"), f"{file} cites no section"
        assert sections(text, rf"CONDITIONS\.md,\s+{CITED}") <= TITLES.keys(), file
        citing += bool(citations)
    assert citing > 20


def test_every_file_that_is_named_exists() -> None:
    files = {file.relative_to(ROOT / "checkers").as_posix() for file in (ROOT / "checkers").rglob("*.py")}
    names = set(re.findall(r"`([a-z_/]+\.py)`", PAGE))
    assert {name for name in names if not any(f"/{file}".endswith(f"/{name}") for file in files)} == set()


def test_a_citation_is_read() -> None:
    text = "checkers/CONDITIONS.md, sections 17 and 18. 3 of them; checkers/CONDITIONS.md,\n    section 9, rule 4"
    assert sections(text, rf"CONDITIONS\.md,\s+{CITED}") == {9, 17, 18}
