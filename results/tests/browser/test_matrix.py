"""A run's page: the matrix fits the window, can be filtered, walked through and opened, and leads to the trials."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from checkers.claims import NO_FAULT, Verdict
from results.pages import run_page
from results.record import Cell
from results.report.descriptions import GROUPS
from results.run import Run
from results.tests.browser import seeing
from results.tests.browser.made import Made
from results.tests.browser.visit import Scheme, box, meddle, settle, visit
from results.tests.test_index import cell

Square = tuple[str, str]  # lock and fault

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
    """Squares with a stored judgement for which `of` holds."""
    return {(cell.lock, cell.fault) for cell in Run.open(made.page("later-run").parent).read().cells if of(cell)}


FILTERS: Final[dict[str, tuple[str, str, Callable[[Cell], bool]]]] = {
    "backend": ("backend", "etcd", lambda cell: cell.backend == "etcd"),
    "version": ("version", "3.5.16", lambda cell: cell.version == "3.5.16"),
    "property": ("property", "no-lost-update", lambda cell: cell.property == "no-lost-update"),
    "verdict": ("verdict", "violated", lambda cell: cell.word is Verdict.VIOLATED),
    "failing": ("verdict", "failing", lambda cell: cell.word.fails),
}


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_leaves_only_the_squares_that_match(chromium: Browser, made: Made, name: str) -> None:
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


def test_a_slow_machine_draws_nothing_before_the_filter_applies(chromium: Browser, made: Made) -> None:
    label, value, of = FILTERS["failing"]
    with visit(chromium, made.page("later-run"), made.root, fragment=f"{label}={value}", slow=20) as page:
        assert shown(page) == squares(made, of)


def test_failures_outside_of_a_filter_are_mentioned(chromium: Browser, made: Made) -> None:
    with visit(chromium, made.page("later-run"), made.root) as page:
        expect(page.locator("#outside")).to_have_text("")
        meddle(page).get_by_label("backend").select_option("etcd")
        expect(page.locator("#outside")).to_contain_text("failing")


def test_a_verdict_in_the_header_filters_the_matrix(chromium: Browser, made: Made) -> None:
    with visit(chromium, made.page("later-run"), made.root) as page:
        page.locator("#words a", has_text=str(Verdict.WEAKNESS_SHOWN)).click()
        assert shown(page) == squares(made, lambda cell: cell.word is Verdict.WEAKNESS_SHOWN)


def test_the_matrix_can_be_filtered_walked_and_opened_by_keyboard(chromium: Browser, made: Made) -> None:
    with visit(chromium, made.page("later-run"), made.root) as page:
        page.keyboard.press("/")
        expect(page.locator("#filter-text")).to_be_focused()
        page.keyboard.type("redis late")
        assert shown(page) == {("redis", "late-write")}
        page.get_by_role("button", name="Clear").press("Enter")
        assert len(shown(page)) > 3
        for _ in range(10):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.matches('#matrix td a')"):
                break
        page.keyboard.press("Home")
        for _ in range(10):  # down to the last row
            page.keyboard.press("ArrowDown")
        page.keyboard.press("End")
        row = page.locator("#matrix a:focus").locator("xpath=ancestor::tr").locator("td a:visible")
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


LOCKS, GROUPED = 50, ("links", "servers", "clocks", "workers", "store")
"""As many locks as a run of the default profile has, and the groups of its faults."""

_HEADS: Final = """
() => [...document.querySelectorAll("#matrix thead th > button")].filter((one) => one.getClientRects().length)
  .map((one) => one.textContent)
