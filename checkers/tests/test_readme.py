"""What checkers/README.md shows is what happens."""

import re
from pathlib import Path

import pytest

from checkers import __main__ as command
from checkers.models.all_models import MODELS

README = (Path(__file__).parents[1] / "README.md").read_text()


def block(language: str, containing: str) -> str:
    """The code block of that language in which something stands."""
    found = re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    (one,) = (text for text in found if containing in text)
    return str(one)


@pytest.mark.parametrize(
    ("name", "language", "containing"), [("register.edn", "clojure", ":cas"), ("store.jsonl", "json", '"token": 7')]
)
def test_examples(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    language: str,
    containing: str,
) -> None:
    (tmp_path / name).write_text(block(language, containing))
    monkeypatch.chdir(tmp_path)
    call, *expected = block("console", f"$ python -m checkers {name}").splitlines()
    assert command.main(call.split()[4:]) == 1
    assert capsys.readouterr().out.splitlines() == expected


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


def test_as_a_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "register.edn").write_text(block("clojure", ":cas"))
    monkeypatch.chdir(tmp_path)
    exec(block("python", "load_with_defaults"), {})
    assert capsys.readouterr().out.startswith("False\n")


def test_every_model_and_option_is_told() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|", README.split("## Models")[1].split("###")[0], re.MULTILINE)
    assert rows == list(MODELS)
    usage = README.split("## The command")[1]
    parser = command._parser()
    for action in parser._actions:
        for option in action.option_strings:
            assert option in usage or option in ("-h", "--help")
