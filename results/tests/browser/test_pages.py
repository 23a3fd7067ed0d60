"""Every page opens from disk without a complaint of `visit`, and `visit` notices what a page must not do. Pages can be
read in light and dark, on a phone and on paper, and every sign is drawn.
"""

import io
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, expect
from pypdf import PdfReader

from results.report.grid import SIGNS
from results.tests.browser import seeing
from results.tests.browser.made import PAGES, Made
from results.tests.browser.visit import box, file_of, meddle, on_paper, settle, unfold, visit

_LINKS: Final = """
[...document.querySelectorAll("[href]")].map((one) => new URL(one.getAttribute("href"), document.baseURI).href)
"""
_WIDTH: Final = "document.documentElement.scrollWidth"
_WIDER: Final = "[...document.querySelectorAll('dt .word')].filter((of) => of.offsetWidth > of.parentNode.offsetWidth)"

LEGIBLE = ("violated", "passing", "run", "comparison", "scorecard", "certificate")
POLICY = "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; script-src 'sha256-none'\">"

_MOVES = """
<h1>one</h1>
<script>
  const painted = new PerformanceObserver(() => {
    painted.disconnect();
    document.body.prepend("two", document.createElement("hr"));
  });
  painted.observe({ type: "paint", buffered: true });
</script>
"""
"""A page that moves by itself. The script waits for the first paint: what was never drawn has not moved."""

ILL = {
    "console": ("<script>console.warn('of ours')</script>", "of ours"),
    "exception": ("<script>throw new Error('of ours')</script>", "of ours"),
    "network": ("<img src='https://fencepost.invalid/a.png'>", "asked for https://fencepost.invalid/a.png"),
    "other file": ("<script src='../other/assets/a.js'></script>", "other/assets/a.js"),
    "beside": ("<link rel=stylesheet href='a.css'>", "a.css"),
    "dialog": ("<script>alert('of ours')</script>", "dialog: of ours"),
    "policy": (f"{POLICY}<script>1</script>", "refused by its own policy: script-src"),
    "shift": (_MOVES, "moved by"),
}

LATE = {"policy": "seenByTests.now().refused.length > 0", "shift": "seenByTests.now().shifts.length > 0"}
"""Conditions to wait for, since these complaints come a while after the page was loaded."""

_BARE: Final = """
() => [...document.querySelectorAll(".lane h3, .lane p")]
  .filter((one) => one.matches("h3") || one.textContent.trim().endsWith(":"))
  .filter((one) => one.checkVisibility() && one.nextElementSibling && !one.nextElementSibling.checkVisibility())
  .map((one) => one.textContent)
"""
"""Headings, and paragraphs that end in a colon, in lanes, if nothing visible follows them."""

_COLUMNS: Final = """
(row) => [...document.querySelector(`#rates ${row}`).children].map((one) => one.getBoundingClientRect().right)
"""
"""The right end of each cell in a row of the table of rates."""

_TALL: Final = """
() => [...document.querySelectorAll(".wide td")]
  .filter((one) => one.checkVisibility() && one.children.length === 0)
  .filter((one) => one.textContent.trim().length > 3 && one.clientWidth < 70 && one.clientHeight > 100)
  .map((one) => one.textContent)
"""
"""Cells that are narrower than a word and higher than four lines."""


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_files_and_a_phone_needs_no_scrolling(chromium: Browser, made: Made, name: str) -> None:
    with visit(chromium, made.page(name), made.root) as page:
        assert page.title().endswith("fencepost")
        expect(page.get_by_role("heading", level=1)).to_be_visible()  # the only one
        for drawing in page.locator(".timeline canvas:visible").all():
            expect(drawing).to_have_attribute("data-ready", "true")
        links = page.evaluate(_LINKS)
        assert page.evaluate(f"{_WIDER}.length") == 0, "no word covers its meaning"
        meddle(page).set_viewport_size({"width": 400, "height": 800})
        settle(page)
        widths = [page.evaluate(_WIDTH)]
        unfold(page)
        widths.append(page.evaluate(_WIDTH))
    assert widths == [400, 400]
    for link in links:
        if not link.startswith("data:"):
            target = file_of(link)
            assert target is not None, link
            assert target.exists(), link
            assert target.is_relative_to(made.root), link


def test_no_page_is_left_out(made: Made) -> None:
    assert made.every_page() == set(made.root.rglob("*.html"))


@pytest.mark.parametrize("kind", ILL)
def test_a_visit_notices_everything_that_a_page_must_not_do(chromium: Browser, tmp_path: Path, kind: str) -> None:
    body, said = ILL[kind]
    path = tmp_path / "run" / "index.html"
    path.parent.mkdir()
    path.write_text(f"<!doctype html><title>x</title><link rel=icon href='data:,'>{body}")
    with pytest.raises(AssertionError, match="index") as caught, visit(chromium, path, path.parent) as page:
        page.wait_for_function(LATE.get(kind, "true"))
    assert said in str(caught.value)


def test_a_page_may_read_the_assets_of_its_run(chromium: Browser, tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "a.js").write_text("globalThis.read = true;")
    path = tmp_path / "index.html"
    path.write_text("<!doctype html><link rel=icon href='data:,'><p>x<script src='assets/a.js'></script>")
    with visit(chromium, path, tmp_path) as page:
        assert page.evaluate("globalThis.read") is True


@pytest.mark.parametrize("name", [*LEGIBLE, "aborted", "runs", "empty-run", "sent-scorecard"])
def test_a_page_is_legible_and_accessible_in_light_and_dark(chromium: Browser, made: Made, name: str) -> None:
    with visit(chromium, made.page(name), made.root, height=9000) as page:
        unfold(page)
        assert seeing.obstacles(page) == []
        light = seeing.texts(page)
        page.emulate_media(color_scheme="dark")
        settle(page)
        dark = seeing.texts(page)
    assert seeing.faint(light) == seeing.faint(dark) == []
    assert len(light) == len(dark) > 10
    ground_of_light, ground_of_dark = (sorted(ground for *_, ground in each)[len(each) // 2] for each in (light, dark))
    assert (ground_of_light > 0.8, ground_of_dark < 0.1) == (True, True)


def test_a_trial_is_printed_with_its_story(chromium: Browser, made: Made) -> None:
    with visit(chromium, made.page("violated"), made.root, height=9000, scheme="dark") as page:
        told = [line.inner_text() for line in page.locator(".story").first.locator("li").all()]
        on_paper(page)
        assert seeing.faint(seeing.texts(page, on_paper=True)) == []
        printed = PdfReader(io.BytesIO(page.pdf(format="A4")))
    text = " ".join(" ".join(sheet.extract_text() for sheet in printed.pages).split())
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
        assert page.evaluate(_BARE) == []


def test_every_number_is_printed_under_its_own_head(chromium: Browser, made: Made) -> None:
    with visit(chromium, made.page("run"), made.root, width=690) as page:
        on_paper(page)
        heads, numbers = (page.evaluate(_COLUMNS, row) for row in ("thead tr:last-child", "tbody tr:first-child"))
        assert box(page.locator(".trials tbody td").first)["width"] > 80
    assert heads == pytest.approx(numbers, abs=1)


def test_no_word_is_written_one_letter_below_the_other_on_a_phone(chromium: Browser, made: Made) -> None:
    for name in (*LEGIBLE, "sent-scorecard"):
        with visit(chromium, made.page(name), made.root, width=390, height=800) as page:
            unfold(page)
            assert page.evaluate(_TALL) == [], name
