"""Strings of a history, a plan or a client stay text on pages: they do not run, make no elements, and can be read."""

from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page

from checkers.tests.build import cases
from results.tests import hostile
from results.tests.browser.made import Made
from results.tests.browser.visit import unfold, visit

ON_RUN: Final = ("lane", "lock", "fault", "kind", "property", "reason", "story", "because", "command", "key", "value")
ON_SCORECARD: Final = ("lock", "backend", "version", "fault", "lane", "property", "kind", "reason", "story")
ON_CERTIFICATE: Final = (
    "lock", "property", "lane", "fault", "kind", "story", "aborted", "because", "version", "command", "suite",
    "planted", "rolled", "host", "component", "image", "packager",
)  # fmt: skip
NOT_ON_TRIAL: Final = ("key", "workload")  # places whose strings the trial's page does not show

_MADE: Final = """
() => ({
  ran: typeof pwned !== "undefined" && String(pwned),
  images: document.images.length,
  handlers: [...document.querySelectorAll("*")].flatMap((one) => [...one.attributes])
    .filter((one) => one.name.startsWith("on")).length,
  scripts: [...document.scripts].filter((one) => !one.type || one.type.includes("script")).length,
  titles: document.querySelectorAll("head title").length,
  urls: [...document.querySelectorAll("[href], [src]")]
    .filter((one) => /^javascript:/i.test(one.href || one.src)).length,
})
"""


def _read(page: Page) -> str:
    """All text that a person can bring into view: with every fold open, and every tip."""
    unfold(page)
    texts = [page.locator("body").inner_text()]
    for mark in page.locator("[data-tip], [tabindex='0']").all():
        if mark.is_visible():
            mark.focus()
            texts += page.get_by_role("status").all_inner_texts()
    return "\n".join(texts)


@cases(
    "name, like, places",
    ("trial", "hostile", "stale", [place for place in hostile.PLACES if place not in NOT_ON_TRIAL]),
    ("run", "hostile-run", "later-run", ON_RUN),
    ("scorecard", "hostile-scorecard", "scorecard", ON_SCORECARD),
    ("certificate", "hostile-certificate", "certificate", ON_CERTIFICATE),
)
def test_hostile_strings_stay_text(chromium: Browser, made: Made, name: str, like: str, places: list[str]) -> None:
    with visit(chromium, made.page(like), made.root) as page:
        ordinary: dict[str, Any] = page.evaluate(_MADE)
    with visit(chromium, made.page(name), made.root) as page:
        read = _read(page)
        found: dict[str, Any] = page.evaluate(_MADE)
        assert hostile.OVERRIDE not in read
    assert found == ordinary | {"ran": False, "images": 0, "handlers": 0}
    for place in places:
        # White space may be folded and quotes escaped (in JSON), so the first three attacks stand for all.
        assert f"in-{place} {''.join(hostile.ATTACKS[:3])}" in read, place


@pytest.mark.parametrize("name", ["stale", "run"])
@pytest.mark.parametrize("part", ["<img src=x onerror=pwned=7>", "lane-9", "%", "a=b&c", "__proto__=1"], ids=range(5))
def test_no_fragment_of_the_address_confuses_a_page(chromium: Browser, made: Made, name: str, part: str) -> None:
    with visit(chromium, made.page(name), made.root, fragment=part) as page:
        assert page.evaluate(_MADE)["ran"] is False
        assert page.get_by_role("heading", level=1).is_visible()
