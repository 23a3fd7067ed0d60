"""A browser (Debian's Chromium of this machine, driven by Playwright), and run folders with every kind of page."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from infra.docker.doctor import BROWSERS, find_browser
from results.tests.browser.made import Made
from results.tests.browser.visit import PATIENCE

MISSING: Final = f"no {BROWSERS[0]} here (Debian: apt-get install {BROWSERS[0]}; make test does so where it may)"

expect.set_options(timeout=PATIENCE)


@contextmanager
def started() -> Iterator[Browser]:
    """A browser without a window, closed at the end. Raises FileNotFoundError if this machine has none."""
    path = find_browser()
    if path is None:
        raise FileNotFoundError(MISSING)
    # The browser's sandbox does not work for root. No host name resolves, so requests to the network fail.
    options = ["--host-resolver-rules=MAP * ~NOTFOUND", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=options, timeout=PATIENCE)
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if find_browser() is None:
        if os.environ.get("CI", "").lower() not in ("", "0", "false"):
            pytest.fail(f"{MISSING}: in CI these tests must not be skipped")
        pytest.skip(MISSING)
    with started() as browser:
        yield browser


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("runs"))
