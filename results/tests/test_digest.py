"""The digest: what is red and what was known, in Markdown in which no recorded string is anything but text."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from checkers.claims import Word
from results import digest as digests
from results.comparison.compared import Side
from results.comparison.news import INCONCLUSIVE, RED, news
from results.digest import MOST_BYTES, digest
from results.markdown import text
from results.reading import Contents
from results.record import Cell
from results.tests import samples

ROOT = Path("/runs/one")
STORY = ("worker 1 was granted the lock at 1.0 s", "So two were inside.")


def cell(word: Word, **given: object) -> Cell:
    page = ROOT / "trials" / "redis-none-1" / "index.html"
    plain = Cell("redis", "redis", "set", "unfenced", "redis/set/unfenced", "none", "no-lost-update", word, "because",
                 **samples.BLANK)  # fmt: skip
    plain = replace(plain, page=page, trial="redis-none-1", seed=1, attempt=1, version="8.0")
    return replace(plain, **given)  # type: ignore[arg-type]


def contents(*cells: Cell, problems: tuple[str, ...] = ()) -> Contents:
    return Contents(cells, (), problems)


def side(*cells: Cell, problems: tuple[str, ...] = (), name: str = "one") -> Side:
    return Side(name, ROOT, contents(*cells, problems=problems), (), state="closed")


def told(*cells: Cell, before: Side | None = None, problems: tuple[str, ...] = ()) -> str:
    return digest(side(*cells, problems=problems), before)


FAILING = [word for word in Word if word.fails]
FINE = [word for word in Word if not word.fails]


class TestNews:
    @pytest.mark.parametrize("word", FAILING)
    def test_on_the_first_night_every_failing_verdict_is_red(self, word: Word) -> None:
        assert news(None, contents(cell(word))).status == RED

    @pytest.mark.parametrize("word", FINE)
    def test_on_the_first_night_nothing_else_is(self, word: Word) -> None:
        assert news(None, contents(cell(word))).status == 0

    @pytest.mark.parametrize("word", FAILING)
    def test_what_failed_the_night_before_is_known(self, word: Word) -> None:
        found = news(contents(cell(word)), contents(cell(word)))
        assert (found.status, len(found.known), found.red) == (0, 1, ())

    @pytest.mark.parametrize("before", [word for word in Word if word is not Word.VIOLATED])
    def test_a_new_violation_is_red_whatever_was_there(self, before: Word) -> None:
        assert news(contents(cell(before)), contents(cell(Word.VIOLATED))).status == RED

    def test_a_violation_of_what_nobody_had_tried_is_red(self) -> None:
        other = cell(Word.UPHELD, property="fenced-store")
        assert news(contents(other), contents(other, cell(Word.VIOLATED))).status == RED

    @pytest.mark.parametrize("before", [Word.BROKEN_AS_DOCUMENTED, Word.UNKNOWN, Word.UNEXERCISED, None])
    def test_a_control_that_fell_silent_is_red(self, before: Word | None) -> None:
        other = cell(Word.UPHELD, property="fenced-store")
        earlier = contents(other) if before is None else contents(other, cell(before))
        assert news(earlier, contents(other, cell(Word.HAZARD_NOT_SHOWN))).status == RED

    @pytest.mark.parametrize("word", [Word.UNKNOWN, Word.UNEXERCISED])
    @pytest.mark.parametrize("before", [Word.UPHELD, Word.BROKEN_AS_DOCUMENTED, None])
    def test_evidence_that_is_lost_is_not_red_and_not_well_either(self, word: Word, before: Word | None) -> None:
        other = cell(Word.UPHELD, property="fenced-store")
        earlier = contents(other) if before is None else contents(other, cell(before))
        found = news(earlier, contents(other, cell(word)))
        assert (found.status, len(found.lost), found.red) == (INCONCLUSIVE, 1, ())

    def test_a_trial_that_came_to_nothing_is_not_well(self) -> None:
        fine = contents(cell(Word.UPHELD))
        assert news(fine, replace(fine, problems=("x: aborted",))).status == INCONCLUSIVE

    def test_a_verdict_that_is_missing_is_not_well(self) -> None:
        other = cell(Word.UPHELD, property="fenced-store")
        found = news(contents(other, cell(Word.UPHELD)), contents(other))
        assert (found.status, len(found.missing), found.red) == (INCONCLUSIVE, 1, ())

    @pytest.mark.parametrize("word", [Word.VIOLATED, Word.HAZARD_NOT_SHOWN])
    @pytest.mark.parametrize("between", [Word.UNKNOWN, Word.UNEXERCISED, None])
    def test_what_nobody_could_judge_since_is_known_from_before(self, word: Word, between: Word | None) -> None:
        other = cell(Word.UPHELD, property="fenced-store")
        bad, blank = contents(other, cell(word)), contents(other, *([cell(between)] if between else []))
        assert news(blank, bad).status == RED
        found = news(blank, bad, [blank, bad])
        assert (found.status, len(found.known), found.red) == (0, 1, ())

    def test_what_was_well_the_last_time_that_it_was_judged_is_new(self) -> None:
        other = cell(Word.UPHELD, property="fenced-store")
        bad, blank, well = contents(other, cell(Word.VIOLATED)), contents(other), contents(other, cell(Word.UPHELD))
        assert news(blank, bad, [well, bad]).status == RED
        assert news(well, bad, [bad]).status == RED

    def test_what_fails_no_longer_is_told(self) -> None:
        found = news(contents(cell(Word.VIOLATED)), contents(cell(Word.UPHELD)))
        assert (found.status, len(found.cleared)) == (0, 1)

    def test_one_version_does_not_hide_another(self) -> None:
        """In 7.0 it was known; in 8.0 it is new."""
        old, new = cell(Word.VIOLATED, version="7.0"), cell(Word.UPHELD, version="8.0")
        found = news(contents(old, new), contents(old, replace(new, word=Word.VIOLATED)))
        assert [change.backend for change in found.red] == ["redis 8.0"]
        assert [change.backend for change in found.known] == ["redis 7.0"]

    def test_a_control_that_is_silent_in_one_version_is_not_made_good_by_another(self) -> None:
        shown, silent = cell(Word.BROKEN_AS_DOCUMENTED, version="7.0"), cell(Word.HAZARD_NOT_SHOWN, version="8.0")
        before = contents(shown, replace(silent, word=Word.BROKEN_AS_DOCUMENTED))
        assert [change.backend for change in news(before, contents(shown, silent)).red] == ["redis 8.0"]

    def test_an_upgrade_is_compared_across_its_versions(self) -> None:
        found = news(contents(cell(Word.UPHELD, version="7.0")), contents(cell(Word.VIOLATED, version="8.0")))
        assert found.comparison.common == 1
        assert found.status == RED

    def test_an_attempt_that_another_one_made_good_is_nothing(self) -> None:
        silent = cell(Word.HAZARD_NOT_SHOWN)
        shown = replace(cell(Word.BROKEN_AS_DOCUMENTED), seed=2, attempt=2)
        assert news(None, contents(silent, shown)).status == 0


class TestPage:
    def test_what_is_red_stands_first_with_its_story_and_page(self) -> None:
        page = told(cell(Word.VIOLATED, story=STORY), before=side(cell(Word.UPHELD)))
        assert page.startswith("## Worse than before: 1 verdict of 1 judgement.\n")
        assert "| violated | 1 | 0 |" in page
        assert page.index("### New") < page.index(STORY[0]) < page.index("### Locks")
        assert "trials/redis-none-1/index.html" in unescape(page)
        assert page.count("<details>") == page.count("</details>") == 2

    def test_what_was_known_is_called_so(self) -> None:
        bad = cell(Word.VIOLATED, story=STORY)
        page = told(bad, before=side(bad))
        assert page.startswith("## Nothing worse in 1 judgement. 1 failing verdict known before.")
        assert "### Known" in page
        assert "### New" not in page

    def test_a_first_night(self) -> None:
        assert told(cell(Word.UPHELD)).startswith("## No failing verdict in 1 judgement.\n")
        assert told(cell(Word.VIOLATED)).startswith("## 1 failing verdict in 1 judgement.\n")
        assert told(problems=("x",)).startswith("## Nothing was judged. 1 trial came to no verdict.")

    def test_a_table_for_each_version(self) -> None:
        page = told(cell(Word.UPHELD), cell(Word.VIOLATED, version="7.0"))
        assert "<summary>redis 7.0: 1 violated</summary>" in page
        assert "<summary>redis 8.0: nothing fails</summary>" in page

    def test_notes_are_told(self) -> None:
        assert "- one [is] missing" in unescape(digest(side(cell(Word.UPHELD)), None, ["one [is] missing"]))


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


@pytest.mark.parametrize("name", HOSTILE)
class TestHostile:
    def test_nothing_in_it_means_anything(self, name: str) -> None:
        shown = text(HOSTILE[name])
        left = re.sub(r"&#\d+;", "", shown)
        assert "\n" not in shown
        assert not set(left) & set('<>&`|*_[]{}#\\~$!"@:=+^\x00\x1b\x07\u202e')
        assert not re.match(r"[-.]|\d+[.)] ", left), "nor at the beginning of a line"
        assert shown.encode()

    def test_it_is_still_to_be_read(self, name: str) -> None:
        words = re.findall(r"[a-z]{3,}", HOSTILE[name].replace("\x1b[31m", ""))
        shown = unescape(text(HOSTILE[name])).replace("\u2060", "")
        assert [word for word in words if word not in shown] == []

    def test_it_stays_within_its_place(self, name: str) -> None:
        """A page with it has the same structure as one with a plain word there."""
        places = ("lock", "lane", "fault", "property", "because", "version", "backend")

        def page(words: str) -> str:
            mine = cell(Word.VIOLATED, story=(words, "second"))
            mine = replace(mine, **dict.fromkeys(places, words))  # type: ignore[arg-type]
            fine = replace(mine, word=Word.UPHELD)
            return digest(side(mine, problems=(words,)), side(fine, name=words), [words])

        assert _structure(page(HOSTILE[name])) == _structure(page("word"))

    def test_no_link_of_their_own(self, name: str) -> None:
        shown = unescape(text(HOSTILE[name]))
        assert not re.search(r"@\w|#\d|://|www\.|:\w+:", shown)


def _structure(page: str) -> list[str]:
    """Tags, cells and the beginnings of lines, without the words between them."""
    page = re.sub(r"`[^`\n]*`", "", re.sub(r"\\[^\w\s]", "", page))  # what `results compare` escapes, and shows as code
    return [
        re.match(r"#* |- |\d+\. |\|?", line)[0] + "".join(re.findall(r"</?[a-z]+|\||`", line))  # type: ignore[index]
        for line in page.splitlines()
    ]


class TestSize:
    def test_it_never_exceeds_what_a_summary_may_have_and_says_what_is_left_out(self) -> None:
        many = [
            cell(Word.VIOLATED, lane=f"lane{n}", lock=f"lock{n}", story=(f"{n} " + "é" * 500,) * 5) for n in range(900)
        ]
        page = told(*many)
        assert len(page.encode()) <= MOST_BYTES
        assert len(page.encode()) > MOST_BYTES * 0.9, "and no more is left out than must be"
        assert re.search(r"Too long for the summary of a job: \d+ of its sections are left out", page)
        assert page.count("<details>") == page.count("</details>")

    def test_a_string_without_end_is_cut(self) -> None:
        page = told(cell(Word.VIOLATED, story=("x" * 10_000_000,), because="y" * 10_000_000))
        assert len(page) < 10_000

    def test_a_story_without_end_is_cut(self) -> None:
        assert "and 88 more" in told(cell(Word.VIOLATED, story=("line",) * 100))

    def test_what_fits_is_whole(self) -> None:
        assert "left out" not in told(cell(Word.UPHELD))


class TestCommand:
    def test_it_writes_utf_8_whatever_the_terminal_takes(
        self, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        sides = {"a": side(cell(Word.UPHELD)), "b": side(cell(Word.VIOLATED, because="é"))}
        monkeypatch.setattr(digests, "find", lambda name, root: name)
        monkeypatch.setattr(Side, "of", lambda name: sides[name])
        assert digests.main(["b", "--against", "a"]) == 0
        page = capfdbinary.readouterr().out.decode()
        assert page.startswith("## Worse than before")
        assert "é" in page
