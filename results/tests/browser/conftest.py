"""A browser for each test process, and run folders with every kind of page.

The tests drive the Chromium of the machine (Debian's), with what Playwright has for it; nothing is downloaded.
"""

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
    """A browser without a window. Raises FileNotFoundError where there is none."""
    path = find_browser()
    if path is None:
        raise FileNotFoundError(MISSING)
    # Its sandbox refuses to serve root. Whatever it asks of a network by itself ends nowhere.
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
