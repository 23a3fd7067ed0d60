"""Which test executes which line, and how long each test takes: what `suites.tests.code_mutants record` records.

As a plugin of pytest, this module makes each test a context of its own for coverage.py, and stores its time. When
`suites.tests.code_mutants run` tries a mutant, the plugin stores the name of the test that failed.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
from coverage import Coverage, CoverageData

PLUGIN: Final = "suites.tests.recorded_tests"
ROOT: Final = Path(__file__).resolve().parents[2]
ROOMS: Final = ("checkers", "infra", "results", "suites")
RECORDED: Final = ROOT / ".mutants"  # what `record` and `run` leave: not committed
DURATIONS: Final = RECORDED / "durations.json"
LINES: Final = RECORDED / "lines"
BUDGET: Final = 90.0  # seconds of tests, as recorded, that are run for a mutant; the rest of a longer list is not run
_took: dict[str, tuple[float, bool, bool]] = {}
_coverage: list[Coverage] = []
_begun: set[str] = set()


class Tests:
    def __init__(self) -> None:
        """Raises SystemExit where nothing was recorded."""
        if not DURATIONS.exists():
            raise SystemExit("nothing is recorded yet: python -m suites.tests.code_mutants record")
        self._data = CoverageData(str(LINES))
        self._data.read()
        recorded = json.loads(DURATIONS.read_text())
        files = {name.partition("::")[0] for name, (_, _, began) in recorded.items() if began}
        self.seconds: Mapping[str, float] = {name: took for name, (took, _, _) in recorded.items()}
        self.docker = {name for name, (_, docker, _) in recorded.items() if docker}
        self._begin = {name for name in recorded if name.partition("::")[0] in files}
        self._lines: dict[str, dict[int, set[str]]] = {}

    def of(self, file: str, number: int) -> list[str]:
        """The tests that execute a line of a file: the shortest first, those that need Docker last.

        A line that no test executes itself is taken for one of the processes that tests start.
        """
        if file not in self._lines:
            contexts = self._data.contexts_by_lineno(str(ROOT / file))
            self._lines[file] = {number: set(names) - {""} for number, names in contexts.items()}
        lines = self._lines[file]
        tests = lines.get(number, set()) or (set().union(*lines.values()) if number in lines else self._begin)
        return sorted(tests & self.seconds.keys(), key=lambda test: (test in self.docker, self.seconds[test], test))

    def chosen(self, tests: Sequence[str], *, docker: bool) -> tuple[list[str], float]:
        """As many tests as the budget allows, at least one, and their seconds. docker: whether they may need Docker."""
        result: list[str] = []
        total = 0.0
        for test in tests:
            if (test in self.docker) <= docker and (not result or total + self.seconds[test] <= BUDGET):
                result.append(test)
                total += self.seconds[test]
        return result, total


def record(arguments: Sequence[str]) -> int:
    """Run all tests, with coverage.py in each of pytest's processes; returns pytest's exit status."""
    shutil.rmtree(RECORDED, ignore_errors=True)
    RECORDED.mkdir()
    folders = [str(folder.relative_to(ROOT)) for folder in sorted(ROOT.glob("*/tests"))]
    command = [sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, *folders, *arguments]
    status = subprocess.run(command, cwd=ROOT, check=False, env=os.environ | {"FENCEPOST_RECORD": "yes"}).returncode
    data = CoverageData(str(LINES))
    for part in RECORDED.glob(f"{LINES.name}.*"):
        other = CoverageData(str(part))
        other.read()
        data.update(other)
        part.unlink()
    return status


def pytest_configure(config: pytest.Config) -> None:
    if "FENCEPOST_RECORD" in os.environ:
        own = Coverage(str(LINES), data_suffix=True, source=list(ROOMS), omit=["*/tests/*"], config_file=False)
        own.start()
        _coverage.append(own)
        sys.addaudithook(lambda event, _: _begun.add(event) if event == "subprocess.Popen" else None)


def pytest_runtest_logstart(nodeid: str) -> None:
    for own in _coverage:
        own.switch_context(nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    if _begun:
        item.user_properties.append(("began a process", True))
    _begun.clear()
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    before, *_ = _took.get(report.nodeid, (0.0,))
    took = round(before + report.duration, 3)
    _took[report.nodeid] = took, "docker" in report.keywords, bool(report.user_properties)
    if report.failed and (path := os.environ.get("FENCEPOST_FAILED")):
        Path(path).write_text(report.nodeid)


def pytest_unconfigure() -> None:
    for own in _coverage:
        own.stop()
        own.save()
    if "FENCEPOST_RECORD" in os.environ and "PYTEST_XDIST_WORKER" not in os.environ:
        DURATIONS.write_text(json.dumps(_took, indent=0))
