"""`pytest suites/`, the product, gets its plugin (`suites.loader`); all other runs are of the project's own tests."""

from __future__ import annotations

import signal

import pytest

pytest_plugins = ["suites.loader"]


@pytest.fixture(scope="session")
def interruptible() -> None:
    """For the project's own tests: let SIGINT interrupt. A background job and the processes it starts ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
