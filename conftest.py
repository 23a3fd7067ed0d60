"""Pytest's side of `pytest suites/`: the options, a test per (lane, property, fault), and the matrix at the end.

Each test of `suites/` names the property that it asks about with a marker. The trial behind it runs once for all the
tests that it answers; with ``-n`` the trials of one backend stay on one worker, so that each boots once; only
the last backend's are shared.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from results.run import Run
    from results.terminal.events import Journal
    from suites.asked import Asked
    from suites.session import Answer, Session

SUITES = Path(__file__).parent / "suites"
ENVIRONMENT_FAILED = 4

JUDGED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
"""What pytest says of a run that came to its end."""

WORKERS_END_WITHIN = 30
"""Seconds; longer than the fifteen after which an interrupted process of xdist ends itself, whatever it is doing."""

_asked: pytest.StashKey[Asked] = pytest.StashKey()
_run: pytest.StashKey[Run] = pytest.StashKey()
_journal: pytest.StashKey[Journal] = pytest.StashKey()
_interrupted: pytest.StashKey[Run] = pytest.StashKey()
"""The run that is to go on."""
_parsers: list[pytest.Parser] = []
"""pytest's own, which reads the command of that run as well."""


def pytest_addoption(parser: pytest.Parser) -> None:
    from suites.options import add_options

    _parsers.append(parser)
    add_options(parser)
    parser.addoption(
        "--no-color", dest="color", action="store_const", const="no", default="auto", help="the same as --color=no"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "property(name): the property of design that the test asks about")
    config.addinivalue_line("markers", "planted: the test asks about locks that are broken on purpose")
    if _asks_suites(config):
        from suites.options import BadOption, parse

        config.option.showcapture = "no"  # what client libraries log of the faults that are done to them
        _only_what_is_there(config)

        try:
            if config.option.resume is not None:
                _resume(config)
            config.stash[_asked] = parse(config.option)
        except BadOption as error:
            raise pytest.UsageError(str(error)) from error
        _side_by_side(config)


def _only_what_is_there(config: pytest.Config) -> None:
    """What pytest would find only when the run has begun: the second word of `--faults kill-server freeze-holder`."""
    for arg in config.args:
        if not (config.invocation_params.dir / arg.partition("::")[0]).exists() and not config.option.pyargs:
            told = "an option takes one value: --faults a,b and --lock a --lock b"
            raise pytest.UsageError(f"file or directory not found: {arg} ({told})")


def _resume(config: pytest.Config) -> None:
    """Take what is asked for from the run that is to go on. Raises BadOption."""
    from results.run import Run
    from suites import resume

    worker = getattr(config, "workerinput", None)
    run = (
        resume.interrupted(config.option.resume, Path(config.option.results))
        if worker is None
        else Run.open(Path(worker["fencepost_run"]))
    )
    words = list(map(str, config.invocation_params.args))
    resume.take_options(config.option, words, config.invocation_params.dir, run, _parsers[-1].parse_known_args)
    config.stash[_interrupted] = run


def _side_by_side(config: pytest.Config) -> None:
    """Where an upgrade is certified, which is every trial twice, two go on at a time, unless `-n` says how many."""
    from suites.stages import ONLY

    asked, option = config.stash[_asked], config.option
    certified = asked.stages is not ONLY and len(asked.backends) * len(asked.faults) > 1
    unsaid = getattr(option, "numprocesses", 0) is None and option.dist == "no" and not option.usepdb
    if certified and unsaid and not hasattr(config, "workerinput"):
        option.dist, option.tx = "load", ["2*popen"]


def pytest_report_header(config: pytest.Config) -> list[str]:
    from suites import stages

    return stages.told(config.stash[_asked].stages) if _asked in config.stash else []


def _asks_suites(config: pytest.Config) -> bool:
    """Whether the product is run, rather than the project's own tests."""
    paths = [(config.invocation_params.dir / arg.partition("::")[0]).resolve() for arg in config.args]
    return any(path == SUITES or (path.parent == SUITES and path.name.startswith("test_")) for path in paths)


