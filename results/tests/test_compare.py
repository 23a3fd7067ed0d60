"""`python -m results compare`: what it prints, writes and ends with."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from checkers.claims import Verdict
from checkers.judging.judgement import Judgement
from checkers.properties.check_result import CheckResult
from checkers.tests.build import cases
from results.comparison import presentation as compared_
from results.comparison.compare import Comparison, compare
from results.comparison.presentation import Side
from results.record import TrialRecord
from results.run import Run
from results.tests import hostile
from results.tests.conftest import Results
from results.tests.markup import Page, golden
from results.tests.samples import HOSTILE, one_lane, stale_write, trial
from results.tests.trials import contents, load, slower

PROPERTIES = ("server-exclusion", "fenced-store", "fifo")
WORDS = (Verdict.UPHELD, Verdict.WEAKNESS_SHOWN, Verdict.NOT_PROMISED_HELD)


def judged(*words: Verdict, **facts: Any) -> TrialRecord:
    """One lane with these words for the first few properties."""
    told = zip(PROPERTIES, words, strict=False)
    judgements = tuple(Judgement(prop, word, f"because of {word}", CheckResult(prop, None)) for prop, word in told)
    return one_lane(stale_write(**facts), *judgements)


def stored(root: Path, *records: TrialRecord) -> str:
    run = Run.create(root, {})
    for record in records:
        run.save_trial(record)
    run.close({})
    return str(run.path)


@pytest.fixture
def upheld(tmp_path: Path) -> str:
    return stored(tmp_path, judged(*WORDS))


@cases(
    "words, status",
    ("same", WORDS, 0),
    ("violated", (Verdict.VIOLATED, *WORDS[1:]), 1),
    ("silent", (Verdict.UPHELD, Verdict.WEAKNESS_NOT_SHOWN, Verdict.NOT_PROMISED_HELD), 1),
    ("unexercised", (Verdict.NOT_STRESSED, *WORDS[1:]), 3),
)
def test_exit_status(upheld: str, words: tuple[Verdict, ...], status: int, tmp_path: Path, results: Results) -> None:
    other = stored(tmp_path, judged(*words))
    said = [results("compare", upheld, other, *form) for form in ([], ["--json"], ["--markdown"])]
    assert [told for told, *_ in said] == [status] * 3
    assert ("B is no worse than A in 3 common verdicts." in said[0][1]) == (status == 0)


def test_runs_that_cannot_be_read_are_bad_usage(upheld: str, results: Results) -> None:
    assert results("compare", upheld, "nowhere")[:2] == (2, "")
    assert results("compare", upheld)[:2] == (2, "")


def test_all_that_is_said_where_something_is_worse(
    upheld: str, tmp_path: Path, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is worse first, with both pages: in a terminal, in Markdown, as JSON, on a page that stands elsewhere."""
    monkeypatch.setenv("COLUMNS", "100")
    page = tmp_path / "deep" / "er" / "page.html"
    page.parent.mkdir(parents=True)
    violated = stored(tmp_path, judged(Verdict.VIOLATED, Verdict.WEAKNESS_SHOWN, Verdict.NOT_PROMISED_BROKEN))
    forms = ((), ("--markdown",), ("--json",), ("--html", str(page)))
    said = [results("compare", upheld, violated, *form)[1] for form in forms]
    text = "\n".join([*said[:3], Page(page.read_text("utf-8")).lines]).replace(str(tmp_path), "ROOT")
    text = text.replace(Path(upheld).name, "RUN-A").replace(Path(violated).name, "RUN-B")
    assert text == golden("compared.txt", text)


def test_what_was_aborted_is_said(upheld: str, tmp_path: Path, results: Results) -> None:
    broken = replace(trial("redis-kill-1", error="a worker hung"), lanes=())
    status, out, _ = results("compare", upheld, stored(tmp_path, judged(*WORDS), broken))
    assert status == 0
    assert "B lacks 1 trial" in out


def test_an_interrupted_run_is_compared_as_far_as_it_came(upheld: str, tmp_path: Path, results: Results) -> None:
    run = Run.create(tmp_path, {})
    run.save_trial(judged(*WORDS[:2]))
    assert "B is still going on" in results("compare", upheld, run.path)[1]
    assert run.going_on is not None
    run.going_on.close()
    status, out, _ = results("compare", upheld, run.path)
    assert status == 0
    assert "B is interrupted" in out
    assert "1 verdict is in A only" in out


def test_hostile_strings_stay_text(tmp_path: Path, results: Results) -> None:
    bad = hostile.trial()
    calm = replace(bad, lanes=tuple(replace(lane, judgements=()) for lane in bad.lanes))
    both = stored(tmp_path, calm), stored(tmp_path, bad)
    page = tmp_path / "page.html"
    _, out, _ = results("compare", *both, "--html", page)
    text = page.read_text("utf-8")
    assert "<script>pwned" not in text
    assert len(re.findall("<script", text)) == 1
    assert "<img" not in text
    assert "\ud800" not in out
    _, out, _ = results("compare", *both, "--markdown")
    assert "<script" not in out
    assert "&#60;script&#62;" in out
    assert not re.search(r"(?<!\\)[|\n]\s*<(?!code>)", out)
    assert json.loads(results("compare", *both, "--json")[1])["changes"][0]["lane"] == hostile.attack("lane")


@pytest.fixture(scope="module")
def slow() -> tuple[Comparison, Side, Side]:
    """A real run, and another of which one lock is three times slower."""
    first, second = ([one for one in load() if one.run == run] for run in (0, 1))
    runs = contents(first), contents(slower(one, 3, lock="redis") for one in second)
    before, after = (Side(HOSTILE, Path("nowhere"), run, (("redis", "8.0"),), "closed") for run in runs)
    return compare(before.contents, after.contents), before, after


@pytest.mark.parametrize("width", [40, 80, 160])
def test_what_is_slower_is_told_at_any_width(slow: tuple[Comparison, Side, Side], width: int) -> None:
    out = io.StringIO()
    compared_.render(*slow, Console(file=out, width=width))
    text = " ".join(out.getvalue().split())
    assert "B is worse than A: 7 times or rates." in text
    assert re.search(r"worse redis redis release p50 [\d.]+ ms [\d.]+ ms [23]\.\d+ \[", text)
    assert all(len(line) <= width for line in out.getvalue().splitlines() if "index.html" not in line)


def test_what_is_slower_is_told_in_markdown_and_on_a_page(slow: tuple[Comparison, Side, Side], tmp_path: Path) -> None:
    assert "| worse | redis | redis | release p50 |" in compared_.markdown(*slow)
    page = compared_.page(*slow, tmp_path / "page.html")
    assert (page.count('<tr data-word="worse">'), page.count("<svg")) == (7, len(slow[0].speeds))
    assert HOSTILE[:20] not in page
