"""A scorecard answers on the first screen of any size, and leads by keyboard alone to the trial behind the answer."""

import pytest
from playwright.sync_api import Browser, expect

from results.tests.browser import seeing
from results.tests.browser.made import Made
from results.tests.browser.visit import Scheme, box, visit


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (900, "dark"), (390, "light")])
def test_the_answer_is_on_the_first_screen(chromium: Browser, made: Made, width: int, scheme: Scheme) -> None:
    with visit(chromium, made.page("scorecard"), made.root, width=width, height=900, scheme=scheme) as page:
        expect(page.get_by_role("heading", level=1)).to_have_text("May I use redis where lost data costs money?")
        answer = page.get_by_role("region", name="redis on redis").first.get_by_role("heading")
        expect(answer).to_contain_text("Not by itself: a paused holder's write was accepted")
        assert box(answer)["y"] + box(answer)["height"] < 500
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert seeing.faint(seeing.texts(page)) == []
        row = page.get_by_role("row").filter(has_text="never two inside at once")
        mark = row.locator("a.mark.w-weakness_shown").first
        expect(mark).to_contain_text("◆ weakness")
        assert box(mark)["x"] + box(mark)["width"] <= width
        for _ in range(100):
            page.keyboard.press("Tab")
            if mark.evaluate("(link) => link === document.activeElement"):
                break
        page.keyboard.press("Enter")
        page.wait_for_url("**/trials/**")
        chosen = page.locator("section[data-lane]:not([hidden])")
        expect(chosen.locator("[data-window]:not([hidden])")).to_have_attribute("data-property", "holder-exclusion")