def pytest_sessionstart(session: pytest.Session) -> None:
    """The controller opens the run folder; xdist's workers are told where it is."""
    config = session.config
    if _asked not in config.stash or config.option.collectonly:
        return
    from infra import client, external, lifetime, machine, reach
    from infra.faults.fault import PUBLISHED
    from results.run import Run
    from results.terminal.events import Journal
    from suites import resume
    from suites.about import suite_version
    from suites.options import BadOption
    from suites.terminal import Terminal

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
        raise pytest.UsageError(str(trouble)) from trouble
    engine.close()
    for number in lifetime.SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, _terminated)
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        config.stash[_run] = run = Run.join(Path(worker["fencepost_run"]))
        config.stash[_journal] = Journal(run.path, worker["workerid"])
        return
    try:
        for target in asked.targets.values():
            external.check(target)
    except machine.Trouble as trouble:
        raise pytest.UsageError(f"--target {trouble}") from trouble
    about = {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": ["pytest", *config.invocation_params.args],
        "seed": asked.seed,
        "profile": asked.profile.name,
        "shard": None if asked.shard is None else str(asked.shard),
        "plans": [plan.to_json() for plan in asked.plans.values()],
        "versions": dict(asked.versions),
        "stages": {stage.name: dict(stage.versions) for stage in asked.stages if stage.name and not stage.columns},
        "suite": suite_version(),
        "parts": [stage.name for stage in asked.stages if stage.name and any(map(stage.tries, asked.faults))],
        "targets": {name: [f"{host}:{port}" for host, port in one.addresses] for name, one in asked.targets.items()},
    }
    resumed = None
    try:
        if (interrupted := config.stash.get(_interrupted, None)) is None:
            run = Run.create(asked.results, about)
        else:
            run, resumed = resume.go_on(asked, interrupted)
    except OSError as error:
        raise pytest.UsageError(f"--results {asked.results}: {error.strerror}") from error
    except BadOption as error:
        raise pytest.UsageError(str(error)) from error
    config.stash[_run] = run
    run.save_not_run(asked.not_run())
    config.stash[_journal] = Journal(run.path, "main")
    if config.pluginmanager.hasplugin("terminalreporter"):
        config.pluginmanager.register(Terminal(config, asked, run), "fencepost-terminal")
    if resumed is not None:
        config.stash[_journal].tell(resumed)


def _without_clocks(asked: Asked, engine: Any) -> dict[str, Any]:
    """Backend -> its world, where an image of the user's own has no clock that can be set."""
    from infra import clocks, images
    from infra.faults.fault import NO_CLOCK, OURS

    worlds = {}
    named = [asked.versions, *(stage.versions for stage in asked.stages)]
    for backend, version in (pair for versions in named for pair in versions.items()):
        image = images.resolve(backend, version)
        if image.suite is None:  # the user's own
            images.ensure(image)
            if not clocks.in_image(engine, image.name):
                worlds[backend] = asked.worlds.get(backend, OURS).without("clock", NO_CLOCK)
    return worlds


def _terminated(number: int, _frame: object) -> None:
    """SIGTERM, or a terminal that is closed, ends a run as Ctrl-C does, with everything cleaned up; once is enough."""
    signal.signal(number, lambda *_: None)
    raise KeyboardInterrupt("terminated")  # pytest's own Exit is an Exception, which a trial takes for its own end


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
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Runs in the controller. It must outlive its workers, to remove what they leave: see `pytest_unconfigure`."""
    if _asked in config.stash:
        from xdist.workermanage import NodeManager

        NodeManager.EXIT_TIMEOUT = WORKERS_END_WITHIN


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """xdist: runs in the controller."""
    if _asked not in config.stash:
        return None
    from suites.scheduling import ByBackend

    return ByBackend(config.stash[_asked], config, log)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "answer" not in metafunc.fixturenames:
        return
    asked = metafunc.config.stash.get(_asked, None)
    marker = metafunc.definition.get_closest_marker("property") or metafunc.definition.get_closest_marker("planted")
    assert marker is not None, "a test that takes an answer names its property"
    cases = []
    if asked is not None:
        cases = asked.planted_cases() if marker.name == "planted" else asked.cases(*marker.args)
    metafunc.parametrize("answer", cases, ids=[case.id for case in cases], indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """All tests that one trial answers stand together, in the order of backends and faults."""
    asked = config.stash.get(_asked, None)
    if asked is None:
        return
    from suites.stages import in_turn
    from suites.terminal import case_of

    without = [item for item in items if case_of(item) is None and "answer" in getattr(item, "fixturenames", ())]
    if without:  # pytest's stand-ins for properties that have no case in this run
        config.hook.pytest_deselected(items=without)
        items[:] = [item for item in items if item not in without]

    order = [[stage.name for stage in in_turn(asked.stages, number)] for number in range(len(asked.faults))]
    parts = {
        (lane, fault): number
        for backend in asked.backends
        for fault in asked.faults
        for number, lanes in enumerate(asked.parts(backend, fault))
        for lane in lanes
    }

    def trial(item: pytest.Item) -> tuple[int, ...]:
        case = case_of(item)
        if case is None:
            return (-1, -1, -1, -1)
        part = parts.get((case.lane, case.fault), -1)  # of those that cannot be asked: none
        column = asked.faults.index(case.fault)
        return asked.backends.index(case.lane.backend), column, part, order[column].index(case.stage)

    items.sort(key=trial)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Once, which trials there will be: the processes of xdist all collect the same."""
    config = session.config
    worker = getattr(config, "workerinput", {"workerid": "gw0"})
    if _journal in config.stash and session.items and worker["workerid"] == "gw0":
        from suites.terminal import plans

        for plan in plans(config.stash[_asked], session.items):
            config.stash[_journal].tell(plan)


