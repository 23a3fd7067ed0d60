"""A trial's page: the story is on screen, and everything can be reached with the mouse and without."""

import re
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from checkers.history.view import View
from results.report import short_story
from results.tests.browser.made import Made, told
from results.tests.browser.visit import reach, settle, visit


def shown_lane(page: Page) -> Locator:
    return page.locator("section[data-lane]:not([hidden])")


def shown_window(page: Page) -> Locator:
    return shown_lane(page).locator("[data-window]:not([hidden])")


@pytest.mark.parametrize("name", ["recorded", "violated", "stale"])
def test_the_story_and_its_operations_are_on_screen(chromium: Browser, made: Made, name: str) -> None:
    with visit(chromium, made.page(name), made.root) as page:
        record, window = made.records[name], shown_window(page)
        name_of_lane = shown_lane(page).get_attribute("data-lane")
        (lane,) = (one for one in record.lanes if one.history.facts.lane == name_of_lane)
        story = window.locator(".story li")
        lines = short_story.tell(View(lane.history), told(lane))
        assert len(lines) == story.count() >= 3
        for said, line in zip(story.all(), lines, strict=True):
            expect(said).to_contain_text(line.text)
        expect(story.first).to_be_in_viewport()
        for row in told(lane).rows:
            mark = window.locator(f"svg [data-row='{row}']")
            expect(mark).to_have_count(1)
            expect(mark).to_be_visible()
            assert mark.get_attribute("data-witness")
            page.mouse.move(*reach(mark))
            expect(page.locator("#tip")).to_contain_text(mark.get_attribute("aria-label") or "nothing")


def test_the_tip_describes_the_mark_under_the_pointer_and_a_click_keeps_it(chromium: Browser, made: Made) -> None:
    with visit(chromium, made.page("stale"), made.root) as page:
        expect(page.locator("#tip")).to_be_hidden()
        one, other = (shown_window(page).locator(f"[data-witness='{number}']") for number in (1, 2))
        page.mouse.move(*reach(one))
        expect(page.locator("#tip")).to_contain_text("token 41")
        page.mouse.click(*reach(one))
        page.mouse.move(*reach(other))
        expect(page.locator("#tip")).to_contain_text("token 41")
        page.get_by_role("heading", level=1).click()
        expect(page.locator("#tip")).to_be_hidden()
        page.mouse.move(*reach(other))
        expect(page.locator("#tip")).to_contain_text("token 42")


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_a_key_keeps_the_tip_of_a_mark_and_escape_hides_it(chromium: Browser, made: Made, key: str) -> None:
    with visit(chromium, made.page("stale"), made.root) as page:
        mark = shown_window(page).locator("[data-witness='1']")
        mark.focus()
        settle(page)  # if the page still scrolled for the focus, that would unpin the mark
        expect(page.locator("#tip")).to_contain_text("token 41")
        page.keyboard.press(key)
        expect(mark).to_have_class(re.compile(r"\bpinned\b"))
        page.keyboard.press("Tab")
        expect(page.locator("#tip")).to_contain_text("token 41")
        page.keyboard.press("Escape")
        expect(page.locator("#tip")).to_be_hidden()
        expect(page.locator(".pinned")).to_have_count(0)


_FOCUSED: Final = """
() => {
  const one = document.activeElement, style = getComputedStyle(one), box = one.getBoundingClientRect();
  return {
    body: one === document.body,
    row: one.dataset.row === undefined ? -1 : Number(one.dataset.row),
    seen: box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight,
    ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0,
  };
}
"""


def _tabbed(page: Page) -> list[dict[str, Any]]:
    """The elements at which Tab stops, from the top of the page until Tab leaves the page."""
    stops: list[dict[str, Any]] = []
    for _ in range(300):
        page.keyboard.press("Tab")
        stop: dict[str, Any] = page.evaluate(_FOCUSED)
        if stop["body"]:
            return stops
        stops.append(stop)
    raise AssertionError(f"Tab does not come to an end: {stops[-5:]}")


