"""A plugin of pytest: which of its runs are runs of the product, and what such a run gets."""

from pathlib import Path
from typing import Any, Final

import pytest

from suites import rounds

SUITES: Final = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    from suites.selection.options import add_options

    add_options(parser)
    parser.addoption(
        "--no-color", dest="color", action="store_const", const="no", default="auto", help="the same as --color=no"
    )
    pluginmanager.register(Loader(parser), "fencepost-loader")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The product's tests have no cases if they are collected beside other tests."""
    if "answer" in metafunc.fixturenames and not metafunc.config.pluginmanager.hasplugin("fencepost"):
        metafunc.parametrize("answer", [])


@pytest.hookimpl(tryfirst=True)
def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Let pytest report the interrupt, wherever it came; otherwise the run ends as an internal error."""
    from infra import lifetime

    lifetime.printable(excinfo.value)
    excinfo.traceback = pytest.ExceptionInfo.from_exception(excinfo.value).traceback


class Loader:
    """Keeps pytest's parser, which reads the command of a run that is resumed as well."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int | None:
        if not (_runs_the_product(config) and rounds.several(config.option)):
            return None
        return rounds.run_all(config.option, config.invocation_params.args, config.invocation_params.dir)

    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", "property(name): the property of design that the test asks about")
        config.addinivalue_line("markers", "planted: the test asks about locks that are broken on purpose")
        if _runs_the_product(config):
            from suites.plugin import Product

            config.pluginmanager.register(Product(config, self._parser), "fencepost")


def _runs_the_product(config: pytest.Config) -> bool:
    paths = [(config.invocation_params.dir / arg.partition("::")[0]).resolve() for arg in config.args]
    return any(path == SUITES or (path.parent == SUITES and path.name.startswith("test_")) for path in paths)