@pytest.fixture(scope="session")
def interruptible() -> None:
    """For the project's own tests: in a job of the background SIGINT is ignored, and in all that it starts as well."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def trials(request: pytest.FixtureRequest) -> Iterator[Session]:
    """This process's share of the run: an environment, made when it is first needed."""
    from suites.resume import stored_in
    from suites.session import Session, nothing_stored

    config = request.config
    run = config.stash[_run]
    stored = stored_in(run) if _interrupted in config.stash else nothing_stored
    session = Session(config.stash[_asked], run, config.stash[_journal].tell, stored)
    yield session
    session.close()


@pytest.fixture
def answer(request: pytest.FixtureRequest) -> Answer:
    """What the case of this test came to. A case that does not apply is skipped with its reason."""
    from infra.machine import Trouble
    from results.text import plain_lines
    from suites.session import TrialFailed
    from suites.terminal import NOT_JUDGED, place_of, verdict_of
    from suites.workers import TrialBroke

    case, asked, told = request.param, request.config.stash[_asked], request.node.user_properties
    told += place_of(case)
    if case.because is not None:
        pytest.skip(f"not applicable: {plain_lines(case.because)}")
    session: Session = request.getfixturevalue("trials")
    try:
        given = session.answer(case)
    except Trouble as trouble:
        text = plain_lines(asked.masked(str(trouble)))
        told.append(("environment", text))
        if asked.targets:  # not ours to try again
            request.session.shouldstop = text
        raise pytest.fail.Exception(text, pytrace=False) from None
    except OSError as error:  # of the run folder: a full disk, say
        text = f"--results: {error.filename or request.config.stash[_run].path}: {error.strerror or error}"
        told.append(("environment", text))
        request.session.shouldstop = text
        raise pytest.fail.Exception(plain_lines(text), pytrace=False) from None
    except (TrialFailed, TrialBroke) as failed:
        if isinstance(failed, TrialFailed):
            told.append((NOT_JUDGED, "True"))
        raise pytest.fail.Exception(plain_lines(asked.masked(str(failed))), pytrace=False) from None
    told += verdict_of(given, request.config.stash[_run].path)
    return given


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """An environment that cannot be made decides the exit status."""
    for name, value in report.user_properties:
        if name == "environment":
            _environment_failures.append(str(value))


_environment_failures: list[str] = []


def pytest_unconfigure(config: pytest.Config) -> None:
    """Environments whose worker was killed, or was not given the time to remove them, are removed by the controller."""
    if _run not in config.stash or hasattr(config, "workerinput"):
        return
    from infra import client, machine, reaper

    try:
        reaper.reap(client.connect(), machine.say)
    except machine.Trouble as trouble:
        machine.say(f"{trouble}; python -m infra down removes what is left")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if _environment_failures:
        session.exitstatus = ENVIRONMENT_FAILED
