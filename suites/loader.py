"""Which runs of pytest are runs of the product, and what those get."""

from pathlib import Path
from typing import Any, Final

import pytest

from suites import rounds

SUITES: Final = Path(__file__).parent


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
