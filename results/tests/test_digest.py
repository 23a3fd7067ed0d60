"""The digest: what is red and what was known, in Markdown in which recorded strings stay text."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from html import unescape
from itertools import product
from pathlib import Path

import pytest

from checkers.claims import Verdict
from checkers.tests.build import cases
from results.commands.digest import MOST_BYTES, digest, main
from results.comparison.compare import INCONCLUSIVE, RED, news
from results.comparison.presentation import Side
from results.record import Cell
from results.report.markdown import text
from results.storage.reading import RunContents
from results.tests import samples
from results.tests.markup import golden
from results.tests.test_comparison import run as contents

ROOT = Path("/runs/one")
STORY = ("worker 1 was granted the lock at 1.0 s", "So two were inside.")
cell = partial(
    samples.cell, property="no-lost-update", workload="set", lane="redis/set/unfenced", version="8.0",
    because="because", page=ROOT / "trials" / "redis-none-1" / "index.html",
)  # fmt: skip
HOSTILE = {
    "row": "a | b |\n| c |",
    "code": "`` ` ``` x",
    "tag": "</details><script>alert(1)</script><img src=x onerror=alert(1)>",
    "link": "[x](javascript:alert(1)) ![y](http://e.example/z) <http://e.example>",
    "newline": "one\n\n# two\r\n- three\n    four\n***\n---\n===",
    "reference": "&lt;script&gt; &#60;b&#62; &amp;",
    "emphasis": "*a* _b_ ~~c~~ **d** __e__ $f$",
    "escape": "\x1b[31mred\x07 \u202eback \udcff \x00",
    "list": "1. x",
    "backslash": "\\| \\` \\<",
    "comment": "<!-- x --> --> ]]> <?x",
    "mention": "@somebody #123 :tada: http://e.example www.e.example a@e.example",
}
FAILING = [word for word in Verdict if word.fails]
BAD = cell(Verdict.VIOLATED, story=STORY)
BLANK = (Verdict.UNKNOWN, Verdict.NOT_STRESSED, None)
"""Results of a night that say nothing about the lock; None: the lock was not judged."""
OTHER = cell(Verdict.UPHELD, property="fenced-store")
BROKE = "FAILED&#58; redis broke no-lost-update without any fault (1 of 1 promise)"
KNOWN = f"{BROKE}\n\nNothing worse in 1 judgement&#46; 1 failing verdict known before&#46;"


def side(*cells: Cell, problems: tuple[str, ...] = (), name: str = "one") -> Side:
    return Side(name, ROOT, RunContents(cells, (), problems), (), state="closed")


class TestNews:
    @cases(
        "nights, status, what",
        *(([word], RED, "red") for word in FAILING),
        *(([word], 0, "") for word in Verdict if not word.fails),
        *(([word, word], 0, "known") for word in FAILING),
        *(([word, Verdict.VIOLATED], RED, "red") for word in (*Verdict, None) if word is not Verdict.VIOLATED),
        *(([word, Verdict.WEAKNESS_NOT_SHOWN], RED, "red") for word in (Verdict.WEAKNESS_SHOWN, *BLANK)),
        *product(product((Verdict.UPHELD, Verdict.WEAKNESS_SHOWN, None), BLANK[:2]), [INCONCLUSIVE], ["lost"]),
        ([Verdict.UPHELD, None], INCONCLUSIVE, "missing"),
        ([Verdict.VIOLATED, Verdict.WEAKNESS_NOT_SHOWN], 0, "known"),
        ([Verdict.VIOLATED, Verdict.UPHELD], 0, "cleared"),
        *(([it, no, it], 0, "known") for it in (Verdict.VIOLATED, Verdict.WEAKNESS_NOT_SHOWN) for no in BLANK),
        *(([Verdict.VIOLATED, Verdict.UPHELD, *no, Verdict.VIOLATED], RED, "red") for no in ([], [None])),
    )
    def test_the_news_depends_on_earlier_nights(self, nights: Sequence[Verdict | None], status: int, what: str) -> None:
        *before, now = [contents(OTHER, *([cell(word)] if word else [])) for word in nights]
        found = news(before[-1] if before else None, now, before[::-1])
        assert found.status == status
        kinds = ("red", "known", "lost", "missing", "cleared")
        assert [kind for kind in kinds if getattr(found, kind)] == [kind for kind in kinds if kind == what]

    def test_a_trial_without_a_verdict_makes_the_news_inconclusive(self) -> None:
        fine = contents(cell(Verdict.UPHELD))
        assert news(fine, replace(fine, problems=("x: aborted",))).status == INCONCLUSIVE

    @cases(
        "old, before, now, known",
        ("violated", Verdict.VIOLATED, Verdict.UPHELD, Verdict.VIOLATED, 1),
        ("silent", Verdict.WEAKNESS_SHOWN, Verdict.WEAKNESS_SHOWN, Verdict.WEAKNESS_NOT_SHOWN, 0),
    )
    def test_one_version_does_not_hide_another(self, old: Verdict, before: Verdict, now: Verdict, known: int) -> None:
        was, new = (contents(cell(old, version="7.0"), cell(word, version="8.0")) for word in (before, now))
        found = news(was, new)
        assert [change.backend for change in found.red] == ["redis 8.0"]
        assert [change.backend for change in found.known] == ["redis 7.0"] * known

    def test_an_upgrade_is_compared_across_its_versions_and_an_attempt_made_good_is_nothing(self) -> None:
        found = news(contents(cell(Verdict.UPHELD, version="7.0")), contents(cell(Verdict.VIOLATED, version="8.0")))
        assert (found.comparison.common, found.status) == (1, RED)
        silent = cell(Verdict.WEAKNESS_NOT_SHOWN)
        assert news(None, contents(silent, replace(cell(Verdict.WEAKNESS_SHOWN), seed=2, attempt=2))).status == 0


class TestPage:
    def test_a_digest_of_a_worse_run_matches_the_golden_text(self) -> None:
        known = cell(Verdict.VIOLATED, version="7.0", property="fifo")
        before = side(cell(Verdict.UPHELD), cell(Verdict.UPHELD, version="7.0"), known)
        now = side(cell(Verdict.VIOLATED, story=STORY), cell(Verdict.UPHELD, version="7.0"), known)
        page = digest(now, before, ["one [is] missing"])
        assert page == golden("digest.md", page)

    @cases(
        "now, before, heading",
        ("known", side(BAD), side(BAD), KNOWN),
        ("fine", side(OTHER), None, "PASSED&#58; 1 of 1 promises upheld\n"),
        ("failing", side(BAD), None, f"{BROKE}\n"),
        ("nothing", side(problems=("x",)), None, "NOT CLEAN&#58; no promise broken, 1 trial without a verdict"),
    )
    def test_the_heading_sums_up_the_run(self, now: Side, before: Side | None, heading: str) -> None:
        assert digest(now, before).startswith(f"## {heading}")


@pytest.mark.parametrize("name", HOSTILE)
class TestHostile:
    def test_no_hostile_string_means_anything_in_markdown(self, name: str) -> None:
        shown = text(HOSTILE[name])
        left = re.sub(r"&#\d+;", "", shown)
        assert not re.search(r"@\w|#\d|://|www\.|:\w+:", unescape(shown)), "no link of their own"
        assert "\n" not in shown
        assert not set(left) & set('<>&`|*_[]{}#\\~$!"@:=+^\x00\x1b\x07\u202e')
        assert not re.match(r"[-.]|\d+[.)] ", left), "nor at the beginning of a line"
        assert shown.encode()

    def test_a_hostile_string_can_still_be_read(self, name: str) -> None:
        words = re.findall(r"[a-z]{3,}", HOSTILE[name].replace("\x1b[31m", ""))
        shown = unescape(text(HOSTILE[name])).replace("\u2060", "")
        assert [word for word in words if word not in shown] == []

    def test_a_hostile_string_does_not_change_the_structure_of_the_page(self, name: str) -> None:
        places = ("lock", "lane", "fault", "property", "because", "version", "backend")

        def page(words: str) -> str:
            mine = cell(Verdict.VIOLATED, story=(words, "second"))
            mine = replace(mine, **dict.fromkeys(places, words))  # type: ignore[arg-type]
            fine = replace(mine, word=Verdict.UPHELD)
            return digest(side(mine, problems=(words,)), side(fine, name=words), [words])

        assert _structure(page(HOSTILE[name])) == _structure(page("word"))


def _structure(page: str) -> list[str]:
    """Tags, cells and the beginnings of lines, without the words between them."""
    page = re.sub(r"`[^`\n]*`", "", re.sub(r"\\[^\w\s]", "", page))  # what `results compare` escapes, and shows as code
    return [
        re.match(r"#* |- |\d+\. |\|?", line)[0] + "".join(re.findall(r"</?[a-z]+|\||`", line))  # type: ignore[index]
        for line in page.splitlines()
    ]


class TestSize:
    def test_a_digest_never_exceeds_the_limit_of_a_summary_and_counts_left_out_sections(self) -> None:
        stories = enumerate((f"{n} " + "é" * 500,) * 5 for n in range(900))
        many = [cell(Verdict.VIOLATED, lane=f"lane{n}", lock=f"lock{n}", story=story) for n, story in stories]
        page = digest(side(*many), None)
        assert MOST_BYTES * 0.9 < len(page.encode()) <= MOST_BYTES, "and no more is left out than must be"
        assert re.search(r"Too long for the summary of a job: \d+ of its sections are left out", page)
        assert page.count("<details>") == page.count("</details>")

    def test_strings_and_stories_without_end_are_cut_and_what_fits_is_whole(self) -> None:
        page = digest(side(cell(Verdict.VIOLATED, story=("x" * 10_000_000,) * 100, because="y" * 10_000_000)), None)
        assert len(page) < 10_000
        assert "and 88 more" in page
        assert "left out" not in page


def test_output_is_always_utf_8(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    sides = {"a": side(cell(Verdict.UPHELD)), "b": side(cell(Verdict.VIOLATED, because="é"))}
    monkeypatch.setattr("results.commands.digest.find", lambda name, root: name)
    monkeypatch.setattr(Side, "of", lambda name: sides[name])
    assert main(Path(), "b", "a") == 0
    page = capfdbinary.readouterr().out.decode()
    assert "\n\nWorse than before" in page
    assert "é" in page
