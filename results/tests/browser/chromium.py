"""The browser: found, and started.

The tests drive the Chromium of the machine (Debian's), with what Playwright has for it; nothing is downloaded.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import Browser, sync_playwright

from infra.docker.doctor import BROWSERS, find_browser

MISSING: Final = f"no {BROWSERS[0]} here (Debian: apt-get install {BROWSERS[0]}; make test does so where it may)"


@contextmanager
def started() -> Iterator[Browser]:
    """A browser without a window. Raises FileNotFoundError where there is none."""
    path = find_browser()
    if path is None:
        raise FileNotFoundError(MISSING)
    # Its sandbox refuses to serve root. Whatever it asks of a network by itself ends nowhere.
    options = ["--host-resolver-rules=MAP * ~NOTFOUND", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=options)
        try:
            yield browser
        finally:
            browser.close()