def test_tab_visits_the_marks_in_the_order_of_time_with_a_visible_focus(chromium: Browser, made: Made) -> None:
    with visit(chromium, made.page("stale"), made.root) as page:
        rows = [int(mark.get_attribute("data-row") or -1) for mark in shown_window(page).locator("[data-row]").all()]
        stops = _tabbed(page)
        columns = made.records["stale"].lanes[0].history.columns
    been = [stop["row"] for stop in stops if stop["row"] >= 0]
    assert sorted(been) == sorted(rows)
    times = [int(columns["ret"][row] or columns["inv"][row]) for row in been]
    assert times == sorted(times)
    assert [stop for stop in stops if not (stop["seen"] and stop["ring"])] == []


def test_keys_and_a_button_step_through_the_violations(chromium: Browser, made: Made) -> None:
    with visit(chromium, made.page("recorded"), made.root) as page:
        told = []
        for number, way in ((1, ""), (2, "n"), (1, "p"), (2, "button")):
            if way == "button":
                shown_lane(page).get_by_role("button", name="next violation", exact=True).click()
            elif way:
                page.keyboard.press(way)
            expect(shown_lane(page).locator("output.step")).to_contain_text(f"violation {number} of")
            expect(shown_window(page).locator("svg").first).to_be_visible()
            expect(shown_window(page).locator(".story")).to_be_in_viewport()
            told.append(shown_window(page).inner_text())
        assert (told[0] == told[1], told[:2]) == (False, told[2:])


def test_lanes_are_chosen_by_key_and_the_address_remembers(chromium: Browser, made: Made) -> None:
    with visit(chromium, made.page("recorded"), made.root) as page:
        lanes = [one.get_attribute("data-lane") or "" for one in page.locator("section[data-lane]").all()]
        assert sorted(lanes) == sorted(one.history.facts.lane for one in made.records["recorded"].lanes)
        page.locator("input[name=lane]").first.focus()
        for name in (*lanes[1:], lanes[0]):
            page.keyboard.press("ArrowDown")
            expect(shown_lane(page)).to_have_attribute("data-lane", name)
            expect(shown_lane(page)).to_have_count(1)
        page.keyboard.press("ArrowUp")
        page.reload()
        expect(shown_lane(page)).to_have_attribute("data-lane", lanes[-1])
        expect(page.get_by_role("radio", name=lanes[-1])).to_be_checked()


def test_an_address_leads_to_a_lane_and_a_property(chromium: Browser, made: Made) -> None:
    asked = "lane=redis%2Fset%2Ffence-writes&property=no-lost-update"
    with visit(chromium, made.page("recorded"), made.root, fragment=asked) as page:
        expect(shown_lane(page)).to_have_attribute("data-lane", "redis/set/fence-writes")
        expect(shown_window(page)).to_have_attribute("data-property", "no-lost-update")


def test_commands_can_be_copied(chromium: Browser, made: Made) -> None:
    with visit(chromium, made.page("recorded"), made.root) as page:
        button = page.locator("[data-copy]").last
        command = button.locator("xpath=..").locator("code").inner_text()
        page.evaluate("window.setTimeout = () => 0")  # else the button gets its old text back after a while
        button.click()
        expect(button).not_to_have_text("copy")
        assert button.inner_text() == "copied" or page.evaluate("String(getSelection())").strip() == command.strip()


def test_a_picture_is_saved_with_the_colours_that_it_has_on_the_page(chromium: Browser, made: Made) -> None:
    fill = "mark => [getComputedStyle(mark.querySelector('path')).fill, mark.ownerDocument.contentType]"
    with visit(chromium, made.page("recorded"), made.root, scheme="dark") as page:
        shown = shown_window(page).locator("svg.picture [data-witness='1']").evaluate(fill)[0]
        saved = {}
        for kind in ("SVG", "PNG"):
            with page.expect_download() as download:
                shown_window(page).get_by_role("button", name=f"save as {kind}").click()
            saved[kind] = download.value.path().rename(made.root / download.value.suggested_filename)
        assert saved["PNG"].read_bytes().startswith(b"\x89PNG")
        assert page.url.endswith("&property=" + (shown_window(page).get_attribute("data-property") or "-"))
        page.goto(saved["SVG"].as_uri())
        assert page.locator("[data-witness='1']").evaluate(fill) == [shown, "image/svg+xml"]
