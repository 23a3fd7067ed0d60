"""A plugin of pytest: which of its runs are runs of the product, and what those get. With `--count N` or
`--until-failed` that is the same run again and again, each with the next seed and a folder of its own.
"""

import itertools
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from results.text import without_options

SUITES: Final = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
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


class Loader:
    """Keeps pytest's parser, which reads the command of a run that is resumed as well."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int | None:
        if not (_runs_the_product(config) and several(config.option)):
            return None
        return run_all(config.option, config.invocation_params.args, config.invocation_params.dir)

    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", "property(name): the property of design that the test asks about")
        config.addinivalue_line("markers", "planted: the test asks about locks that are broken on purpose")
        if _runs_the_product(config):
            from suites.plugin import Product

            config.pluginmanager.register(Product(config, self._parser), "fencepost")


def _runs_the_product(config: pytest.Config) -> bool:
    paths = [(config.invocation_params.dir / arg.partition("::")[0]).resolve() for arg in config.args]
    return any(path == SUITES or (path.parent == SUITES and path.name.startswith("test_")) for path in paths)


def several(option: Any) -> bool:
    """Whether pytest's parsed options ask for more than one run. A run that is resumed is one."""
    return option.resume is None and (option.until_failed or (option.count or 1) > 1)


def run_all(option: Any, words: Sequence[str], folder: Path) -> int:
    """Run one after another. Returns 0 if all were green, else the status of the first that was not.

    words: of the command line; folder: where it was typed. A run that neither failed nor passed is the last, and with
    `--until-failed` one that failed is as well.
    """
    endless = option.until_failed and option.count is None
    numbers: Iterable[int] = itertools.count(1) if endless else range(1, (option.count or 1) + 1)
    of_one = without_options(words, ("--count", "--seed"), ("--until-failed",))
    statuses: dict[int, int] = {}
    for number in numbers:
        seed = option.seed + number - 1
        print(f"run {number}{'' if endless else f' of {option.count}'}: seed {seed}", flush=True)
        status = statuses[seed] = run_pytest([*of_one, "--seed", str(seed)], folder)
        if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or (status and option.until_failed):
            break
    red = {seed: status for seed, status in statuses.items() if status}
    which = "".join(f"; seed {seed}: exit status {status}" for seed, status in red.items())
    print(f"{len(statuses)} runs, {len(statuses) - len(red)} green{which}", flush=True)
    return next(iter(red.values()), 0)


def run_pytest(words: Sequence[str], folder: Path) -> int:
    """The exit status of `pytest` with these words. Ctrl-C reaches it by itself; told to end, we tell it so."""
    process = subprocess.Popen([sys.executable, "-m", "pytest", *words], cwd=folder)
    before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        while True:
            with suppress(KeyboardInterrupt):
                return process.wait()
    finally:
        signal.signal(signal.SIGTERM, before)
