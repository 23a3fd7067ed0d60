"""The certificate is one sheet of paper, with the verdict first, and never by colour alone."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import pytest
from playwright.sync_api import Browser, ViewportSize, expect
from pypdf import PdfReader

from results.certificate.certify import sentence
from results.certificate.write_certificate import issue
from results.tests import typical, upgrades
from results.tests.browser import seeing
from results.tests.browser.visit import on_paper, unfold, visit

SHEET: Final[ViewportSize] = {"width": 718, "height": 1069}
"""An A4 sheet without its margins, in CSS pixels: what is wider is printed smaller."""

KINDS = ("clear", "lost")
Pages = Mapping[str, tuple[str, Path]]
"""Kind → the sentence of a certificate, and its page."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    found = {}
    for kind in KINDS:
        certificate, page = issue(typical.run(tmp_path_factory.mktemp(kind), lost=kind == "lost"))
        found[kind] = sentence(certificate), page
    return found


@pytest.mark.parametrize(("kind", "scheme"), [("clear", "dark"), ("lost", "light")])
def test_is_one_sheet_of_paper(chromium: Browser, pages: Pages, kind: str, scheme: Literal["light", "dark"]) -> None:
    said, path = pages[kind]
    with visit(chromium, path, path.parent, scheme=scheme) as page:
        on_paper(page)
        page.set_viewport_size(SHEET)
        width = page.evaluate("document.documentElement.scrollWidth")
        faint = seeing.faint(seeing.texts(page, on_paper=True))
        printed = PdfReader(io.BytesIO(page.pdf(prefer_css_page_size=True)))
    text = " ".join(" ".join(sheet.extract_text() for sheet in printed.pages).split())
    assert width == SHEET["width"]
    assert len(printed.pages) == 1
    size = printed.pages[0].mediabox
    assert (round(float(size.width)), round(float(size.height))) == (595, 842)
    assert faint == []
    assert 0 <= text.find(said) < 200
    for told in ("No way back from", "baseline", "candidate", "mixed", "after rollback", "24,360", "suites/", "verify"):
        assert told in text
    assert "3 of 3 (LeaseForToken, WatchesTheHolder, WithoutLease)" in text


def test_the_heading_is_the_verdict_with_its_sign(chromium: Browser, pages: Pages) -> None:
    lost = "✖ REGRESSION: etcd-session lost fenced-store during the rolling upgrade"
    for kind, heading in (("clear", "✔ NO REGRESSION FOUND (2 defects cleared)"), ("lost", lost)):
        _, path = pages[kind]
        with visit(chromium, path, path.parent) as page:
            expect(page.get_by_role("heading", level=1)).to_have_text(heading)
            assert float(page.locator("h1").evaluate("(one) => parseFloat(getComputedStyle(one).fontSize)")) >= 24


def test_every_promise_has_its_evidence_in_each_stage(chromium: Browser, pages: Pages) -> None:
    _, path = pages["lost"]
    with visit(chromium, path, path.parent) as page:
        first = page.locator("table.promises tbody tr").first
        assert first.locator("th").inner_text() == "fenced-store lost"
        links = [one.get_attribute("href") for one in first.locator("td a").all()]
        unfold(page)
        assert page.locator("table.promises tbody tr").count() == len(typical.LOCKS) * len(typical.PROMISES)
    stages = [str(link).rpartition("-")[2].removesuffix("/index.html") for link in links]
    assert stages == ["baseline", "candidate", "mixed", "rollback"]
    assert all((path.parent / str(link)).exists() for link in links)


def test_says_what_is_not_conclusive_and_what_was_refused(chromium: Browser, tmp_path: Path) -> None:
    run = upgrades.run(tmp_path, parts=("baseline", "candidate"))
    run.close({"interrupted": True})
    _, path = issue(run)
    with visit(chromium, path, path.parent) as page:
        expect(page.get_by_role("heading", level=1)).to_have_text("? INCONCLUSIVE: the run was interrupted")
        expect(page.get_by_role("region", name="What is not conclusive")).to_contain_text("the run was interrupted")
    _, path = issue(upgrades.closed(tmp_path / "rolled"))
    with visit(chromium, path, path.parent) as page:
        steps = page.get_by_role("region", name="Rolling upgrade, and rolling back")
        expect(steps).to_contain_text("2.5 s redis2 from 7.0 to 8.0; 6.2 s redis1 (leader) from 7.0 to 8.0")
        expect(steps).to_contain_text("refused redis1 stays 8.0: it does not start on its data")
