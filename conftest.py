"""Pytest's side of `pytest suites/`: the options, a test per (lane, property, fault), and the matrix at the end.

Each test of `suites/` names the property that it asks about with a marker. The trial behind it runs once for all the
tests that it answers; with ``-n`` the trials of one backend stay on one worker, so that each boots once; only
the last backend's are shared.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from results.run import Run
    from suites.options import Asked
    from suites.session import Answer, Session

SUITES = Path(__file__).parent / "suites"
ENVIRONMENT_FAILED = 4

_asked: pytest.StashKey[Asked] = pytest.StashKey()
_run: pytest.StashKey[Run] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    from suites.options import add_options

    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "property(name): the property of design that the test asks about")
    if _asks_suites(config):
        from suites.options import BadOption, parse

        try:
            config.stash[_asked] = parse(config.option)
        except BadOption as error:
            raise pytest.UsageError(str(error)) from error


def _asks_suites(config: pytest.Config) -> bool:
    """Whether the product is run, rather than the project's own tests."""
    paths = [(config.invocation_params.dir / arg.partition("::")[0]).resolve() for arg in config.args]
    return any(path == SUITES or (path.parent == SUITES and path.name.startswith("test_")) for path in paths)


def pytest_sessionstart(session: pytest.Session) -> None:
    """The controller opens the run folder; xdist's workers are told where it is."""
    config = session.config
    if _asked not in config.stash or config.option.collectonly:
        return
    from infra import client, external, machine, reach
    from infra.faults.fault import PUBLISHED
    from results.run import Run

    try:
        engine = client.connect()
    except machine.Trouble as trouble:
        raise pytest.UsageError(str(trouble)) from trouble
    asked = config.stash[_asked]
    if reach.needs_published(engine):
        world = external.world(asked.hooks, published=True) if asked.targets else PUBLISHED
        asked = replace(asked, worlds=dict.fromkeys(asked.backends, world))
    try:
        asked = config.stash[_asked] = replace(asked, worlds={**asked.worlds, **_without_clocks(asked, engine)})
    except machine.Trouble as trouble:
        raise pytest.UsageError(f"--version-of: {trouble}") from trouble
    engine.close()
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        config.stash[_run] = Run.open(Path(worker["fencepost_run"]))
        return
    try:
        for target in asked.targets.values():
            external.check(target)
    except machine.Trouble as trouble:
        raise pytest.UsageError(f"--target {trouble}") from trouble
    signal.signal(signal.SIGTERM, _terminated)
    about = {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": ["pytest", *config.invocation_params.args],
        "seed": asked.seed,
        "profile": asked.profile.name,
        "plans": [plan.to_json() for plan in asked.plans.values()],
        "versions": dict(asked.versions),
        "targets": {name: [f"{host}:{port}" for host, port in one.addresses] for name, one in asked.targets.items()},
    }
    try:
        config.stash[_run] = Run.create(asked.results, about)
    except OSError as error:
        raise pytest.UsageError(f"--results {asked.results}: {error.strerror}") from error
    config.stash[_run].save_not_run(asked.not_run())


def _without_clocks(asked: Asked, engine: Any) -> dict[str, Any]:
    """Backend -> its world, where an image of the user's own has no clock that can be set."""
    from infra import clocks, images
    from infra.faults.fault import NO_CLOCK, OURS

    worlds = {}
    for backend, version in asked.versions.items():
        image = images.resolve(backend, version)
        if image.suite is None:  # the user's own
            images.ensure(image)
            if not clocks.in_image(engine, image.name):
                worlds[backend] = asked.worlds.get(backend, OURS).without("clock", NO_CLOCK)
    return worlds


def _terminated(_number: int, _frame: object) -> None:
    """SIGTERM ends a run as Ctrl-C does, with everything cleaned up."""
    pytest.exit("terminated", returncode=pytest.ExitCode.INTERRUPTED)


