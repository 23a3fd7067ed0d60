"""Every page opens from disk: in silence, without a request beyond its folder, without moving by itself."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser, expect

from results.tests.browser.made import PAGES, Made
from results.tests.browser.visit import meddle, settle, unfold, visit

_LINKS = (
    "[...document.querySelectorAll('[href]')].map((one) => new URL(one.getAttribute('href'), document.baseURI).href)"
)

_WIDTH = "document.documentElement.scrollWidth"


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_files_and_a_phone_needs_no_scrolling(chromium: Browser, made: Made, name: str) -> None:
    with visit(chromium, made.page(name), made.root) as page:
        assert page.title().endswith("fencepost")
        assert page.get_by_role("heading", level=1).count() == 1
        assert page.get_by_role("heading", level=1).is_visible()
        for drawing in page.locator(".timeline canvas:visible").all():
            expect(drawing).to_have_attribute("data-ready", "true")
        links = page.evaluate(_LINKS)
        meddle(page).set_viewport_size({"width": 400, "height": 800})
        settle(page)
        widths = [page.evaluate(_WIDTH)]
        unfold(page)
        widths.append(page.evaluate(_WIDTH))
    assert widths == [400, 400]
    for link in links:
        parts = urlsplit(link)
        if parts.scheme != "data":
            assert parts.scheme == "file", link
            target = Path(unquote(parts.path))
            assert target.exists(), link
            assert target.is_relative_to(made.root), link


def test_no_page_is_left_out(made: Made) -> None:
    pages = made.every_page()
    assert set(made.root.rglob("*.html")) == pages
