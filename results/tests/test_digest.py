"""The digest: what is red and what was known, in Markdown in which no recorded string is anything but text."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from html import unescape
from itertools import product
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
from results.tests.golden import golden

ROOT = Path("/runs/one")
STORY = ("worker 1 was granted the lock at 1.0 s", "So two were inside.")


cell = partial(
    samples.cell, property="no-lost-update", workload="set", lane="redis/set/unfenced", version="8.0",
    because="because", page=ROOT / "trials" / "redis-none-1" / "index.html",
)  # fmt: skip


def contents(*cells: Cell, problems: tuple[str, ...] = ()) -> Contents:
    return Contents(cells, (), problems)


def side(*cells: Cell, problems: tuple[str, ...] = (), name: str = "one") -> Side:
    return Side(name, ROOT, contents(*cells, problems=problems), (), state="closed")


def told(*cells: Cell, before: Side | None = None, problems: tuple[str, ...] = ()) -> str:
    return digest(side(*cells, problems=problems), before)


FAILING = [word for word in Word if word.fails]
FINE = [word for word in Word if not word.fails]
BAD = cell(Word.VIOLATED, story=STORY)
BLANK = (Word.UNKNOWN, Word.UNEXERCISED, None)
"""What a night may come to that says nothing of a lock; None: it was not judged."""
OTHER = cell(Word.UPHELD, property="fenced-store")


class TestNews:
    @pytest.mark.parametrize(
        ("nights", "status", "what"),
        [
            *(([word], RED, "red") for word in FAILING),
            *(([word], 0, "") for word in FINE),
            *(([word, word], 0, "known") for word in FAILING),
            *(([word, Word.VIOLATED], RED, "red") for word in (*Word, None) if word is not Word.VIOLATED),
            *(([word, Word.HAZARD_NOT_SHOWN], RED, "red") for word in (Word.BROKEN_AS_DOCUMENTED, *BLANK)),
            *product(product((Word.UPHELD, Word.BROKEN_AS_DOCUMENTED, None), BLANK[:2]), [INCONCLUSIVE], ["lost"]),
            ([Word.UPHELD, None], INCONCLUSIVE, "missing"),
            ([Word.VIOLATED, Word.UPHELD], 0, "cleared"),
            *(([word, blank, word], 0, "known") for word in (Word.VIOLATED, Word.HAZARD_NOT_SHOWN) for blank in BLANK),
            ([Word.VIOLATED, Word.UPHELD, Word.VIOLATED], RED, "red"),
            ([Word.VIOLATED, Word.UPHELD, None, Word.VIOLATED], RED, "red"),
        ],
    )
    def test_of_the_last_of_some_nights(self, nights: Sequence[Word | None], status: int, what: str) -> None:
        *before, now = [contents(OTHER, *([cell(word)] if word else [])) for word in nights]
        found = news(before[-1] if before else None, now, before[::-1])
        assert found.status == status
        kinds = ("red", "known", "lost", "missing", "cleared")
        assert [kind for kind in kinds if getattr(found, kind)] == [kind for kind in kinds if kind == what]

    def test_a_trial_that_came_to_nothing_is_not_well(self) -> None:
        fine = contents(cell(Word.UPHELD))
        assert news(fine, replace(fine, problems=("x: aborted",))).status == INCONCLUSIVE

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
    def test_of_one_that_is_worse(self) -> None:
        """What is red first, with its story and page, then what was known, a table for each version, and notes."""
        known = cell(Word.VIOLATED, version="7.0", property="fifo")
        before = side(cell(Word.UPHELD), cell(Word.UPHELD, version="7.0"), known)
        now = side(cell(Word.VIOLATED, story=STORY), cell(Word.UPHELD, version="7.0"), known)
        page = digest(now, before, ["one [is] missing"])
        assert page == golden("digest.md", page)

    @pytest.mark.parametrize(
        ("page", "heading"),
        [
            (told(BAD, before=side(BAD)), "Nothing worse in 1 judgement. 1 failing verdict known before."),
            (told(cell(Word.UPHELD)), "No failing verdict in 1 judgement.\n"),
            (told(BAD), "1 failing verdict in 1 judgement.\n"),
            (told(problems=("x",)), "Nothing was judged. 1 trial came to no verdict."),
        ],
        ids=["known", "fine", "failing", "nothing"],
    )
    def test_headings(self, page: str, heading: str) -> None:
        assert page.startswith(f"## {heading}")


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
    def test_output_is_utf_8_on_every_terminal(
        self, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        sides = {"a": side(cell(Word.UPHELD)), "b": side(cell(Word.VIOLATED, because="é"))}
        monkeypatch.setattr(digests, "find", lambda name, root: name)
        monkeypatch.setattr(Side, "of", lambda name: sides[name])
        assert digests.main(["b", "--against", "a"]) == 0
        page = capfdbinary.readouterr().out.decode()
        assert page.startswith("## Worse than before")
        assert "é" in page
