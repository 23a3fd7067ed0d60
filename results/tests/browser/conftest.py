"""A browser for each test process, and run folders with every kind of page."""

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from infra.docker.doctor import find_browser
from results.tests.browser import chromium as chromiums
from results.tests.browser.made import Made


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if find_browser() is None:
        if os.environ.get("CI", "").lower() not in ("", "0", "false"):
            pytest.fail(f"{chromiums.MISSING}: in CI these tests must not be skipped")
        pytest.skip(chromiums.MISSING)
    with chromiums.started() as browser:
        yield browser


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("runs"))
