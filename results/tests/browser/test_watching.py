"""What watches over the pages sees what it is there for."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from results.tests.browser.visit import settle, visit

POLICY = "default-src 'none'; script-src 'sha256-none'"

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
"""What was never drawn has not moved: it waits for the first paint."""

ILL = {
    "console": ("<script>console.warn('of ours')</script>", "of ours"),
    "exception": ("<script>throw new Error('of ours')</script>", "of ours"),
    "network": ("<img src='https://fencepost.invalid/a.png'>", "asked for https://fencepost.invalid/a.png"),
    "other file": ("<script src='../other/assets/a.js'></script>", "other/assets/a.js"),
    "beside": ("<link rel=stylesheet href='a.css'>", "a.css"),
    "dialog": ("<script>alert('of ours')</script>", "dialog: of ours"),
    "policy": (
        f'<meta http-equiv=Content-Security-Policy content="{POLICY}"><script>1</script>',
        "refused by its own policy: script-src",
    ),
    "shift": (_MOVES, "moved by"),
}


@pytest.mark.parametrize("kind", ILL)
def test_what_a_page_must_not_do_is_seen(chromium: Browser, tmp_path: Path, kind: str) -> None:
    body, said = ILL[kind]
    path = tmp_path / "run" / "index.html"
    path.parent.mkdir()
    path.write_text(f"<!doctype html><title>x</title><link rel=icon href='data:,'>{body}")
    with pytest.raises(AssertionError, match="index") as caught:
        _see(chromium, path, late=kind == "shift")
    assert said in str(caught.value)


def _see(chromium: Browser, path: Path, *, late: bool) -> None:
    """late: what is wrong comes after a while."""
    with visit(chromium, path, path.parent) as page:
        if late:
            page.wait_for_selector("hr", state="attached")
            settle(page)


def test_a_page_may_read_the_assets_of_its_run(chromium: Browser, tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "a.js").write_text("globalThis.read = true;")
    path = tmp_path / "index.html"
    path.write_text("<!doctype html><link rel=icon href='data:,'><p>x<script src='assets/a.js'></script>")
    with visit(chromium, path, tmp_path) as page:
        assert page.evaluate("globalThis.read") is True
