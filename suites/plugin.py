"""Pytest's side of `pytest suites/`: a test per (lane, property, fault), answered by the trial behind it.

Each test of `suites/` names the property that it asks about with a marker. A trial runs once and answers many tests.
`suites.terminal` prints what goes on.

With ``-n`` the tests of one backend go to one process of xdist, in order, so that each backend boots once. Those of the
last backend go, trial by trial, to any idle process, unless the cluster is a target, since there is only one of it.
In a certification a process continues with the version that it has tried, while another tries the same columns on the
other version. So each process has one environment, and a slow machine affects both versions alike. The groups of xdist
itself do not work with pytest 9.
"""

from __future__ import annotations

import math
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from docker import DockerClient
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import NodeManager

from infra import lifetime
from infra.cluster import clock_skew
from infra.docker import client, images, machine, reaper
from infra.errors import Trouble
from infra.faults.fault import NO_CLOCK, OURS, PUBLISHED
from infra.suggestions import command
from infra.target import external_cluster
from results.run import Run
from results.stages import ALONE
from results.storage import resumable
from results.storage.run_folder import now
from results.terminal.event_journal import Event, Journal, Tell
from results.text import plain_lines
from suites import terminal
from suites.lanes.lane import Lane
from suites.selection import upgrade_stages
from suites.selection.bad_option import BadOption, raised_as
from suites.selection.parse_options import parse
from suites.selection.selection import Selection, case_id
from suites.selection.trial import Trial, column_in
from suites.terminal import NOT_JUDGED, Terminal, case_of, shared_backends
from suites.trial import resume
from suites.trial.broken_trial import TrialFailed
from suites.trial.case_answer import CaseAnswer
from suites.trial.metadata import described, suite_version
from suites.trial.run_trials import TrialSession
from suites.worker.pool import TrialBroke

WORKERS_END_WITHIN: Final = 30  # seconds; longer than the 15 after which an interrupted process of xdist ends itself