@pytest.hookimpl(tryfirst=True)
def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Wherever it came: pytest must be able to tell of it, or the run ends as an internal error."""
    from infra import lifetime

    lifetime.printable(excinfo.value)
    excinfo.traceback = pytest.ExceptionInfo.from_exception(excinfo.value).traceback


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist: runs in the controller for each worker."""
    if _run in node.config.stash:
        node.workerinput["fencepost_run"] = str(node.config.stash[_run].path)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """xdist: the tests of one backend go to one worker, in order. Its own groups do not work with pytest 9.

    Those of the last backend go to whoever has nothing left to do, fault by fault; but what is not ours is one cluster.
    """
    if _asked not in config.stash:
        return None
    from xdist.scheduler import LoadScopeScheduling

    asked = config.stash[_asked]
    shared = [backend for backend in asked.backends[-1:] if backend not in asked.targets]
    scopes = {
        f"{lane.name}-{fault}]": f"{lane.backend} under {fault}" if lane.backend in shared else lane.backend
        for lane in asked.lanes
        for fault in asked.faults
    }

    class ByBackend(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return scopes.get(nodeid.partition("[")[2], "")

    return ByBackend(config, log)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "answer" not in metafunc.fixturenames:
        return
    asked = metafunc.config.stash.get(_asked, None)
    marker = metafunc.definition.get_closest_marker("property")
    assert marker is not None, "a test that takes an answer names its property"
    cases = asked.cases(marker.args[0]) if asked is not None else []
    metafunc.parametrize("answer", cases, ids=[case.id for case in cases], indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """All tests that one trial answers stand together, in the order of backends and faults."""
    from suites.options import Case

    asked = config.stash.get(_asked, None)
    if asked is None:
        return

    parts = {
        (lane, fault): number
        for backend in asked.backends
        for fault in asked.faults
        for number, lanes in enumerate(asked.parts(backend, fault))
        for lane in lanes
    }

    def trial(item: pytest.Item) -> tuple[int, int, int]:
        spec = getattr(item, "callspec", None)
        case = spec.params.get("answer") if spec is not None else None
        if not isinstance(case, Case):
            return (-1, -1, -1)  # pytest's own stand-in for a property that has no case in this run
        part = parts.get((case.lane, case.fault), -1)  # of those that cannot be asked: none
        return asked.backends.index(case.lane.backend), asked.faults.index(case.fault), part

    items.sort(key=trial)


@pytest.fixture(scope="session")
def interruptible() -> None:
    """For the project's own tests: in a job of the background SIGINT is ignored, and in all that it starts as well."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def trials(request: pytest.FixtureRequest) -> Iterator[Session]:
    """This process's share of the run: an environment, made when it is first needed."""
    from suites.session import Session

    config = request.config
    session = Session(config.stash[_asked], config.stash[_run], lambda line: _say(config, line))
    yield session
    session.close()


@pytest.fixture
def answer(request: pytest.FixtureRequest) -> Answer:
    """What the case of this test came to. A case that does not apply is skipped with its reason."""
    case = request.param
    if case.because is not None:
        pytest.skip(f"not applicable: {case.because}")
    from infra.machine import Trouble
    from suites.session import TrialFailed
    from suites.workers import TrialBroke

    session: Session = request.getfixturevalue("trials")
    try:
        given = session.answer(case)
    except Trouble as trouble:
        told = request.config.stash[_asked].masked(str(trouble))
        request.node.user_properties.append(("environment", told))
        if request.config.stash[_asked].targets:  # not ours to try again
            request.session.shouldstop = told
        raise pytest.fail.Exception(told, pytrace=False) from None
    except (TrialFailed, TrialBroke) as failed:
        raise pytest.fail.Exception(request.config.stash[_asked].masked(str(failed)), pytrace=False) from None
    request.node.user_properties += [
        ("verdict", str(given.judgement.word)),
        ("page", str(given.page)),
        ("trials", given.attempts),
    ]
    return given


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """An environment that cannot be made decides the exit status."""
    for name, value in report.user_properties:
        if name == "environment":
            _environment_failures.append(str(value))


_environment_failures: list[str] = []


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _environment_failures:
        session.exitstatus = ENVIRONMENT_FAILED


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """The matrix, the stories of what failed, and where the page is."""
    run = config.stash.get(_run, None)
    if run is None or hasattr(config, "workerinput"):
        return
    from rich.console import Console

    from results.matrix import render

    about = {"finished": datetime.now(UTC).isoformat(timespec="seconds"), "exit status": int(exitstatus)}
    if exitstatus == pytest.ExitCode.INTERRUPTED:
        about["interrupted"] = True
        terminalreporter.section("interrupted: what follows is only a part", red=True)
    page = run.close(about)
    terminalreporter.section("locks × faults")
    contents = run.read()
    render(contents.cells, Console(file=terminalreporter._tw._file), contents.problems)
    terminalreporter.write_line(f"report: {page}")


def _say(config: pytest.Config, line: str) -> None:
    """One line of progress, past the capture and, in xdist's workers, past their closed output."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        os.write(2, f"{datetime.now().astimezone():%H:%M:%S} {line}\n".encode())
        sys.stderr.flush()