"""
_BESIDE: Final = """
() => [document.documentElement, document.querySelector(".matrix-box")].map((one) => one.scrollWidth - one.clientWidth)
"""
"""By how many pixels the page and the matrix can be scrolled sideways."""


def fault(number: int) -> str:
    return f"a-fault-of-some-length-{number}"


def wide(root: Path, faults: int) -> Path:
    """The page of a run with so many faults, in five groups, and with every verdict in its matrix."""
    cells = [cell("lock-0", NO_FAULT, Verdict.WEAKNESS_SHOWN, "herd-free", backend="b0", page=None)]
    for lock in range(LOCKS):
        given: dict[str, Any] = {"backend": f"b{lock % 4}", "page": None}
        cells.append(cell(f"lock-{lock}", NO_FAULT, Verdict.UPHELD, **given))
        for number in range(faults):
            word = [*Verdict, *[Verdict.UPHELD] * 12][(7 * lock + number) % 21]
            if (lock + number) % 11:
                cells.append(cell(f"lock-{lock}", fault(number), word, because="explained by woken-all", **given))
        cells.append(cell(f"lock-{lock}", fault(1), Verdict.WEAKNESS_SHOWN, "herd-free", **given))
    groups = {fault(number): {"group": GROUPED[number % 5], "text": f"It is {number}. So."} for number in range(faults)}
    described = {"faults": groups, "locks": {"lock-0": "a lock.\n\nOf mine. No more."}}
    path = root / "index.html"
    path.write_text(run_page.render(root, {"described": described}, cells, []))
    return path


@pytest.fixture(scope="module")
def default(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run with about as many faults as the default profile has: 30."""
    return wide(tmp_path_factory.mktemp("default"), 30)


@pytest.mark.parametrize(("width", "scheme"), [(1440, "dark"), (900, "light"), (390, "dark")])
def test_a_default_run_fits_the_window(chromium: Browser, default: Path, width: int, scheme: Scheme) -> None:
    with visit(chromium, default, default.parent, width=width, height=900, scheme=scheme) as page:
        heads, beside = page.evaluate(_HEADS), page.evaluate(_BESIDE)
        sizes = [box(link) for link in (page.locator("#matrix tr[data-lock=lock-3] a:visible")).all()]
        faint = seeing.faint(seeing.texts(page))
    folded = [f"{group} (6)" for group in GROUPED]
    names = {fault(number) for number in range(30)} | {*GROUPED}
    assert beside == [0, 0]
    assert {*heads} - {f"lock-{n}" for n in range(LOCKS)} == {NO_FAULT, *(folded if width < 600 else names)}
    assert min(size["width"] for size in sizes) >= 20
    assert min(size["height"] for size in sizes) >= 20
    assert faint == []


def test_more_columns_than_fit_are_folded_by_group_until_one_is_chosen(chromium: Browser, tmp_path: Path) -> None:
    with visit(chromium, wide(tmp_path, 100), tmp_path, width=1440, height=900) as page:
        folded = page.locator("#matrix th.folded-head")
        names = folded.all_inner_texts()
        assert len(names) >= 2
        assert page.evaluate(_BESIDE) == [0, 0]
        page.locator("#matrix [data-lock=lock-3] .of-group:visible a").last.focus()
        page.keyboard.press("Home")
        page.keyboard.press("ArrowUp")
        folded.last.get_by_role("button").press("Enter")
        assert folded.count() >= 2
        assert names[-1] not in folded.all_inner_texts()
        assert page.evaluate(_BESIDE) == [0, 0]


def test_a_group_opens_its_faults_and_a_fault_its_judgements_on_a_phone(chromium: Browser, default: Path) -> None:
    with visit(chromium, default, default.parent, width=390, height=800) as page:
        page.locator("#matrix [data-lock=lock-1] .of-group:visible a").first.click()
        panel = page.get_by_role("dialog")
        group = page.locator("#panel-title").inner_text()
        assert re.fullmatch(rf"lock-1 under ({'|'.join(GROUPED)})", group)
        name = panel.locator("h3 button").first.inner_text()
        panel.locator("h3 button").first.click()
        expect(page.locator("#panel-title")).to_have_text(f"lock-1 under {name}")
        page.reload()  # the address keeps the open panel
        expect(page.locator("#panel-title")).to_have_text(f"lock-1 under {name}")
        page.keyboard.press("Escape")
        expect(panel).to_be_hidden()
        page.locator("#matrix th.folded-head button").first.click()
        expect(page.locator("#panel .about")).to_have_text(GROUPS[group.rpartition(" ")[2]])
        assert page.evaluate(_BESIDE) == [0, 0]