class Product:
    """Registered where the product is run, in the controller and in each process of xdist."""

    def __init__(self, config: pytest.Config, parser: pytest.Parser) -> None:
        """parser: pytest's own, which has parsed the command line. Raises UsageError."""
        self._config = config
        self._worker: dict[str, Any] | None = getattr(config, "workerinput", None)  # None: this is the controller
        self._run: Run | None = None  # None: not open yet
        self._tell: Tell = lambda _: None  # takes events, once the run is open
        self._session: TrialSession | None = None
        self._resumed: Run | None = None  # the run to resume, if one was named
        self._environment_failed = False
        config.option.showcapture = "no"  # client libraries log every fault
        self._only_what_is_there()
        with raised_as(pytest.UsageError, "", BadOption):
            if config.option.resume is not None:
                self._resumed = self._interrupted(parser)
            self._selection = parse(config.option)
        self._side_by_side()

    def _only_what_is_there(self) -> None:
        """Refuse a path that does not exist, such as the second word of `--faults kill-server freeze-holder`, at once.

        Raises UsageError.
        """
        config = self._config
        for arg in config.args:
            if not (config.invocation_params.dir / arg.partition("::")[0]).exists() and not config.option.pyargs:
                hint = "an option takes one value: --faults a,b and --lock a --lock b"
                raise pytest.UsageError(f"file or directory not found: {arg} ({hint})")

    def _interrupted(self, parser: pytest.Parser) -> Run:
        """The run to resume; its options are set again. Raises BadOption."""
        config = self._config
        run = (
            resume.interrupted(config.option.resume, Path(config.option.results))
            if self._worker is None
            else Run.open(Path(self._worker["fencepost_run"]))
        )
        words = list(map(str, config.invocation_params.args))
        resume.take_options(config.option, words, config.invocation_params.dir, run, parser.parse_known_args)
        return run

    def _side_by_side(self) -> None:
        """A certification runs every trial on two versions: two processes by default, unless `-n` says how many."""
        selection, option = self._selection, self._config.option
        certified = selection.stages is not upgrade_stages.ONLY and len(selection.backends) * len(selection.faults) > 1
        unsaid = getattr(option, "numprocesses", 0) is None and option.dist == "no" and not option.usepdb
        if certified and unsaid and self._worker is None:
            option.dist, option.tx = "load", ["2*popen"]

    def pytest_report_header(self) -> list[str]:
        shapes = [f"shape: {backend}={shape}" for backend, shape in self._selection.shapes.items()]
        ahead = [terminal.to_come(self._selection, terminal.processes(self._config))] if self._resumed is None else []
        return [*upgrade_stages.upgrade_lines(self._selection.stages, self._selection.libraries), *shapes, *ahead]

    def pytest_sessionstart(self) -> None:
        """The controller opens the run folder; xdist's workers are told where it is."""
        if self._config.option.collectonly:
            return
        with raised_as(pytest.UsageError, "", Trouble):
            engine = client.connect()
            self._selection = _with_worlds(self._selection, engine)
        engine.close()
        for number in lifetime.SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                signal.signal(number, _terminated)
        if self._worker is not None:
            self._run = Run.join(Path(self._worker["fencepost_run"]))
            self._tell = Journal(self._run.path, self._worker["workerid"]).tell
            return
        with raised_as(pytest.UsageError, "--target ", Trouble):
            for target in self._selection.targets.values():
                external_cluster.check(target)
        self._run, resumed = self._begun()
        self._run.save_not_run(self._selection.not_run())
        self._tell = Journal(self._run.path, "main").tell
        if self._config.pluginmanager.hasplugin("terminalreporter"):
            shown = Terminal(self._config, self._selection, self._run)
            self._config.pluginmanager.register(shown, "fencepost-terminal")
        if resumed is not None:
            self._tell(resumed)

    def _begun(self) -> tuple[Run, Event | None]:
        """The folder of this run and, where it is resumed, the event that says so. Raises UsageError."""
        try:
            if self._resumed is None:
                return Run.create(self._selection.results, self._metadata()), None
            with raised_as(pytest.UsageError, "", BadOption):
                return resume.go_on(self._selection, self._resumed)
        except OSError as error:
            raise pytest.UsageError(f"--results {self._selection.results}: {error.strerror}") from error

    def _metadata(self) -> dict[str, Any]:
        selection = self._selection
        named = [stage for stage in selection.stages if stage.name]
        return {
            "started": now(),
            "command": ["pytest", *self._config.invocation_params.args],
            "seed": selection.seed,
            "profile": selection.profile.name,
            "shard": None if selection.shard is None else str(selection.shard),
            "plans": [plan.to_json() for plan in selection.plans.values()],
            "versions": dict(selection.versions),
            **({"shapes": dict(selection.shapes)} if selection.shapes else {}),
            "stages": {stage.name: dict(stage.versions) for stage in named if not stage.columns},
            **({"libraries": dict(selection.libraries)} if selection.libraries else {}),
            **({"budget": selection.budget} if named else {}),
            "suite": suite_version(),
            "parts": [stage.name for stage in named if any(map(stage.tries, selection.faults))],
            "targets": {
                name: [f"{host}:{port}" for host, port in target.addresses]
                for name, target in selection.targets.items()
            },
            "described": described(selection),
        }

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """xdist: runs in the controller for each worker."""
        if self._run is not None:
            node.workerinput["fencepost_run"] = str(self._run.path)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self) -> None:
        """Runs in the controller. It must outlive its workers, to remove what they leave: see `pytest_unconfigure`."""
        NodeManager.EXIT_TIMEOUT = WORKERS_END_WITHIN

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> ByBackend:
        """xdist: runs in the controller."""
        return ByBackend(self._selection, config, log)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "answer" not in metafunc.fixturenames:
            return
        marker = metafunc.definition.get_closest_marker("property") or metafunc.definition.get_closest_marker("planted")
        assert marker is not None, "a test that takes an answer names its property"
        cases = self._selection.planted_cases() if marker.name == "planted" else self._selection.cases(*marker.args)
        metafunc.parametrize("answer", cases, ids=[case.id for case in cases], indirect=True)

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Order the tests by backend, fault and trial, so that all tests which one trial answers stand together."""
        without = [item for item in items if case_of(item) is None and "answer" in getattr(item, "fixturenames", ())]
        if without:  # pytest's stand-ins for properties that have no case in this run
            config.hook.pytest_deselected(items=without)
            items[:] = [item for item in items if item not in without]

        selection = self._selection
        turns = [upgrade_stages.in_turn(selection.stages, number) for number in range(len(selection.faults))]
        order = [[stage.name for stage in turn] for turn in turns]
        trials = _trials(selection)

        def place(item: pytest.Item) -> tuple[int, ...]:
            case = case_of(item)
            if case is None:
                return (-1, -1, -1, -1)
            trial = trials.get((case.lane, case.fault))
            part = -1 if trial is None else trial.part  # -1: the case cannot be asked
            column = selection.faults.index(case.fault)
            return selection.backends.index(case.lane.backend), column, part, order[column].index(case.stage)

        items.sort(key=place)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Tell which trials there will be; one process does, since all processes of xdist collect the same tests."""
        first = self._worker is None or self._worker["workerid"] == "gw0"
        if self._run is not None and session.items and first:
            for plan in terminal.plans(self._selection, session.items):
                self._tell(plan)

    @pytest.fixture
    def answer(self, request: pytest.FixtureRequest) -> CaseAnswer:
        """The judgement of this test's case. A case that does not apply is skipped with its reason."""
        assert self._run is not None, "tests run in an open run"
        case, run, properties = request.param, self._run, request.node.user_properties
        properties += terminal.place_of(case)
        if case.because is not None:
            pytest.skip(f"not applicable: {plain_lines(case.because)}")
        trials = self._trials(request.session, run)
        try:
            answer = trials.answer(case)
        except Trouble as trouble:
            text = plain_lines(self._selection.masked(str(trouble)))
            properties.append(("environment", text))
            if self._selection.targets:  # not ours to try again
                request.session.shouldstop = text
            raise pytest.fail.Exception(text, pytrace=False) from None
        except OSError as error:  # of the run folder: a full disk, say
            text = f"--results: {error.filename or run.path}: {error.strerror or error}"
            properties.append(("environment", text))
            request.session.shouldstop = text
            raise pytest.fail.Exception(plain_lines(text), pytrace=False) from None
        except (TrialFailed, TrialBroke) as failed:
            if isinstance(failed, TrialFailed):
                properties.append((NOT_JUDGED, "True"))
            raise pytest.fail.Exception(plain_lines(self._selection.masked(str(failed))), pytrace=False) from None
        properties += terminal.verdict_of(answer, run.path)
        return answer

    def _trials(self, session: pytest.Session, run: Run) -> TrialSession:
        """This process's share of the run: an environment, made when it is first needed, closed after the last test."""
        if self._session is None:
            stored = None if self._resumed is None else partial(resume.stored_in, self._resumed)
            number = 1 if self._worker is None else int(self._worker["workercount"])
            processes = dict.fromkeys(shared_backends(self._selection), number)
            self._session = TrialSession(self._selection, run, self._tell, stored, processes)
            session.addfinalizer(self._session.close)
        return self._session

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._environment_failed |= any(name == "environment" for name, _ in report.user_properties)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._environment_failed:
            session.exitstatus = resumable.ENVIRONMENT_FAILED

    def pytest_unconfigure(self) -> None:
        """The controller removes environments whose worker was killed, or was not given the time to remove them."""
        if self._run is None or self._worker is not None:
            return
        try:
            reaper.reap(client.connect())
        except Trouble as trouble:
            machine.say(f"{trouble}; {command('down')} removes what is left")


