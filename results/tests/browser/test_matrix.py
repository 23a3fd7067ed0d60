"""A run's page: its matrix is filtered, walked through and opened, and leads to the trials."""

from collections.abc import Callable
from typing import Final

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from checkers.claims import Verdict
from results.record import Cell
from results.run import Run
from results.tests.browser.made import Made
from results.tests.browser.visit import meddle, settle, visit

Square = tuple[str, str]
"""Lock and fault."""

_SHOWN: Final = """
() => [...document.querySelectorAll("#matrix a[data-i]")].filter((one) => one.checkVisibility()).map((one) =>
  [one.closest("[data-lock]").dataset.lock, one.closest("[data-f]").dataset.f])
"""


def shown(page: Page) -> set[Square]:
    """Squares of the matrix that can be seen."""
    settle(page)
    return {(lock, fault) for lock, fault in page.evaluate(_SHOWN)}


def square(page: Page, lock: str, fault: str) -> Locator:
    return page.locator(f"#matrix [data-lock='{lock}'] [data-f='{fault}'] a")


def squares(made: Made, of: Callable[[Cell], bool] = lambda cell: True) -> set[Square]:
    """Squares in which some judgement is as asked for, from what is stored."""
    return {(cell.lock, cell.fault) for cell in Run.open(made.page("later-run").parent).read().cells if of(cell)}


FILTERS: Final[dict[str, tuple[str, str, Callable[[Cell], bool]]]] = {
    "backend": ("backend", "etcd", lambda cell: cell.backend == "etcd"),
    "version": ("version", "3.5.16", lambda cell: cell.version == "3.5.16"),
    "property": ("property", "no-lost-update", lambda cell: cell.property == "no-lost-update"),
    "verdict": ("verdict", "violated", lambda cell: cell.word is Verdict.VIOLATED),
    "failing": ("verdict", "failing", lambda cell: cell.word.fails),
}


@pytest.mark.parametrize("name", FILTERS)
def test_filters_leave_what_they_ask_for(chromium: Browser, made: Made, name: str) -> None:
    label, value, of = FILTERS[name]
    with visit(chromium, made.page("later-run"), made.root) as page:
        before = shown(page)
        assert before == squares(made)
        meddle(page).get_by_label(label).first.select_option(value)
        left = shown(page)
        assert left == squares(made, of)
        assert set() < left < before
        expect(page.locator("#shown")).to_have_text(f"{len(left)} of {len(before)} cells shown")
        page.reload()
        assert shown(page) == left
        page.get_by_role("button", name="Clear").click()
        assert shown(page) == before


@pytest.mark.parametrize("name", ["property", "failing"])
def test_on_a_slow_machine_too_nothing_is_drawn_before_it_is_filtered(chromium: Browser, made: Made, name: str) -> None:
    label, value, of = FILTERS[name]
    with visit(chromium, made.page("later-run"), made.root, fragment=f"{label}={value}", slow=20) as page:
        assert shown(page) == squares(made, of)


def test_what_fails_outside_of_a_filter_is_not_forgotten(chromium: Browser, made: Made) -> None:
    with visit(chromium, made.page("later-run"), made.root) as page:
        expect(page.locator("#outside")).to_have_text("")
        meddle(page).get_by_label("backend").select_option("etcd")
        expect(page.locator("#outside")).to_contain_text("failing")


def test_a_word_of_the_header_filters_by_it(chromium: Browser, made: Made) -> None:
    with visit(chromium, made.page("later-run"), made.root) as page:
        page.locator("#words a", has_text=str(Verdict.WEAKNESS_SHOWN)).click()
        assert shown(page) == squares(made, lambda cell: cell.word is Verdict.WEAKNESS_SHOWN)


def test_the_matrix_by_keyboard(chromium: Browser, made: Made) -> None:
    with visit(chromium, made.page("later-run"), made.root) as page:
        page.keyboard.press("/")
        expect(page.locator("#filter-text")).to_be_focused()
        page.keyboard.type("redis late")
        assert shown(page) == {("redis", "late-write")}
        page.get_by_role("button", name="Clear").press("Enter")
        assert len(shown(page)) > 3
        for _ in range(10):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.matches('#matrix a')"):
                break
        page.keyboard.press("Home")
        for _ in range(10):  # down to the last row
            page.keyboard.press("ArrowDown")
        page.keyboard.press("End")
        last = page.locator("#matrix a:focus")
        row = last.locator("xpath=ancestor::tr").locator("a")
        expect(row.last).to_be_focused()
        page.keyboard.press("ArrowLeft")
        beside = row.nth(row.count() - 2)
        expect(beside).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_be_visible()
        assert page.evaluate("document.activeElement.closest('[role=dialog]') !== null")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_be_hidden()
        expect(beside).to_be_focused()


def test_every_square_opens_and_leads_to_its_trials(chromium: Browser, made: Made) -> None:
    with visit(chromium, made.page("later-run"), made.root) as page:
        for lock, fault in sorted(squares(made, lambda cell: cell.page is not None)):
            square(page, lock, fault).click()
            expect(page.get_by_role("dialog")).to_be_visible()
            links = page.get_by_role("dialog").locator("a[href]")
            assert links.count() > 0
            for link in links.all():
                where, _, said = (link.get_attribute("href") or "").partition("#")
                assert (made.page("later-run").parent / where).is_file()
                assert "lane=" in said
            page.keyboard.press("Escape")


def test_a_judgement_in_a_square_leads_to_its_lane(chromium: Browser, made: Made) -> None:
    with visit(chromium, made.page("later-run"), made.root) as page:
        square(page, "redis", "late-write").click()
        page.get_by_role("dialog").get_by_role("link", name="set/fence-writes").first.click()
        page.wait_for_load_state()
        chosen = page.locator("section[data-lane]:not([hidden])")
        expect(chosen).to_have_attribute("data-lane", "redis/set/fence-writes")


def test_a_table_is_sorted_by_its_heads(chromium: Browser, made: Made) -> None:
    with visit(chromium, made.page("later-run"), made.root) as page:
        head = page.locator(".sortable th[aria-sort]").first
        column = page.locator(".sortable tbody tr > :first-child")
        names: list[str] = []
        for way in ("ascending", "descending"):
            head.get_by_role("button").press("Enter")
            expect(head).to_have_attribute("aria-sort", way)
            names = [name.casefold() for name in column.all_inner_texts()]
            assert names == sorted(names, reverse=way == "descending")
        assert len(set(names)) > 1
