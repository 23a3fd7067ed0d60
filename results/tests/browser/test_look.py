"""Pages can be read: light and dark, on a phone, on paper, with every sign drawn."""

import io
from typing import Final

import pytest
from playwright.sync_api import Browser
from pypdf import PdfReader

from results.report.grid import SIGNS
from results.tests.browser import seeing
from results.tests.browser.made import Made
from results.tests.browser.visit import box, on_paper, settle, unfold, visit

_BARE: Final = """
() => [...document.querySelectorAll(".lane h3, .lane p")]
  .filter((one) => one.matches("h3") || one.textContent.trim().endsWith(":"))
  .filter((one) => one.checkVisibility() && one.nextElementSibling && !one.nextElementSibling.checkVisibility())
  .map((one) => one.textContent)
"""
"""Headings and announcements in lanes, behind which nothing stands."""

_COLUMNS: Final = """
(row) => [...document.querySelector(`#rates ${row}`).children].map((one) => one.getBoundingClientRect().right)
"""
"""Where each cell of this row of the rates ends."""

_TALL: Final = """
() => [...document.querySelectorAll(".wide td")]
  .filter((one) => one.checkVisibility() && one.children.length === 0)
  .filter((one) => one.textContent.trim().length > 3 && one.clientWidth < 70 && one.clientHeight > 100)
  .map((one) => one.textContent)
"""
"""Cells that are narrower than a word and higher than four lines."""


@pytest.mark.parametrize("name", ["violated", "passing", "aborted", "run", "empty-run", "certificate"])
def test_every_text_stands_out(chromium: Browser, made: Made, name: str) -> None:
    with visit(chromium, made.page(name), made.root, height=9000) as page:
        unfold(page)
        light = seeing.texts(page)
        page.emulate_media(color_scheme="dark")
        settle(page)
        dark = seeing.texts(page)
    assert seeing.faint(light) == seeing.faint(dark) == []
    assert len(light) == len(dark) > 10
    ground_of_light, ground_of_dark = (sorted(one["ground"] for one in each)[len(each) // 2] for each in (light, dark))
    assert ground_of_light > 0.8
    assert ground_of_dark < 0.1


def test_prints_with_the_story(chromium: Browser, made: Made) -> None:
    with visit(chromium, made.page("violated"), made.root, height=9000, scheme="dark") as page:
        told = [line.inner_text() for line in page.locator(".story").first.locator("li").all()]
        on_paper(page)
        faint = seeing.faint(seeing.texts(page, on_paper=True))
        printed = PdfReader(io.BytesIO(page.pdf(format="A4")))
    text = " ".join(" ".join(sheet.extract_text() for sheet in printed.pages).split())
    assert faint == []
    assert len(told) >= 3
    for line in told:
        assert " ".join(line.split()) in text
    assert len(printed.pages) <= 12


def test_every_sign_is_drawn(chromium: Browser, made: Made) -> None:
    found: dict[str, bool] = {}
    for name in ("violated", "run"):
        with visit(chromium, made.page(name), made.root) as page:
            unfold(page)
            found |= seeing.glyphs(page)
    assert {signs.glyph for signs in SIGNS.values() if signs.glyph > "~"} <= found.keys()
    assert [sign for sign, drawn in found.items() if not drawn] == []


@pytest.mark.parametrize("name", ["violated", "sent-trial"])
def test_no_heading_stands_on_paper_alone(chromium: Browser, made: Made, name: str) -> None:
    with visit(chromium, made.page(name), made.root, height=9000) as page:
        on_paper(page)
        bare = page.evaluate(_BARE)
    assert bare == []


def test_on_paper_every_number_stands_under_its_own_head(chromium: Browser, made: Made) -> None:
    with visit(chromium, made.page("run"), made.root, width=690) as page:
        on_paper(page)
        heads, numbers = (page.evaluate(_COLUMNS, row) for row in ("thead tr:last-child", "tbody tr:first-child"))
        name = box(page.locator(".trials tbody td").first)
    assert heads == pytest.approx(numbers, abs=1)
    assert name["width"] > 80


def test_no_word_is_written_one_letter_below_the_other_on_a_phone(chromium: Browser, made: Made) -> None:
    for name in ("violated", "run", "comparison"):
        with visit(chromium, made.page(name), made.root, width=390, height=800) as page:
            unfold(page)
            assert page.evaluate(_TALL) == [], name
