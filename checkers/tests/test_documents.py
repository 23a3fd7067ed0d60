"""checkers/README.md and checkers/CONDITIONS.md say what happens, and have the sections that docstrings cite."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from checkers import __main__ as command
from checkers.models.all_models import MODELS
from checkers.properties.all_properties import PROPERTIES
from checkers.tests.build import cases

README = (Path(__file__).parents[1] / "README.md").read_text()


def block(language: str, containing: str) -> str:
    """The code block of `language` that contains `containing`."""
    blocks: list[str] = re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    return next(text for text in blocks if containing in text)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@cases("name, language, containing", ("register.edn", "clojure", ":cas"), ("store.jsonl", "json", '"token": 7'))
def test_examples(folder: Path, capsys: pytest.CaptureFixture[str], name: str, language: str, containing: str) -> None:
    (folder / name).write_text(block(language, containing))
    call, *expected = block("console", f"$ python -m checkers {name}").splitlines()
    assert (command.main(call.split()[4:]), capsys.readouterr().out.splitlines()) == (1, expected)


def test_a_model_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bounded.py").write_text(block("python", "class Bounded"))
    line = '{{"process": 0, "type": "{}", "f": "{}", "value": {}}}\n'
    adds = "".join(line.format(kind, "add", 4) for _ in range(3) for kind in ("invoke", "ok"))
    (tmp_path / "history").write_text(adds)
    assert command.main([str(tmp_path / "history"), "--model", f"{tmp_path / 'bounded.py'}:Bounded"]) == 1
    two = adds[: len(adds) * 2 // 3] + line.format("invoke", "read", "null") + line.format("ok", "read", 8)
    (tmp_path / "history").write_text(two)
    assert command.main([str(tmp_path / "history"), "--model", f"{tmp_path / 'bounded.py'}:Bounded"]) == 0
    assert "valid" in capsys.readouterr().out


def test_as_a_library(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "register.edn").write_text(block("clojure", ":cas"))
    exec(block("python", "load_with_defaults"), {})
    assert capsys.readouterr().out.startswith("False\n")


def test_the_readme_names_every_model_and_option() -> None:
    assert re.findall(r"^\| `([a-z-]+)` \|", README.split("## Models")[1].split("###")[0], re.MULTILINE) == list(MODELS)
    usage = README.split("## The command")[1]
    options = [spelling for param in command.judge.params for spelling in param.opts if spelling.startswith("-")]
    assert "--model" in options
    assert [option for option in options if option not in usage] == []


ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "checkers/CONDITIONS.md").read_text()
TITLES = {int(number): title for number, title in re.findall(r"^## (\d+)\. (.*)", PAGE, re.MULTILINE)}
CITED = r"sections?\s+(\d+(?:(?:,| and| to)\s+\d+)*)"


def sources() -> list[Path]:
    rooms = (ROOT / room for room in ("checkers", "infra", "results", "suites"))
    return [file for room in rooms for file in room.rglob("*.py") if "tests" not in file.parts]


def sections(text: str, pattern: str = CITED) -> set[int]:
    """The numbers of the sections that a text cites."""
    return {int(number) for numbers in re.findall(pattern, text) for number in re.findall(r"\d+", numbers)}


@pytest.mark.parametrize("name", sorted({*PROPERTIES, *MODELS}))
def test_every_property_and_model_has_its_section(name: str) -> None:
    assert any(f"`{name}`" in title for title in TITLES.values())


def test_every_section_that_is_cited_exists() -> None:
    assert list(TITLES) == list(range(1, len(TITLES) + 1))
    assert sections(PAGE) <= TITLES.keys()
    text = "checkers/CONDITIONS.md, sections 17 and 18. 3 of them; checkers/CONDITIONS.md,\n    section 9, rule 4"
    assert sections(text, rf"CONDITIONS\.md,\s+{CITED}") == {9, 17, 18}
    citing = 0
    for file in sources():
        text = file.read_text()
        citations = re.findall(rf"CONDITIONS\.md,\s+{CITED}", text)
        assert len(citations) == text.count("CONDITIONS.md"), f"{file} cites no section"
        assert sections(text, rf"CONDITIONS\.md,\s+{CITED}") <= TITLES.keys(), file
        citing += bool(citations)
    assert citing > 20


def test_no_two_classes_have_one_name_and_variables_are_named_for_what_they_hold() -> None:
    nodes = [node for file in sources() for node in ast.walk(ast.parse(file.read_text()))]
    classes = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    assert {name: times for name, times in classes.items() if times > 1} == {}
    stored = Counter(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    assert [stored[name] for name in ("one", "found", "told")] == [0, 0, 1], "a key of files is `told`"


def test_every_file_that_is_named_exists() -> None:
    files = {file.relative_to(ROOT / "checkers").as_posix() for file in (ROOT / "checkers").rglob("*.py")}
    names = set(re.findall(r"`([a-z_/]+\.py)`", PAGE))
    assert {name for name in names if not any(f"/{file}".endswith(f"/{name}") for file in files)} == set()