def _with_worlds(selection: Selection, engine: DockerClient) -> Selection:
    """The selection, with what cannot be done on this machine and to these images. Raises `infra.errors.Trouble`."""
    worlds = dict(selection.worlds)
    if why := selection.python.no_skew:
        worlds = {name: worlds.get(name, OURS).without("skew", why) for name in selection.backends}
    if client.needs_published(engine):
        worlds = {name: worlds.get(name, OURS).without("refusal", PUBLISHED) for name in selection.backends}
    selected = [selection.versions, *(stage.versions for stage in selection.stages)]
    for backend, version in (pair for versions in selected for pair in versions.items()):
        image = images.resolve(backend, version)
        if image.suite is None:  # the user's own
            images.ensure(image)
            if not clock_skew.in_image(engine, image.name):
                worlds[backend] = worlds.get(backend, OURS).without("clock", NO_CLOCK)
    return replace(selection, worlds=worlds)


def _terminated(number: int, _frame: object) -> None:
    """SIGTERM, or a terminal that is closed, ends a run as Ctrl-C does, with everything cleaned up; once is enough."""
    signal.signal(number, lambda *_: None)
    raise KeyboardInterrupt("terminated")  # pytest's own Exit is an Exception, which a trial takes for its own end


def _trials(selection: Selection) -> dict[tuple[Lane, str], Trial]:
    """Lane and column → the trial that tries this lane, among the trials of the column."""
    return {(lane, trial.column): trial for trial in selection.trials() for lane in trial.lanes}


class ByBackend(LoadScopeScheduling):  # type: ignore[misc]
    """A scope is a backend or, for the shared backend, one trial, the longest first: so all processes end together."""

    def __init__(self, selection: Selection, config: pytest.Config, log: Any = None) -> None:
        config.option.loadscopereorder = False  # the scopes with most tests do not take longest
        super().__init__(config, log)
        shared, trials = shared_backends(selection), _trials(selection)
        self._scopes: dict[str, str] = {}
        self._seconds: dict[str, float] = {}  # scope of one trial → about how long this takes
        self._versions: dict[str, str] = {}  # scope → stage, if all of the scope is tried on servers of one version
        for lane in (*selection.lanes, *selection.planted):
            for fault in selection.faults:
                for stage in selection.stages:
                    scope = lane.backend
                    if scope in shared:
                        trial = trials.get((lane, fault))
                        part = 0 if trial is None else trial.part
                        scope = f"{lane.backend} under {column_in(fault, stage.name)}, part {part}"
                        if trial is not None and scope not in self._seconds:
                            self._seconds[scope] = trial.seconds
                        if stage.name in ALONE:
                            self._versions[scope] = stage.name
                    self._scopes[f"{case_id(lane, fault, stage.name)}]"] = scope

    def _split_scope(self, nodeid: str) -> str:
        return self._scopes.get(nodeid.partition("[")[2], "")

    def _assign_work_unit(self, node: Any) -> None:
        """Prefer scopes of the version that the process has tried, then those that need a new environment, then any.
        Where no versions are compared, the longest.
        """
        tried = {self._versions[scope] for scope in self.assigned_work.get(node, ()) if scope in self._versions}

        def rank(scope: str) -> float:
            if not self._versions:
                return -self._seconds.get(scope, math.inf)
            version = self._versions.get(scope)
            return 1 if version is None else 0 if not tried or version in tried else 2

        self.workqueue.move_to_end(min(self.workqueue, key=rank), last=False)
        super()._assign_work_unit(node)