def test_every_head_explains_itself_by_keyboard(chromium: Browser, default: Path) -> None:
    with visit(chromium, default, default.parent, width=1440, height=900) as page:
        title, about, tip = page.locator("#panel-title"), page.locator("#panel .about"), page.locator("#tip")
        first = page.locator("#matrix [data-f]:has(> a):visible").nth(1)
        name = first.get_attribute("data-f") or ""
        first.locator("a").focus()
        page.keyboard.press("ArrowUp")
        number = name.rpartition("-")[2]
        expect(tip).to_contain_text(f"It is {number}.")
        page.keyboard.press("Enter")
        expect(title).to_have_text(name)
        expect(about).to_have_text(f"It is {number}. So.")
        page.get_by_role("dialog").get_by_role("button", name=GROUPED[int(number) % 5]).press("Enter")
        expect(about).to_have_text(GROUPS[GROUPED[int(number) % 5]])
        page.get_by_role("button", name="back").press("Enter")
        expect(title).to_have_text(name)
        page.keyboard.press("Escape")
        expect(page.locator(f"#matrix [data-fault='{name}'] button")).to_be_focused()
        page.locator("#matrix [data-lock=lock-0] th button").press("Enter")
        expect(about).to_have_text("A lock. Of mine. No more.")
        page.get_by_role("dialog").get_by_role("button", name="herd-free").press("Enter")
        expect(about).to_contain_text("woken no more often")
        page.reload()
        expect(about).to_contain_text("woken no more often")


def test_a_cell_tells_its_judgements_under_the_pointer_and_by_keyboard(chromium: Browser, default: Path) -> None:
    with visit(chromium, default, default.parent, width=900, height=900) as page:
        link, tip, panel = square(page, "lock-0", fault(1)), page.locator("#tip"), page.locator("#panel")
        link.hover()
        expect(tip).to_contain_text(f"lock-0 under {fault(1)}")
        expect(tip).to_contain_text("1 known weakness shown: herd-free")
        page.mouse.move(0, 0)
        expect(tip).to_be_hidden()
        link.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowUp")
        expect(tip).to_contain_text(f"lock-0 under {fault(1)}")
        assert not box(tip)["y"] - box(link)["height"] < box(link)["y"] < box(tip)["y"] + box(tip)["height"]
        page.keyboard.press("Escape")
        expect(tip).to_be_hidden()
        link.press("Enter")
        expect(panel).to_contain_text("explained by woken-all (everybody who waits watches the same thing)")
        expect(panel).to_contain_text("It shows without any fault, too.")


def test_the_matrix_as_text_has_every_fault_in_a_box_of_its_own(chromium: Browser, default: Path) -> None:
    for width in (1440, 390):
        with visit(chromium, default, default.parent, width=width, height=900) as page:
            meddle(page).get_by_label("cells as").select_option("text")
            beside, shown_in_it = page.evaluate(_BESIDE)
            assert (beside, shown_in_it > 1000) == (0, True)
            expect(square(page, "lock-0", fault(1)).locator("b")).to_be_visible()
            expect(square(page, "lock-0", fault(1))).to_contain_text("weakness")
            page.reload()
            expect(square(page, "lock-0", fault(1)).locator("b")).to_be_visible()


def test_a_filter_leaves_no_blank(chromium: Browser, default: Path) -> None:
    with visit(chromium, default, default.parent, width=1440, height=900) as page:
        meddle(page).locator("#filter-text").fill(f"lock-3 {fault(1)}")
        expect(page.locator("#shown")).to_contain_text(" of ")
        assert shown(page) <= {(f"lock-{n}", fault(m)) for n in (3, *range(30, 40)) for m in (1, *range(10, 20))}
        assert not page.locator("#matrix tr[data-lock]:visible").filter(has_not=page.locator("a:visible")).count()
        heads = [name for name in page.evaluate(_HEADS) if name.startswith("a-fault")]
        assert {*heads} == {name for _, name in shown(page)}
        end, key = box(page.locator("#matrix")), box(page.locator(".key"))
        assert key["y"] - end["y"] - end["height"] < 20
        assert end["height"] < 600


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
