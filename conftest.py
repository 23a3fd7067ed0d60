"""`pytest suites/`, the product, gets its plugin (`suites.plugin`); all other runs are of the project's own tests."""

from __future__ import annotations

import signal

import pytest


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    from suites.loader import Loader
    from suites.selection.options import add_options

    add_options(parser)
    parser.addoption(
        "--no-color", dest="color", action="store_const", const="no", default="auto", help="the same as --color=no"
    )
    pluginmanager.register(Loader(parser), "fencepost-loader")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The product's tests have no case where they are collected beside others."""
    if "answer" in metafunc.fixturenames and not metafunc.config.pluginmanager.hasplugin("fencepost"):
        metafunc.parametrize("answer", [])


@pytest.hookimpl(tryfirst=True)
def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Wherever it came: pytest must be able to tell of it, or the run ends as an internal error."""
    from infra import lifetime

    lifetime.printable(excinfo.value)
    excinfo.traceback = pytest.ExceptionInfo.from_exception(excinfo.value).traceback


@pytest.fixture(scope="session")
def interruptible() -> None:
    """For the project's own tests: in a job of the background SIGINT is ignored, and in all that it starts as well."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
